"""Worlds: fights between two seats in arrays, what happened in a tick, and the rewards for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sb3_pvp.game.contract import Contract

NUM_SEATS = 2


class WorldError(RuntimeError):
    """Raised when a world cannot continue, or only too slowly; the message says what to do."""


class Outcome(IntEnum):
    """The result of a fight from one seat's point of view. `TARGET_LOST` and `DESYNC` are aborted fights: no result."""

    RUNNING = 0
    WON = 1
    LOST = 2
    TIED = 3
    TARGET_LOST = 4  # the opponent disappeared
    DESYNC = 5  # agent and server are out of step, see `DesyncReason`


def as_other_sees(outcome: str) -> str:
    """Returns the name of an outcome, such as ``"won"``, as the other seat sees it."""
    return {"won": "lost", "lost": "won"}.get(outcome, outcome)


def result_of(first: int, second: int) -> str:
    """Returns the result of a fight that is over, by the `Outcome` numbers of both seats, as the first one sees it.

    A fight that still runs has come to a limit: ``"timeout"``. One that both have won, in games where both may die at
    the same time, is a tie.
    """
    if first == Outcome.RUNNING:
        return "timeout"
    return Outcome.TIED.name.lower() if first == second == Outcome.WON else Outcome(first).name.lower()


class DesyncReason(IntEnum):
    """The cause of an `Outcome.DESYNC`."""

    NONE = 0
    TICK = 1  # the world played ticks without this seat's actions
    TIME = 2  # the actions arrived too late
    CONNECTION = 3  # the server closed the connection, most likely because it was shut down
    IDLE = 4  # no step for so long that the agents logged out, so that the server need not wait for them


class World(Protocol):
    """F fights between two seats, stepped together.

    The arrays below are allocated once; `reset` and `step` overwrite them in place, so readers must copy what they
    keep. A finished fight keeps its outcome until it is reset.

    Worlds may implement more: `Resumable`, `Reseedable`, `Copyable`, `Leavable`, `Grouped`, and these optional
    attributes:

    * ``desync_reason``: `DesyncReason` numbers ``(F, 2)``;
    * ``bot_name``: the name of the world's own bot, by default ``"baseline"``;
    * ``empty_heads``: if true, the mask of a head may be all false; its first action is legal then.
    """

    contract: Contract
    num_fights: int
    obs: NDArray[np.float32]  #: Observations, ``(F, 2, num_observations)``.
    #: Flat action masks, ``(F, 2, num_flat_actions)``. In a turn-based game the waiting seat has one legal action.
    masks: NDArray[np.bool_]
    outcome: NDArray[np.uint8]  #: `Outcome` numbers, ``(F, 2)``.
    ticks: NDArray[Any]  #: Ticks since the last reset, ints ``(F,)``.
    #: The game's own record of the tick, ``(F, 2)``, read by its rewards, metrics and viewer; may have no fields.
    report: NDArray[np.void]

    def reset(
        self, fights: ArrayLike | None = None, options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Starts new fights. Raises `ValueError`, and changes nothing, for wrong fights or options.

        Args:
            fights: their numbers or a bool array ``(F,)``; ``None``: all.
            options: one mapping for all of them, or one per fight. Common keys: ``seed`` (if shared, the k-th of
                these fights gets ``seed + k``), ``reset_params`` of both seats or ``seat_reset_params`` (a pair), and
                ``bots`` (a pair, not ``None`` for a seat that the world itself plays).
        """

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """Plays one tick with ``actions``, ints ``(F, 2, heads)`` or ``(len(fights), 2, heads)``; else `ValueError`.

        Masked choices are valid: the world decides what they do.
        """

    def close(self) -> None:
        """Releases sockets, processes and the like."""


@runtime_checkable
class Resumable(Protocol):
    """A world that can be restored to an earlier moment. Only then can a training run be resumed exactly."""

    def get_state(self) -> dict[str, Any]:
        """Returns a copy of everything that the further course depends on, as plain values and arrays."""

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state of `get_state`; `ValueError`, and no change, if it belongs to something else."""


@runtime_checkable
class Reseedable(Protocol):
    """A world in which chance can begin anew within a fight, so that one moment can have many futures."""

    def reseed(self, fights: ArrayLike, seeds: Sequence[int]) -> None:
        """Lets all that chance decides in these fights from now on follow from ``seeds``, one for each fight.

        Nothing else changes: what has been rolled already, such as a card that lies face down, stays. Fights in equal
        states with equal seeds then go on alike. Raises `ValueError`, and changes nothing, for wrong fights or seeds.
        """


@runtime_checkable
class Copyable(Protocol):
    """A world whose fights can be copied into another one, so that a search can play on from any moment."""

    def copy_fights(self, fights: ArrayLike, source: Any, others: ArrayLike) -> None:
        """Sets fights to the moment of ``others``, as many, in ``source``: a world of the same game, maybe this one.

        What chance decides from then on does not follow from the generators there: nobody can look ahead into it.
        Raises `ValueError`, and changes nothing, for wrong fights and for a world of another game.
        """


@runtime_checkable
class Leavable(Protocol):
    """A world in which other players would wait for a seat that is no longer stepped, such as a shared server."""

    def leave(self, fights: ArrayLike) -> None:
        """Takes the agents out of these fights until their next reset."""


@runtime_checkable
class Grouped(Protocol):
    """A world with several kinds of fights, for which results are reported separately."""

    def build_name(self, fight: int) -> str:
        """Returns the kind of the current fight."""


@dataclass(frozen=True)
class Transition:
    """One tick of N seats, as copies: it stays valid when the world is stepped."""

    report: NDArray[np.void]  #: The reports ``(N,)``, see `World.report`.
    previous: NDArray[np.void]  #: The reports of the tick before, ``(N,)``.
    has_previous: NDArray[np.bool_]  #: False in the first tick of an episode, where `previous` is meaningless.
    outcome: NDArray[np.uint8]  #: `Outcome` numbers ``(N,)``.

    @classmethod
    def nothing(cls, count: int, dtype: np.dtype[np.void]) -> Transition:
        """Returns an all-zero transition, for before the first tick."""
        return cls(*(np.zeros(count, each) for each in (dtype, dtype, bool, np.uint8)))


class Rewards(Protocol):
    """Computes the reward of a tick as a sum of named terms, for a whole batch at once."""

    @property
    def terms(self) -> Mapping[str, str]:
        """The terms by name, with a one-sentence description each, in the order of the rows of `compute`."""

    @property
    def tags(self) -> Mapping[str, str]:
        """For each key of `figures` the name of its weight."""

    def weights(self, changes: Any = None) -> Any:
        """Returns the default weights, updated with ``changes``: numbers, schedules, or the result of an earlier call.

        The result can be pickled and compared. `ValueError` for unknown names and invalid values.
        """

    def at(self, weights: Any, trained_rollouts: int) -> Any:
        """Evaluates the schedules at ``trained_rollouts``, for `compute`; called only when that number changes."""

    def figures(self, weights: Any, trained_rollouts: int) -> Mapping[str, float]:
        """Returns the weights as numbers, for the log."""

    def compute(self, transition: Transition, weights: Any) -> NDArray[np.float32]:
        """Returns the terms, a new float32 ``(terms, N)``, 0 for aborted fights; ``weights`` come from `at`."""
