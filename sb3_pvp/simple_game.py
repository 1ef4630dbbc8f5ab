"""Parts that most games can use: a world's arrays and the options of its resets, a reward for outcomes, metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.common.arguments import POSITIVE
from sb3_pvp.common.checks import check_seed
from sb3_pvp.common.names import require_all_known
from sb3_pvp.common.snapshots import Snapshot, check_arrays, check_identity, copies, put_back
from sb3_pvp.contract import Contract
from sb3_pvp.contract.actions import fight_numbers, joint_actions
from sb3_pvp.game import NUM_SEATS, Outcome, Rewards, Transition
from sb3_pvp.schedules import Schedule, parse_schedule


class ArrayWorld:
    """The arrays of a `sb3_pvp.game.World`, and one random generator for each fight.

    A game's world is what it does in `begin` and `play_fight`; worlds that play all fights at once override `step`.
    Its own bot, ``"baseline"``, plays at random. Snapshots have its random numbers and arrays, also those of
    subclasses; what else changes is for their own `get_state` and `set_state`.

    Fight ``i`` is seeded with ``seed + i``; ``report`` has the fields of the report, as NumPy's dtypes take them.
    """

    #: What `begin` makes use of in the options of resets, besides ``seed`` and ``bots``; others are refused.
    reset_options: ClassVar[tuple[str, ...]] = ("reset_params",)

    def __init__(self, contract: Contract, num_fights: int, seed: int = 0, report: Sequence[Any] = ()) -> None:
        self.contract, self.num_fights = contract, POSITIVE.read("num_fights", num_fights)
        shape = (num_fights, NUM_SEATS)
        self.obs = np.zeros((*shape, contract.num_observations), np.float32)
        self.masks = np.ones((*shape, contract.num_flat_actions), np.bool_)
        self.outcome = np.zeros(shape, np.uint8)
        self.ticks = np.zeros(num_fights, np.int64)
        self.report: NDArray[np.void] = np.zeros(shape, np.dtype(list(report)))
        self.bots = np.zeros(shape, np.bool_)
        self.random = [np.random.default_rng(seed + fight) for fight in range(num_fights)]

    def reset(
        self, fights: ArrayLike | None = None, options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        for fight, given in list(_starts(fights, self.num_fights, options, self.reset_options)):
            if given.get("seed") is not None:
                self.random[fight] = np.random.default_rng(given["seed"])
            self.outcome[fight], self.ticks[fight] = Outcome.RUNNING, 0
            self.bots[fight] = [each is not None for each in given.get("bots") or (None, None)]
            self.begin(fight, given)

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """See `sb3_pvp.game.World.step`; nothing happens in fights that are over."""
        which = fight_numbers(fights, self.num_fights)
        for fight, pair in zip(which.tolist(), joint_actions(actions, len(which), self.contract), strict=True):
            if not self.outcome[fight].any():
                self.ticks[fight] += 1
                for seat in np.flatnonzero(self.bots[fight]):
                    pair[seat] = self.contract.random_action(self.masks[fight, seat], self.random[fight])
                self.play_fight(fight, pair)

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        """Shows the start of a fight."""

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        """Plays a tick of one fight with the actions ``(2, heads)``."""
        raise NotImplementedError

    def end(self, fight: int, first: float, second: float) -> None:
        """The fight is over; whoever has more points has won."""
        ends = (Outcome.TIED, Outcome.TIED) if first == second else (Outcome.WON, Outcome.LOST)
        self.outcome[fight] = ends if first >= second else ends[::-1]

    def close(self) -> None:
        """Nothing to release."""

    def get_state(self) -> Snapshot:
        words = [each.bit_generator.state for each in self.random]
        return {**_identity(self), "random": words, "arrays": copies(self, _own_arrays(self))}

    def set_state(self, state: Mapping[str, Any]) -> None:
        check_identity(state, _identity(self))
        names, arrays = _own_arrays(self), state["arrays"]
        check_arrays(self, arrays, names)
        put_back(self, arrays, names)
        for each, words in zip(self.random, state["random"], strict=True):
            each.bit_generator.state = words


# Functions, since subclasses might use names of methods, however private, for something else.
def _starts(
    fights: ArrayLike | None, num_fights: int, options: Any, known: tuple[str, ...]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    which = fight_numbers(fights, num_fights).tolist()
    shared = isinstance(options, Mapping) or options is None
    listed = [options or {}] * len(which) if shared else list(options)
    if len(listed) != len(which):
        raise ValueError(f"{len(listed)} mappings of options were given for {len(which)} fights")
    for number, (fight, each) in enumerate(zip(which, listed, strict=True)):
        require_all_known("reset option", each, ("seed", "bots", *known))
        seed = check_seed(each.get("seed"))
        yield fight, {**each, "seed": seed + number if shared and seed is not None else seed}


def _identity(world: ArrayWorld) -> dict[str, Any]:
    what = {"contract": world.contract.name, "num_fights": world.num_fights}
    return {"kind": type(world).__name__, "version": 1, **what}


def _own_arrays(world: ArrayWorld) -> list[str]:
    return [name for name, each in vars(world).items() if isinstance(each, np.ndarray) and each.flags.writeable]


class OutcomeRewards:
    """A reward for the outcome of a fight, and for nothing else: numbers or schedules of finished rollouts.

    ``defaults``: other weights than 1 for ``win``, -1 for ``lose`` and 0 for ``tie``.
    """

    terms: ClassVar[Mapping[str, str]] = {"win": "A fight won.", "lose": "A fight lost.", "tie": "A fight tied."}
    tags: ClassVar[Mapping[str, str]] = {f"{name}_reward": name for name in terms}
    _ends: ClassVar = np.array([[Outcome.WON], [Outcome.LOST], [Outcome.TIED]], np.uint8)

    def __init__(self, defaults: Mapping[str, Any] | None = None) -> None:
        self._defaults: Mapping[str, Any] = {"win": 1.0, "lose": -1.0, "tie": 0.0}
        self._defaults = self.weights(defaults)

    def weights(self, changes: Mapping[str, Any] | None = None) -> dict[str, Schedule]:
        require_all_known("reward", changes or {}, self._defaults)
        return {name: parse_schedule(value) for name, value in {**self._defaults, **(changes or {})}.items()}

    def at(self, weights: Mapping[str, Schedule], trained_rollouts: int) -> NDArray[np.float32]:
        """The three weights ``(3, 1)``."""
        return np.array([[each] for each in self.figures(weights, trained_rollouts).values()], np.float32)

    def figures(self, weights: Mapping[str, Schedule], trained_rollouts: int) -> dict[str, float]:
        return {tag: float(weights[name](trained_rollouts)) for tag, name in self.tags.items()}

    def compute(self, transition: Transition, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.where(transition.outcome == self._ends, weights, np.float32(0.0))


@dataclass(frozen=True)
class Ticks:
    """Ticks of learners, those of all fights in one row; M of them are intact, and E fights ended in them."""

    report: NDArray[np.void]  #: Records ``(M,)`` of intact ticks, see `sb3_pvp.game.World.report`.
    previous: NDArray[np.void]  #: Of the tick before each.
    has_previous: NDArray[np.bool_]  #: False at the start of an episode.
    outcome: NDArray[np.uint8]  #: `Outcome` numbers ``(M,)``.
    endings: NDArray[np.uint8]  #: `Outcome` numbers ``(E,)`` of the fights that ended, `Outcome.RUNNING` for a timeout.
    reasons: NDArray[np.uint8]  #: `DesyncReason` numbers ``(E,)``.
    last: NDArray[np.void]  #: The records of the last tick of the K fights that were decided.
    lengths: NDArray[np.int64]  #: How many ticks of these the learner has played ``(K,)``.
    durations: NDArray[np.float64]  #: ``(8, K)``, see `sb3_pvp.envs.metrics.DURATIONS`.


Series = Callable[[Ticks], NDArray[Any]]  #: The values of a metric; none where there is nothing to tell.
Statistic = Literal["mean", "sum", "std", "count", "number"]


@dataclass(frozen=True)
class Metric:
    """One number per rollout."""

    tag: str  #: Its name in the log.
    statistic: Statistic  #: Of the values; ``"number"``: how many of them are true, left out if none is.
    series: Series
    meaning: str  #: One sentence.


@dataclass
class ReportMetrics:
    """What is logged of a game's reports, see `sb3_pvp.game.Metrics`."""

    table: Sequence[Metric] = ()
    values: Sequence[str] = ()
    optional: Mapping[str, Sequence[str]] = field(default_factory=dict)


def named_terms(rewards: Rewards, values: NDArray[np.float32]) -> dict[str, float]:
    """The terms of one fight's reward, ``(terms,)``, by name; only those that are not zero."""
    names = tuple(rewards.terms)
    return {names[row]: float(values[row]) for row in np.flatnonzero(values)}
