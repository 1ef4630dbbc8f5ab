"""One agent on a server: its connection, its log-in, and its count of ticks."""

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
from sb3_pvp.games.osrs.remote.connection import LineConnection
from sb3_pvp.games.osrs.remote.fight_setup import SharedState

#: For each log-out, which a server answers at once, or in its next tick: at most as long as for a step. A synchronous
#: world may stand still until it arrives, so one that was lost on the way must be sent again soon.
LOGOUT_TIMEOUT = 5.0
#: In the errors with which a server refuses a log-in: it knows the name already, or does not know the contract.
_LOGIN_ERRORS = ("Agent already exists", "No value present")
#: Seconds between two attempts at most: more would keep a server busy.
LONGEST_PAUSE = 5.0
#: Between two log-outs of an agent for which a world may stand still.
LONGEST_LOGOUT_PAUSE = 0.5
#: How long an agent whose log-in is still to be carried out is logged out again and again.
LOGOUT_RETRY_SECONDS = 600.0


class RemoteAgent:
    """Logs in, fights, and logs out. After a `Lost` it is good for nothing but `leave`.

    Attributes:
        id: its name on the server.
        extra_ticks: how many ticks more than usual were played between its last two steps (rewards.md §3).
        last_call: in which call it sent its last step, see `Surroundings.num_calls`; -1: not since its reset.
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
        """Starts a fight, with a log-in right before it if that is still to be done, within ``reset_timeout``."""
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
        """Plays a tick. `Refused` if the server does not want the step, `Lost` if it does not answer it."""
        self._awaits_reply, self.last_world_step = True, self._shared.num_world_steps
        reply = self._shared.decoder.decode(await self._request(Step(choices), self._settings.step_timeout))
        self._record_reply()
        passed = reply.episode_ticks - self._ticks
        if passed < 1:
            raise Lost("a reply came twice")
        # A reset takes several ticks, so the first step tells nothing.
        self.extra_ticks = passed - 1 if self._steps else 0
        self._steps += 1
        self._ticks = reply.episode_ticks
        return reply

    async def leave(self) -> None:
        """Logs out, over a fresh connection because the old one may be stuck, and hangs up.

        A server that stands still knows nobody whose log-in it has not answered, and carries it out later: then the
        log-out is sent again and again.
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
        """A log-in was sent and no log-out was answered."""
        return self._logged_in

    @property
    def owes_message(self) -> bool:
        """It is in the world, which owes it no answer: a synchronous world waits for it."""
        return self._login_answered and self._logged_in and not self._awaits_reply

    @property
    def has_not_stepped(self) -> bool:
        """No step since the last reset was answered."""
        return not self._steps

    def mark_logged_out(self, known: bool) -> None:
        """A log-out was answered; ``known``: the server had the agent, and not only maybe a log-in still to come."""
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
        self._logged_in = True
        try:
            await self._request_until(deadline, Login(contract))
            self._record_login()
        except Refused as error:
            # Any other error may be the answer to another line, or a spoiled one: the log-in may still be carried out.
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
        """Logs out whoever has the name: if a run that was killed left the same agent behind, a world that waits for it
        answers nothing but this. Usually nobody has, and with that a server says whether its fights are independent."""
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
    """Logs an agent out over a fresh connection; gives up if the server does not answer. One that is gone has none."""
    try:
        known = await _log_out_name(settings, agent.id)
    except NoServer as error:
        known = error.is_gone
        if not known:
            return
    except Lost:
        return
    agent.mark_logged_out(known)


async def _log_out_name(settings: RemoteSettings, agent_id: str) -> bool:
    """Returns whether the server knew the agent; `Lost` if it does not answer."""
    connection = await LineConnection.open(settings)
    try:
        timeout = min(LOGOUT_TIMEOUT, settings.step_timeout)
        line = await connection.request(request_line(Logout(), agent_id), timeout)
        parse_reply(line, "logout")
        return True
    except Refused as error:
        # Any other error is no word on the agent: the line was spoiled on the way.
        if not error.is_unknown_agent:
            raise Lost(str(error)) from error
        return False
    finally:
        connection.close()


async def log_out_stale_agents(settings: RemoteSettings, agent_ids: Iterable[str]) -> None:
    """Logs out agents of a run that is gone; `Lost` if the server does not answer."""
    await asyncio.gather(*(_log_out_name(settings, agent_id) for agent_id in agent_ids))


async def retry_pause(settings: RemoteSettings, attempt: int, longest: float = LONGEST_PAUSE) -> None:
    """The wait before the next attempt."""
    await asyncio.sleep(min(settings.backoff * 2 ** min(attempt, 20), longest))
