"""Options of a remote fight, and the state that the fights of a remote world share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sb3_pvp.game.contract import Contract
from sb3_pvp.games.osrs.remote.address import RemoteSettings
from sb3_pvp.games.osrs.remote.agent_ids import AgentIds
from sb3_pvp.games.osrs.remote.client_errors import NoServer, RemoteError
from sb3_pvp.games.osrs.remote.client_replies import ReplyDecoder
from sb3_pvp.games.osrs.remote.guard import Guard

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FightOptions:
    """Options of a reset, with reset parameters for each seat; ``against_world``: the server plays seat 1."""

    seat_reset_params: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
    against_world: bool = False
    training: bool = True
    death_match: bool = True
    maintain_target_environment: bool = True


@dataclass
class SharedState:
    """State that the fights of a world share.

    Attributes:
        pending_logouts: log-outs under way.
        not_independent: set once the server has answered without reporting independent fights: a synchronous server,
            whose fights wait for each other, or one with a clock. Cleared once it does report them.
        broken_off: indices of fights that broke off or were abandoned, which `RemoteWorld.step` has not reported yet.
        num_world_steps: how often the world was stepped.
        num_replies: number of replies to resets and steps.
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
        """Records whether an error reply of the server reports independent fights. One such reply settles it: others
        that lack the report, earlier or later, were corrupted on the way."""
        self._says_independent |= independent
        if self._says_independent:
            self.not_independent.clear()
        else:
            self.not_independent.set()

    def server_reached(self) -> None:
        """Records that a connection was accepted."""
        self._was_reached, self._unreachable_since = True, None

    def server_unreachable(self, error: NoServer) -> None:
        """Records that no connection was accepted; raises the error if the server was never reached, and a
        `RemoteError` after ``restart_timeout`` seconds."""
        limit, now = self.settings.restart_timeout, time.monotonic()
        if not self._was_reached or not limit:
            raise error
        self._says_independent = False  # Another kind of server may come back.
        if self._unreachable_since is None:
            logger.warning("%s cannot be reached; waiting up to %g s for a restart", self.settings.host_port, limit)
            self._unreachable_since = now
        elif now - self._unreachable_since > limit:
            raise RemoteError(f"{error}; it was gone for {limit:g} s (?restart_timeout=... waits longer)") from error
