"""Base classes for games of your own: a world in arrays, and a reward for the outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict

from sb3_pvp.common.arguments import POSITIVE, check_seed, read_model
from sb3_pvp.common.errors import require_all_known
from sb3_pvp.common.schedules import Schedule, parse_schedule
from sb3_pvp.common.snapshots import Snapshot, check_arrays, check_identity, copy_arrays, restore_arrays
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.contract.turn import fight_numbers, fight_seeds, joint_actions
from sb3_pvp.game.world import NUM_SEATS, Outcome, Rewards, Transition


class NoParams(BaseModel):
    """The game has no reset parameters."""

    model_config = ConfigDict(extra="forbid")


class ArrayWorld:
    """Base class of a `sb3_pvp.game.World`: allocates the arrays, checks arguments, and plays one fight after another.

    Subclasses implement `begin` and `play_fight`, or `play_fights` for one that plays all fights at once. The
    world's own bot, ``"baseline"``, moves at random.

    `get_state` saves, and `set_state` restores, the random generators and all attributes that are writeable arrays.
    A subclass with other state extends both, and one with other random generators extends `reseed`. Fight ``i`` is
    seeded with ``seed + i``; ``report`` has the fields of `World.report`, as for ``np.dtype``.
    """

    #: The reset options that `begin` supports, besides ``seed`` and ``bots``; others are refused.
    reset_options: ClassVar[tuple[str, ...]] = ("reset_params",)
    #: What the reset parameters of a reset must be; with ``None``, `check_options` sees to that.
    params_model: ClassVar[type[BaseModel] | None] = None

    def __init__(self, contract: Contract, num_fights: int, seed: int = 0, report: Sequence[Any] = ()) -> None:
        self.contract, self.num_fights = contract, POSITIVE.read("num_fights", num_fights)
        shape = (num_fights, NUM_SEATS)
        self.obs = np.zeros((*shape, contract.num_observations), np.float32)
        self.masks = np.ones((*shape, contract.num_flat_actions), np.bool_)
        self.outcome = np.zeros(shape, np.uint8)
        self.ticks = np.zeros(num_fights, np.int64)
        self.report: NDArray[np.void] = np.zeros(shape, np.dtype(list(report)))
        self.bots = np.zeros(shape, np.bool_)
        # One generator per fight, so that a fight does not depend on how many others are played beside it.
        self.random = [np.random.default_rng(seed + fight) for fight in range(num_fights)]

    def reset(
        self, fights: ArrayLike | None = None, options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """See `sb3_pvp.game.World.reset`."""
        listed = list(_options_by_fight(fights, self.num_fights, options, self.reset_options))
        for _, given in listed:  # all are checked before the first fight is changed
            self.check_options(given)
        for fight, given in listed:
            if given.get("seed") is not None:
                self.random[fight] = np.random.default_rng(given["seed"])
            self.outcome[fight], self.ticks[fight] = Outcome.RUNNING, 0
            self.bots[fight] = [each is not None for each in given["bots"]]
            self.begin(fight, given)

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """See `sb3_pvp.game.World.step`; finished fights are skipped."""
        which = fight_numbers(fights, self.num_fights)
        chosen = joint_actions(actions, len(which), self.contract)
        # A finished fight keeps everything as it was, so that its end can be read until it is reset.
        rows = np.flatnonzero(~self.outcome[which].any(axis=1))
        which, chosen = which[rows], chosen[rows]  # a copy: the caller's actions stay as they are
        self.ticks[which] += 1
        # By the fight's own generator, so that its bot does the same whoever plays beside it.
        for seat in np.flatnonzero(self.bots[which].any(axis=0)):
            played = self.bots[which, seat]
            generators = [self.random[fight] for fight in which[played]]
            chosen[played, seat] = self.contract.random_action(self.masks[which[played], seat], generators)
        self.play_fights(which, chosen)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raises `ValueError` for options of `reset` with which `begin` could set up no fight."""
        if self.params_model is not None and "reset_params" in options:
            read_model(self.params_model, options["reset_params"], "reset parameter")

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Sets up a fight: writes its first observations and masks. ``options`` are those of `reset`."""

    def play_fights(self, fights: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """Plays one tick of these fights ``(N,)``, none of which is over, with the actions ``(N, 2, heads)``."""
        for fight, pair in zip(fights.tolist(), actions, strict=True):
            self.play_fight(fight, pair)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        """Plays one tick of a fight with the actions ``(2, heads)`` of both seats."""
        raise NotImplementedError

    def end(self, fight: int, first: float, second: float) -> None:
        """Ends a fight: the seat with more points has won, equal points are a tie."""
        ends = (Outcome.TIED, Outcome.TIED) if first == second else (Outcome.WON, Outcome.LOST)
        self.outcome[fight] = ends if first >= second else ends[::-1]

    def reseed(self, fights: ArrayLike, seeds: Sequence[int]) -> None:
        """See `sb3_pvp.game.Reseedable`."""
        which = fight_numbers(fights, self.num_fights).tolist()
        for fight, seed in zip(which, fight_seeds(seeds, len(which)), strict=True):
            # Not of the seed alone: no future should repeat the numbers after a `reset` with its seed.
            self.random[fight] = np.random.default_rng([seed, 1])

    def copy_fights(self, fights: ArrayLike, source: Any, others: ArrayLike) -> None:
        """See `sb3_pvp.game.Copyable`: copies rows of all writeable arrays; a subclass with other state extends it.

        Which seats the world's bot plays stays as it is.
        """
        if type(source) is not type(self) or source.contract.name != self.contract.name:
            raise ValueError(f"fights of {type(source).__name__} cannot be copied into {type(self).__name__}")
        which, of = fight_numbers(fights, self.num_fights), fight_numbers(others, source.num_fights)
        if len(which) != len(of):
            raise ValueError(f"{len(of)} fights cannot be copied into {len(which)}")
        for name in set(_own_arrays(self)) - {"bots"}:
            vars(self)[name][which] = vars(source)[name][of]

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def get_state(self) -> Snapshot:
        """Returns the random generators and arrays, see `sb3_pvp.game.Resumable`."""
        words = [each.bit_generator.state for each in self.random]
        return {**_identity(self), "random": words, "arrays": copy_arrays(self, _own_arrays(self))}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state of `get_state`; `ValueError`, and no change, if it was taken from a different world."""
        check_identity(state, _identity(self))
        names, arrays = _own_arrays(self), state["arrays"]
        check_arrays(self, arrays, names)
        restore_arrays(self, arrays, names)
        for each, words in zip(self.random, state["random"], strict=True):
            each.bit_generator.state = words


