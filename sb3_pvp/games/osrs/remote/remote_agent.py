"""One agent on a server: its connection, its log-in, and its tick counter."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.remote.address import RemoteSettings
from sb3_pvp.games.osrs.remote.client_errors import Lost, NoServer, Refused
from sb3_pvp.games.osrs.remote.client_replies import FightReply, parse_reply
from sb3_pvp.games.osrs.remote.client_requests import AgentRequest, Login, Logout, Reset, Step, request_line
from sb3_pvp.games.osrs.remote.fight_setup import SharedState
from sb3_pvp.games.osrs.remote.line_connection import LineConnection

#: Seconds for the reply to a log-out, at most ``step_timeout``. Short, although servers answer at once or in the next
#: tick: a synchronous world may be blocked until the log-out arrives, so one that got lost must be sent again soon.
LOGOUT_TIMEOUT = 5.0
#: Parts of the errors that answer a log-in: the id is logged in already, or the contract is unknown.
_LOGIN_ERRORS = ("Agent already exists", "No value present")
#: Maximum seconds between two attempts. Not shorter: repeated log-outs of many agents would keep a server busy.
LONGEST_PAUSE = 5.0
#: The same between two log-outs of an agent that other fights may wait for.
LONGEST_LOGOUT_PAUSE = 0.5
#: Seconds for which log-outs are repeated while the server may still carry out the agent's log-in.
LOGOUT_RETRY_SECONDS = 600.0


class RemoteAgent:
    """Logs in, fights, and logs out. After a `Lost` only `leave` may be called.

    Attributes:
        id: its name on the server.
        extra_ticks: ticks between its last two steps, beyond the usual one (rewards.md §3).
        last_world_step: `SharedState.num_world_steps` at its last step; -1: none since its reset.
    """

    def __init__(self, agent_id: str, shared: SharedState) -> None:
        self.id = agent_id
        self.extra_ticks = 0
        self.last_world_step = -1
        self._shared = shared
        self._settings = shared.settings
        self._connection: LineConnection | None = None
        self._logged_in = False
        self._login_answered = False
        self._awaits_reply = False
        self._ticks = 0
        self._steps = 0

    async def reset(self, request: Reset) -> FightReply:
        """Starts a fight within ``reset_timeout``, and connects and logs in first if that is still to be done."""
        # Log-in and reset must be back to back: a synchronous world waits for the reset as soon as the log-in is
        # carried out (protocol-observed.md, surprise 1).
        deadline = time.monotonic() + self._settings.reset_timeout
        if self._connection is None:
            self._connection = await LineConnection.open(self._settings)
            self._shared.server_reached()
        if not self._logged_in:
            await self._log_in(deadline)
        self._awaits_reply, self.last_world_step = True, -1
        reply = self._shared.decoder.decode(await self._request_until(deadline, request))
        self._record_reply()
        if reply.outcome is not Outcome.RUNNING:
            raise Lost("the reset was answered with the end of the fight before")
        self._ticks, self._steps, self.extra_ticks = reply.episode_ticks, 0, 0
        return reply

    async def step(self, choices: list[int]) -> FightReply:
        """Plays a tick; raises `Refused` if the server refuses the step, and `Lost` if it does not answer it."""
        self._awaits_reply, self.last_world_step = True, self._shared.num_world_steps
        reply = self._shared.decoder.decode(await self._request(Step(choices), self._settings.step_timeout))
        self._record_reply()
        passed = reply.episode_ticks - self._ticks
        if passed < 1:
            raise Lost("the tick of a reply is not after the last one: a reply came twice")
        # Not for the first step: a reset takes several ticks.
        self.extra_ticks = passed - 1 if self._steps else 0
        self._steps += 1
        self._ticks = reply.episode_ticks
        return reply

    async def leave(self) -> None:
        """Logs out over a new connection, because the old one may be stuck, and closes the old one.

        A blocked synchronous server carries out log-ins later and does not know these agents until then, so the log-out
        of an agent whose log-in was not answered is repeated.
        """
        self.hang_up()
        deadline = time.monotonic() + LOGOUT_RETRY_SECONDS
        attempt = 0
        while self._logged_in and time.monotonic() < deadline:
            if attempt:
                others_wait = self._shared.not_independent.is_set()
                await retry_pause(self._settings, attempt, LONGEST_LOGOUT_PAUSE if others_wait else LONGEST_PAUSE)
            attempt += 1
            await log_out(self._settings, self)

    def hang_up(self) -> None:
        """Closes the connection; the agent stays logged in."""
        if self._connection is not None:
            self._connection.close()

    @property
    def is_logged_in(self) -> bool:
        """Whether a log-in was sent and no log-out was answered since."""
        return self._logged_in

    @property
    def owes_message(self) -> bool:
        """Whether a synchronous world waits for it: it is logged in and has no unanswered message."""
        return self._login_answered and self._logged_in and not self._awaits_reply

    @property
    def is_at_start(self) -> bool:
        """Whether no step was answered since the last reset."""
        return not self._steps

    def mark_logged_out(self, known: bool) -> None:
        """Records the reply to a log-out; ``known``: the server had the agent.

        One that it did not know stays logged in if its log-in was not answered: that may still be carried out.
        """
        if known or self._login_answered:
            self._logged_in = False
            self._shared.guard.forget(self.id)

    def _record_reply(self) -> None:
        self._awaits_reply = False
        self._shared.num_replies += 1

    async def _log_in(self, deadline: float) -> None:
        await self._free_id(deadline)
        contract = self._shared.contract.name
        self._shared.guard.watch(self.id)
        self._logged_in = True  # Before the reply, which may be lost although the log-in is carried out.
        try:
            await self._request_until(deadline, Login(contract))
            self._record_login()
        except Refused as error:
            # Any other error may answer a line that was corrupted on the way; the log-in may still be carried out.
            if any(words in error.message for words in _LOGIN_ERRORS):
                self._record_login()
            if "No value present" in error.message:
                reason = f"{self._settings.host_port} does not play the contract {contract} ({error.message})"
                raise Refused("login", reason) from error
            raise

    def _record_login(self) -> None:
        self._login_answered = True
        self._shared.guard.confirm_login(self.id)

    async def _free_id(self, deadline: float) -> None:
        """Logs out another agent with this id, which a killed run may have left behind: a synchronous world waits for
        it and answers log-outs only. Usually there is none, and the error reports whether fights are independent."""
        try:
            await self._request_until(deadline, Logout())
        except Refused as error:
            if error.is_unknown_agent:
                self._shared.record_independence(error.independent_fights)

    async def _request_until(self, deadline: float, request: AgentRequest) -> Any:
        return await self._request(request, max(deadline - time.monotonic(), 0.0))

    async def _request(self, request: AgentRequest, timeout: float) -> Any:
        assert self._connection is not None
        line = await self._connection.request(request_line(request, self.id), timeout)
        return parse_reply(line, request.action)


async def log_out(settings: RemoteSettings, agent: RemoteAgent) -> None:
    """Makes one attempt to log an agent out, over a new connection, and records the result on the agent."""
    try:
        known = await _log_out_id(settings, agent.id)
    except NoServer as error:
        # Without a server process there is no agent; a server that is only unreachable may still have it.
        known = error.is_gone
        if not known:
            return
    except Lost:
        return
    agent.mark_logged_out(known)


async def _log_out_id(settings: RemoteSettings, agent_id: str) -> bool:
    """Logs an agent out and returns whether the server knew it; raises `Lost` if the server does not answer."""
    connection = await LineConnection.open(settings)
    try:
        timeout = min(LOGOUT_TIMEOUT, settings.step_timeout)
        line = await connection.request(request_line(Logout(), agent_id), timeout)
        parse_reply(line, "logout")
        return True
    except Refused as error:
        # Any other error says nothing about the agent: the line was corrupted on the way.
        if not error.is_unknown_agent:
            raise Lost(str(error)) from error
        return False
    finally:
        connection.close()


async def log_out_stale_agents(settings: RemoteSettings, agent_ids: Iterable[str]) -> None:
    """Logs out agents of a killed run; raises `Lost` if the server does not answer."""
    await asyncio.gather(*(_log_out_id(settings, agent_id) for agent_id in agent_ids))


async def retry_pause(settings: RemoteSettings, attempt: int, longest: float = LONGEST_PAUSE) -> None:
    """Waits before the next attempt: ``backoff`` seconds, doubled with each ``attempt``, at most ``longest``."""
    # The inner limit keeps the power in the range of a float, however often a gone server is tried.
    await asyncio.sleep(min(settings.backoff * 2 ** min(attempt, 20), longest))
