"""A check for those who write worlds: call it in a test."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.game import NUM_SEATS, Outcome, World

_RUNNING, _WON, _LOST, _TIED, *_BROKEN = Outcome
#: How the two seats may see the same end; in some games both can win.
_ENDS = {(_RUNNING, _RUNNING), (_WON, _LOST), (_LOST, _WON), (_WON, _WON), (_TIED, _TIED)}


def check_world(world: World, ticks: int = 300, seed: int = 0, seeded: bool = True) -> None:
    """Checks that a world keeps the promises of `sb3_pvp.game.World`, with random legal actions.

    Shapes and kinds of all arrays, a legal action for every head (unless the world has ``empty_heads``), agreement of
    the two seats about the end, fights that stay over, the same course after the same seed, and refusal of wrong
    seeds, options and actions. All fights are reset. Raises `AssertionError` with the promise that is broken.

    Args:
        world: any world; its fights are played by two agents.
        ticks: how long to play.
        seed: of the fights and of the actions.
        seeded: a seed determines the course of the fights; false for a server, which has its own random numbers.
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
    first = _play(world, ticks, seed)
    second = _play(world, ticks, seed) if seeded else first
    for name, before in first.items():
        same = before.tobytes() == second[name].tobytes()
        assert same, f"{name} differs after the same seed and the same actions"
    for wrong in (-1, 1.5, float("nan"), "one"):
        assert_value_error(partial(world.reset, options={"seed": wrong}), f"reset with seed {wrong!r}")
    assert_value_error(partial(world.reset, options={"no_such_option": 1}), "reset with an unknown option")
    for actions, fault in wrong_actions(seats, world.contract):
        assert_value_error(partial(world.step, actions), f"step with {fault}")
    for name in ("obs", "masks", "outcome"):
        assert np.array_equal(second[name], getattr(world, name)), f"refused input must not change {name}"


def _play(world: World, ticks: int, seed: int) -> dict[str, NDArray[Any]]:
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
    return {name: getattr(world, name).copy() for name in ("obs", "masks", "report", "outcome")}


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
    """Actions ``(*leading, heads)`` that are none, and what is wrong with them."""
    right = np.zeros((*leading, contract.num_heads), np.int64)
    return [
        (right[..., :-1], "an action that is too short"),
        (right.astype(np.float64), "an action of floats"),
        (right - 1, "negative choices"),
        (right + np.asarray(contract.head_sizes), "choices that their heads do not have"),
    ]


def assert_value_error(call: Callable[[], object], what: str) -> None:
    """Raises `AssertionError` unless the call raises `ValueError`."""
    try:
        call()
    except ValueError:
        return
    except Exception as error:
        raise AssertionError(f"{what} must raise ValueError, it raised {type(error).__name__}: {error}") from error
    raise AssertionError(f"{what} must raise ValueError, it was accepted")
