"""Compares the outcomes of fights that a client reports with those in the server's world."""

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

#: Fights start with little health and without food, so that most are decided before a fault breaks them off.
HEALTH = 30
_LEARNER = 0
Options = Mapping[str, Any]


class Referee:
    """Collects the true outcomes of a server's fights in ``verdicts``, by the ``episodeId`` of the reset request."""

    def __init__(self) -> None:
        self.verdicts: dict[str, Outcome] = {}

    def make_world(self, num_fights: int, seed: int, *, contract: str = "NhEnv") -> SimWorld:
        """A world for the server, compiled."""
        world = _RefereedWorld(self, num_fights, seed, contract)
        world.reset()
        world.step(world.random_actions())
        return world


class _RefereedWorld(SimWorld):
    """Plays short fights and reports their outcomes to the referee."""

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
            # Known from the start, so that a result that a client reports too early is wrong.
            self._referee.verdicts |= dict.fromkeys(self._episodes[fight], Outcome.RUNNING)

    def step(self, actions: ArrayLike, fights: ArrayLike | None = None) -> None:
        super().step(actions, fights)
        for fight in np.flatnonzero(self.outcome[:, 0]).tolist():
            for seat, episode in enumerate(self._episodes.pop(fight, [])):
                self._referee.verdicts[episode] = Outcome(int(self.outcome[fight, seat]))


def _episode_ids(options: Options) -> list[str]:
    """The episode ids of the seats that agents have; the server's bot has none."""
    params = options.get("seat_reset_params", ())
    agents = 1 if (options.get("bots") or (None, None))[1] else NUM_SEATS
    return [str(seat.get("episodeId")) for seat in params[:agents]]


def _one_for_each(options: Options | Sequence[Options] | None, count: int) -> Sequence[Options]:
    if options is None or isinstance(options, Mapping):
        return [options or {}] * count
    return options


@dataclass
class Findings:
    """What was observed of a client.

    Attributes:
        steps: of learners.
        decided: fights that were won, lost or tied for the client.
        unjudged: decided fights that the referee does not know, because their name was lost on the way.
        broken: fights that broke off.
        missed: broken fights in which a world with a clock played ticks without the client.
        blamed: missed fights that the client had stepped in time.
        wrong: decided fights with another outcome at the referee, as texts.
        errors: exceptions that escaped, as texts.
        longest: duration of the longest call of each method of the world, seconds.
        call: name and start of the current call, monotonic seconds.
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
    """A remote world that names each fight and compares its outcome with the referee's.

    Args:
        settings: address of the server.
        referee: of that server.
        findings: collects the observations.
        name: unique among the worlds of that server.
        patience: seconds between two steps within which a client of a server with a clock misses no ticks.
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
        """As in `RemoteWorld`, but each fight gets a name in place of other reset parameters."""
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
        if outcomes[_LEARNER] >= Outcome.TARGET_LOST:  # these outcomes are fights that broke off
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
