"""The agents of a server: what each request does to them (``protocol.md`` §2)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sb3_pvp.rsps.agents import Agent, Message, Reply, State
from sb3_pvp.rsps.arena import Arena, Arenas
from sb3_pvp.rsps.errors import (
    ENVIRONMENT,
    ILLEGAL_STATE,
    RequestError,
    message_already_queued,
    no_transition,
    not_logged_in,
)
from sb3_pvp.rsps.fights import Fight
from sb3_pvp.rsps.messages import EMPTY_REPLY, Request, body_object, body_reply, error_reply, text
from sb3_pvp.rsps.reset_request import BASELINE, ResetRequest, parse_reset
from sb3_pvp.rsps.step_actions import parse_actions

logger = logging.getLogger(__name__)


class Lobby:
    """All agents by id. `handle` takes requests; ``schedule`` is called when `play` has something to do.

    Fights are independent: each one ticks as soon as its agents have sent their messages.
    """

    def __init__(self, arenas: Arenas, schedule: Callable[[], object]) -> None:
        self._arenas = arenas
        self._schedule = schedule
        self._scheduled = False
        self._agents: dict[str, Agent] = {}
        self._handlers: dict[str, Callable[[Request, Reply], None]] = {
            "login": self._login,
            "logout": self._logout,
            "reset": self._reset,
            "step": self._step,
            "debug": self._debug,
        }

    def handle(self, request: Request, reply: Reply) -> None:
        """Does what the request says; ``reply`` is called with the answer, now or in a later tick."""
        try:
            self._handlers[request.action](request, reply)
        except RequestError as error:
            reply(error_reply(error))
        except Exception as error:  # A client must never be able to end the server.
            logger.exception("request failed: %s", request)
            reply(error_reply(RequestError("RuntimeException", str(error))))

    def play(self) -> None:
        """Plays one tick of every fight whose agents are ready."""
        self._scheduled = False
        for arena in self._arenas:
            arena.play_ready()

    def _login(self, request: Request, reply: Reply) -> None:
        agent_id = request.agent_id
        agent_type = body_object(request.body, "body").get("agentType")
        arena = self._arenas["" if agent_type is None else text(agent_type, "agentType")]
        if agent_id in self._agents:
            raise RequestError(ENVIRONMENT, f"Agent already exists with ID: {agent_id}")
        self._agents[agent_id] = Agent(agent_id, arena)
        reply(EMPTY_REPLY)

    def _logout(self, request: Request, reply: Reply) -> None:
        agent = self._agents.pop(request.agent_id, None)
        if agent is None:
            raise RequestError(ILLEGAL_STATE, f"No player found for: {request.agent_id}")
        agent.answer(error_reply(RequestError(ENVIRONMENT, f"Agent logged out: {agent.id}")))
        self._leave(agent)
        reply(EMPTY_REPLY)

    def _reset(self, request: Request, reply: Reply) -> None:
        agent = self._agent(request)
        if agent.message is not None:
            raise message_already_queued()
        self._leave(agent)
        agent.request = parse_reset(request.body)
        agent.message = Message(reply)
        agent.state = State.PENDING_TARGET_MATCH
        if agent.request.target == BASELINE:
            self._start([agent])
        else:
            self._match(agent, agent.request)

    def _match(self, agent: Agent, request: ResetRequest) -> None:
        target = self._agents.get(request.target)
        if target is None or target is agent or target.state is not State.PENDING_TARGET_MATCH:
            return
        if target.request is not None and target.request.target == agent.id:
            self._start([target, agent])

    def _start(self, agents: list[Agent]) -> None:
        try:
            agents[0].arena.player.start(agents)
        except RequestError as error:
            for agent in agents:
                agent.state = State.PENDING
                agent.answer(error_reply(error))

    def _step(self, request: Request, reply: Reply) -> None:
        agent = self._agent(request)
        sent = parse_actions(request.body)
        if agent.message is not None:
            raise message_already_queued()
        if agent.fight is None or agent.state not in (State.STEPPING, State.TERMINAL):
            raise no_transition(agent.state.value, "STEP")
        actions, error = agent.arena.action_check.playable(sent)
        agent.message = Message(reply, actions, error)
        agent.last_message_tick = agent.fight.episode_ticks(agent)
        self._play_soon(agent.arena, agent.fight)

    def _debug(self, request: Request, reply: Reply) -> None:
        reply(body_reply([self._info(agent) for _, agent in sorted(self._agents.items())]))

    def _info(self, agent: Agent) -> dict[str, Any]:
        fight = agent.fight
        info = {
            "id": agent.id,
            "state": agent.state.value,
            "pendingMessage": agent.message is not None,
            "envType": f"{agent.arena.contract.name.removesuffix('Env')}EnvironmentDescriptor",
            "currentEpisodeTicks": 0 if fight is None else fight.episode_ticks(agent),
            "lastMessageTick": agent.last_message_tick,
            "isLoaded": True,
            "isTargetLoaded": fight is not None and fight.target_is_loaded(agent),
        }
        return info if agent.request is None else info | {"target": agent.request.target}

    def _agent(self, request: Request) -> Agent:
        agent = self._agents.get(request.agent_id)
        if agent is None:
            raise not_logged_in(request.agent_id)
        return agent

    def _leave(self, agent: Agent) -> None:
        fight = agent.fight
        agent.arena.player.leave(agent)
        agent.request, agent.last_message_tick = None, 0
        if fight is not None:
            # The opponent may have been waiting for this agent only.
            self._play_soon(agent.arena, fight)

    def _play_soon(self, arena: Arena, fight: Fight) -> None:
        if fight.is_ready():
            arena.ready.append(fight)
            if not self._scheduled:
                self._scheduled = True
                self._schedule()
