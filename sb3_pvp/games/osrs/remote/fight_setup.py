"""How a remote fight is started, and what the fights of a remote world share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sb3_pvp.contract import Contract
from sb3_pvp.games.osrs.remote.address import RemoteSettings
from sb3_pvp.games.osrs.remote.agent_ids import AgentIds
from sb3_pvp.games.osrs.remote.client_errors import NoServer, RemoteError
from sb3_pvp.games.osrs.remote.client_replies import ReplyDecoder
from sb3_pvp.games.osrs.remote.guard import Guard

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FightOptions:
    """How a fight is started; one mapping of reset parameters for each seat."""

    seat_reset_params: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
    against_world: bool = False
    training: bool = True
    death_match: bool = True
    maintain_target_environment: bool = True


@dataclass
class SharedState:
    """What the fights of a world share.

    Attributes:
        departures: log-outs that are under way.
        fights_wait: set as soon as the server has shown that it is none whose fights are independent: in a synchronous
            world they wait for each other, and a world with a clock waits for nobody. Cleared as soon as it says that
            they are.
        broken_off: numbers of fights that broke off, or were given up, of which the learner does not know yet.
        num_calls: how often the world was stepped.
        num_replies: how many replies to resets and steps came.
    """

    settings: RemoteSettings
    contract: Contract
    ids: AgentIds
    guard: Guard
    pending_logouts: set[asyncio.Task[None]] = field(default_factory=set)
    not_independent: asyncio.Event = field(default_factory=asyncio.Event)
    broken_off: set[int] = field(default_factory=set)
    num_world_steps: int = 0
    num_replies: int = 0
    _says_independent: bool = False
    _was_reached: bool = False
    _unreachable_since: float | None = None

    def __post_init__(self) -> None:
        self.decoder = ReplyDecoder(self.contract)

    def record_independence(self, independent: bool) -> None:
        """The server has answered. One that has said once that its fights are independent is believed: later answers
        that lack this were spoiled on the way, and an answer like that may have come first."""
        self._says_independent |= independent
        if self._says_independent:
            self.not_independent.clear()
        else:
            self.not_independent.set()

    def server_reached(self) -> None:
        """A connection was accepted."""
        self._was_reached, self._unreachable_since = True, None

    def server_unreachable(self, error: NoServer) -> None:
        """No connection was accepted: raises the error if it is of no use to wait for a restart of the server."""
        limit, now = self.settings.restart_timeout, time.monotonic()
        if not self._was_reached or not limit:
            raise error
        self._says_independent = False  # it may be another one that comes back
        if self._unreachable_since is None:
            logger.warning("%s is gone; waiting up to %g s for its return", self.settings.host_port, limit)
            self._unreachable_since = now
        elif now - self._unreachable_since > limit:
            raise RemoteError(f"{error}; it was gone for {limit:g} s (?restart_timeout=... waits longer)") from error
