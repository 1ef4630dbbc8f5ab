"""Compares what a client says of its fights with what the server's world knows of them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sb3_pvp.game import NUM_SEATS, DesyncReason, Outcome
from sb3_pvp.games.osrs.remote import RemoteSettings, RemoteWorld
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.osrs.sim.state import HITPOINTS, NO_ITEM

#: Fights start with so little health, and nothing to heal with, that most are decided before a fault comes.
HEALTH = 30
_LEARNER = 0
Options = Mapping[str, Any]


class Referee:
    """Knows how the fights on a server ended. ``verdicts`` are outcomes by the ``episodeId`` of the reset request."""

    def __init__(self) -> None:
        self.verdicts: dict[str, Outcome] = {}

    def make_world(self, num_fights: int, seed: int, *, contract: str = "NhEnv") -> SimWorld:
        """A world for the server, compiled."""
        world = _RefereedWorld(self, num_fights, seed, contract)
        world.reset()
        world.step(world.random_actions())
        return world


class _RefereedWorld(SimWorld):
    """Short fights, of whose outcomes the referee is told."""

    def __init__(self, referee: Referee, num_fights: int, seed: int, contract: str) -> None:
        self._referee = referee
        self._episodes: dict[int, list[str]] = {}
        super().__init__(num_fights, seed, contract=contract)

    def reset(self, fights: ArrayLike | None = None, options: Options | Sequence[Options] | None = None) -> None:
        super().reset(fights, options)
        which = range(self.num_fights) if fights is None else np.asarray(fights).tolist()
        for fight, given in zip(which, _one_for_each(options, len(which)), strict=True):
            self.state["inventory"][fight] = NO_ITEM
            self.state["level"][fight, :, HITPOINTS] = HEALTH
            self._episodes[fight] = _episode_ids(given)
            self._referee.verdicts |= dict.fromkeys(self._episodes[fight], Outcome.RUNNING)

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        super().step(actions, fights)
        for fight in np.flatnonzero(self.outcome[:, 0]).tolist():
            for seat, episode in enumerate(self._episodes.pop(fight, [])):
                self._referee.verdicts[episode] = Outcome(int(self.outcome[fight, seat]))


def _episode_ids(options: Options) -> list[str]:
    """One for each seat that is an agent's."""
    params = options.get("seat_reset_params", ())
    agents = 1 if (options.get("bots") or (None, None))[1] else NUM_SEATS
    return [str(seat.get("episodeId")) for seat in params[:agents]]


def _one_for_each(options: Options | Sequence[Options] | None, count: int) -> Sequence[Options]:
    if options is None or isinstance(options, Mapping):
        return [options or {}] * count
    return options


@dataclass
class Findings:
    """What was seen of a client.

    Attributes:
        steps: of learners.
        decided: fights that were won, lost or tied for it ...
        unjudged: ... of which the referee knows nothing, because their name got lost on the way.
        broken: fights that broke off ...
        missed: ... of which so many because a world with a clock played ticks without them, ...
        blamed: ... and so many of these although they were stepped in time.
        wrong: decided fights of which the referee says otherwise, as texts.
        errors: exceptions that escaped, as texts.
        longest: the longest call of each method of the world, seconds.
        call: name of the call that is under way, and when it began, monotonic seconds.
    """

    steps: int = 0
    decided: int = 0
    unjudged: int = 0
    broken: int = 0
    missed: int = 0
    blamed: int = 0
    wrong: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    longest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    call: tuple[str, float] | None = None

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measures a call of a method."""
        start = time.monotonic()
        self.call = name, start
        try:
            yield
        finally:
            self.call = None
            self.longest[name] = max(self.longest[name], time.monotonic() - start)


class WatchedWorld(RemoteWorld):
    """A remote world that gives each fight a name, and compares its outcome with the referee's verdict.

    Args:
        settings: where it is.
        referee: of that server.
        findings: where to write down what is seen.
        name: of no other world on that server.
        patience: a world with a clock that is stepped again within so many seconds has missed no fight.
        options: the other arguments of `RemoteWorld`.
    """

    def __init__(
        self, settings: RemoteSettings, referee: Referee, findings: Findings, name: str, patience: float, **options: Any
    ) -> None:
        super().__init__(settings, **options)
        self._referee = referee
        self._findings = findings
        self._name = name
        self._num_episodes = 0
        self._names: dict[int, str] = {}
        self._patience = patience
        self._last_step = 0.0

    def reset(self, fights: ArrayLike | None = None, options: Options | Sequence[Options] | None = None) -> None:
        """As in `RemoteWorld`; reset parameters are left out."""
        which = np.arange(self.num_fights) if fights is None else np.asarray(fights)
        given = _one_for_each(options, len(which))
        named = [self._named(fight, each) for fight, each in zip(which.tolist(), given, strict=True)]
        with self._findings.timed("reset"):
            super().reset(which, named)

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        """As in `RemoteWorld`."""
        before = self.outcome[:, _LEARNER].copy()
        previous, self._last_step = self._last_step, time.monotonic()
        with self._findings.timed("step"):
            super().step(actions, fights)
        for fight in np.flatnonzero(before != self.outcome[:, _LEARNER]).tolist():
            self._judge(fight, time.monotonic() - previous < self._patience)

    def close(self) -> None:
        """As in `RemoteWorld`."""
        with self._findings.timed("close"):
            super().close()

    def _named(self, fight: int, options: Options) -> dict[str, Any]:
        self._num_episodes += 1
        self._names[fight] = f"{self._name}-{self._num_episodes}"
        params = tuple({"episodeId": self._episode_id(fight, seat)} for seat in range(NUM_SEATS))
        return {**options, "seat_reset_params": params}

    def _episode_id(self, fight: int, seat: int) -> str:
        return f"{self._names[fight]}-{seat}"

    def _judge(self, fight: int, in_time: bool) -> None:
        outcomes = [Outcome(int(outcome)) for outcome in self.outcome[fight]]
        if outcomes[_LEARNER] >= Outcome.TARGET_LOST:
            has_missed = bool(self.desync_reason[fight, _LEARNER] == DesyncReason.TICK)
            self._findings.broken += 1
            self._findings.missed += has_missed
            self._findings.blamed += has_missed and in_time
            return
        # Against the server's bot the second seat has no verdict.
        verdicts = [self._referee.verdicts.get(self._episode_id(fight, seat)) for seat in range(NUM_SEATS)]
        self._findings.decided += 1
        self._findings.unjudged += verdicts[_LEARNER] is None
        if any(verdict not in (outcome, None) for outcome, verdict in zip(outcomes, verdicts, strict=True)):
            said, known = ([getattr(each, "name", None) for each in both] for both in (outcomes, verdicts))
            self._findings.wrong.append(f"fight {self._names[fight]} counts as {said}, but is {known}")