# These are functions because a subclass may give any private method name a different meaning.
def _options_by_fight(
    fights: ArrayLike | None, num_fights: int, options: Any, known: tuple[str, ...]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the number of each fight with its checked options; a shared seed grows by one from fight to fight."""
    which = fight_numbers(fights, num_fights).tolist()
    shared = isinstance(options, Mapping) or options is None
    listed = [options or {}] * len(which) if shared else list(options)
    if len(listed) != len(which):
        raise ValueError(f"{len(listed)} mappings of options were given for {len(which)} fights")
    for number, (fight, each) in enumerate(zip(which, listed, strict=True)):
        require_all_known("reset option", each, ("seed", "bots", *known))
        seed, bots = check_seed(each.get("seed")), each.get("bots") or (None,) * NUM_SEATS
        if not isinstance(bots, tuple | list) or len(bots) != NUM_SEATS:
            raise ValueError(f"bots must be a pair, a name or None for each seat, not {bots!r}")
        yield fight, {**each, "bots": bots, "seed": seed + number if shared and seed is not None else seed}


def _identity(world: ArrayWorld) -> dict[str, Any]:
    what = {"contract": world.contract.name, "num_fights": world.num_fights}
    return {"kind": type(world).__name__, "version": 1, **what}


def _own_arrays(world: ArrayWorld) -> list[str]:
    # Read-only arrays are constants of the game, not state.
    return [name for name, each in vars(world).items() if isinstance(each, np.ndarray) and each.flags.writeable]


class OutcomeRewards:
    """Rewards the outcome only: 1 for ``win``, -1 for ``lose``, 0 for ``tie``, or other numbers or schedules."""

    terms: ClassVar[Mapping[str, str]] = {"win": "A fight won.", "lose": "A fight lost.", "tie": "A fight tied."}
    tags: ClassVar[Mapping[str, str]] = {f"{name}_reward": name for name in terms}
    _ends: ClassVar = np.array([[Outcome.WON], [Outcome.LOST], [Outcome.TIED]], np.uint8)

    def __init__(self, defaults: Mapping[str, Any] | None = None) -> None:
        self._defaults: Mapping[str, Any] = {"win": 1.0, "lose": -1.0, "tie": 0.0}
        self._defaults = self.weights(defaults)

    def weights(self, changes: Mapping[str, Any] | None = None) -> dict[str, Schedule]:
        """Returns the weights as schedules, see `sb3_pvp.game.Rewards.weights`."""
        require_all_known("reward", changes or {}, self._defaults)
        return {name: parse_schedule(value) for name, value in {**self._defaults, **(changes or {})}.items()}

    def at(self, weights: Mapping[str, Schedule], trained_rollouts: int) -> NDArray[np.float32]:
        """Returns the three weights, float32 ``(3, 1)``."""
        return np.array([[each] for each in self.figures(weights, trained_rollouts).values()], np.float32)

    def figures(self, weights: Mapping[str, Schedule], trained_rollouts: int) -> dict[str, float]:
        """Returns the weights by tag."""
        return {tag: float(weights[name](trained_rollouts)) for tag, name in self.tags.items()}

    def compute(self, transition: Transition, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the terms, float32 ``(3, N)``."""
        # `_ends` is a column: comparing it with the N outcomes gives one row per term.
        return np.where(transition.outcome == self._ends, weights, np.float32(0.0))


def named_terms(rewards: Rewards, values: NDArray[np.float32]) -> dict[str, float]:
    """Returns the non-zero terms of one reward, ``values`` ``(terms,)``, by name."""
    return {name: value for name, value in zip(rewards.terms, values.tolist(), strict=True) if value}
