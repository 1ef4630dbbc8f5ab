"""`check_world`, for the tests of a game of your own, as `check_env` is for environments in Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import Contract
from sb3_pvp.game.world import NUM_SEATS, Outcome, World

_RUNNING, _WON, _LOST, _TIED, *_BROKEN = Outcome
#: Consistent outcomes of the two seats; some games let both win.
_ENDS = {(_RUNNING, _RUNNING), (_WON, _LOST), (_LOST, _WON), (_WON, _WON), (_TIED, _TIED)}


def check_world(world: World, ticks: int = 300, seed: int = 0, seeded: bool = True) -> None:
    """Checks that a world implements `sb3_pvp.game.World`, by random legal actions; raises `AssertionError` if not.

    It checks shapes and dtypes of all arrays; that every head has a legal action (unless the world has
    ``empty_heads``); that both seats agree on the outcome; that finished fights stay finished; that the same seed gives
    the same fights; and that wrong seeds, options and actions are refused without any change, as are unknown reset
    parameters, unless the world takes any.

    Args:
        world: the world to check; all its fights are reset.
        ticks: the number of ticks to play.
        seed: of the fights and of the actions.
        seeded: whether a seed determines the fights; false for a server with its own random numbers.
    """
    seats = (world.num_fights, NUM_SEATS)
    expected: dict[str, tuple[tuple[int, ...], Any]] = {
        "obs": ((*seats, world.contract.num_observations), np.float32),
        "masks": ((*seats, world.contract.num_flat_actions), np.bool_),
        "outcome": (seats, np.uint8),
        "report": (seats, np.void),
        "ticks": ((world.num_fights,), np.integer),
    }
    for name, (shape, kind) in expected.items():
        array = getattr(world, name)
        assert array.shape == shape, f"{name} must have shape {shape}, has {array.shape}"
        assert np.issubdtype(array.dtype, kind), f"{name} must be {kind.__name__}, is {array.dtype}"
    first = _play_randomly(world, ticks, seed)
    # A second time in the same world: state that a reset leaves behind would show as a difference.
    second = _play_randomly(world, ticks, seed) if seeded else first
    for name, before in first.items():
        same = before.tobytes() == second[name].tobytes()  # bytes, so that equal NaNs in a report count as equal
        assert same, f"{name} differs after the same seed and the same actions"
    for wrong in (-1, 1.5, float("nan"), "one"):
        assert_value_error(partial(world.reset, options={"seed": wrong}), f"reset with seed {wrong!r}")
    assert_value_error(partial(world.reset, options={"no_such_option": 1}), "reset with an unknown option")
    # Wrong for the last fight only: none of those before it may be changed either.
    strange: list[dict[str, Any]] = [{"seed": seed} for _ in range(world.num_fights)]
    strange[-1]["reset_params"] = {"no_such_parameter": 1}
    with suppress(ValueError):
        world.reset(options=strange)
        second = _copies(world)  # of a world that takes any parameters
    # After the fights, so that what a refused call changes would show in arrays that are known.
    for actions, fault in wrong_actions(seats, world.contract):
        assert_value_error(partial(world.step, actions), f"step with {fault}")
    for name in ("obs", "masks", "outcome", "ticks"):
        assert np.array_equal(second[name], getattr(world, name)), f"refused input must not change {name}"


def _play_randomly(world: World, ticks: int, seed: int) -> dict[str, NDArray[Any]]:
    """Plays with random legal actions, checking every tick, and returns copies of all arrays at the end."""
    rng = np.random.default_rng(seed)
    world.reset(options={"seed": seed})
    assert (world.outcome == Outcome.RUNNING).all(), "after a reset every fight must be running"
    _check_tick(world)
    for _ in range(ticks):
        outcome, played = world.outcome.copy(), world.ticks.copy()
        world.step(world.contract.random_action(world.masks, rng))
        _check_tick(world)
        over, running = outcome != Outcome.RUNNING, (world.outcome == Outcome.RUNNING).all(axis=1)
        same = (world.outcome[over] == outcome[over]).all()
        assert same, "a fight that is over must keep its outcome until it is reset"
        assert ((world.ticks - played)[running] == 1).all(), "ticks must grow by one with every tick"
    return _copies(world)


def _copies(world: World) -> dict[str, NDArray[Any]]:
    return {name: getattr(world, name).copy() for name in ("obs", "masks", "report", "outcome", "ticks")}


def _check_tick(world: World) -> None:
    assert np.isfinite(world.obs).all(), "observations must be finite"
    running = (world.outcome == Outcome.RUNNING).all(axis=1)
    for head, allowed in zip(world.contract.heads, world.contract.split_mask(world.masks[running]), strict=True):
        has_choice = getattr(world, "empty_heads", False) or allowed.any(axis=-1).all()
        assert has_choice, f"masks must leave every seat an action of head {head.id!r}"
    for pair in {tuple(map(Outcome, row)) for row in world.outcome.tolist()}:
        broken = any(seat in _BROKEN for seat in pair) and Outcome.RUNNING not in pair
        assert broken or pair in _ENDS, f"the seats disagree about the outcome: {pair[0].name} and {pair[1].name}"


def wrong_actions(leading: tuple[int, ...], contract: Contract) -> list[tuple[Any, str]]:
    """Returns invalid actions, about ``(*leading, heads)``, each with a description of the fault."""
    right, numbers = np.zeros((*leading, contract.num_heads), contract.action_dtype), contract.numbers.size
    wrong = [
        (right[..., :-1], "an action that is too short"),
        (right + np.nan, "an action of NaN") if numbers else (right.astype(np.float64), "an action of floats"),
    ]
    if numbers < contract.num_heads:
        wrong += [
            (right - 1, "negative choices"),
            (right + np.asarray(contract.head_sizes), "choices that their heads do not have"),
        ]
    return wrong


def assert_value_error(call: Callable[[], object], what: str) -> None:
    """Raises `AssertionError` unless the call, described by ``what``, raises `ValueError`."""
    try:
        call()
    except ValueError:
        return
    except Exception as error:
        raise AssertionError(f"{what} must raise ValueError, it raised {type(error).__name__}: {error}") from error
    raise AssertionError(f"{what} must raise ValueError, it was accepted")
