"""The agents of a server: log-ins, the matching of opponents, and the log-out of silent agents.

The two kinds of lobbies, `SynchronousLobby` and `TickedLobby`, differ in when messages take effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from sb3_pvp.common.errors import shown
from sb3_pvp.games.osrs.remote.agents import Fight, Reply, State, WireAgent
from sb3_pvp.games.osrs.remote.messages import EMPTY_REPLY, WireRequest, body_object, body_reply, error_reply, text
from sb3_pvp.games.osrs.remote.reset_request import ATTACKER, BASELINE, ResetRequest, parse_reset
from sb3_pvp.games.osrs.remote.served_games import ServedGame, ServedGames
from sb3_pvp.games.osrs.remote.wire_errors import (
    ENVIRONMENT,
    ILLEGAL_STATE,
    WireRequestError,
    different_types,
    no_attackers,
    not_logged_in,
    own_target,
)

logger = logging.getLogger(__name__)


class Lobby:
    """All agents by id, and the handlers of `login`, `logout` and `debug` (``protocol.md`` §2)."""

    #: Fights wait neither for each other nor for a clock. Error replies report this: clients may then wait for a start
    #: without having to step other agents.
    has_independent_fights = False

    def __init__(self, games: ServedGames) -> None:
        self._games = games
        self._agents: dict[str, WireAgent] = {}
        self._now = 0.0

    def handle(self, request: WireRequest, reply: Reply) -> None:
        """Handles a request; ``reply`` is called with the answer, once, now or in a later tick."""
        raise NotImplementedError

    def log_out_silent(self, now: float, timeout: float) -> None:
        """Logs out agents that wait for no reply and have sent nothing for ``timeout`` seconds, which frees their
        opponents; the reference server waits forever. A message counts from the ``now`` (seconds) of the last call."""
        self._now = now
        for agent in list(self._agents.values()):
            # An agent that waits for an opponent may be silent, as long as its connection is open.
            if agent.message is not None and agent.message.reply is not _discard_reply:
                agent.last_heard = now
            elif now - agent.last_heard >= timeout:
                logger.info("agent %s was silent for %g s", agent.id, now - agent.last_heard)
                self._log_out(agent)

    def drop_reply(self, reply: Reply) -> None:
        """Discards answers for a connection that is gone. Its agents stay, and so do their messages."""
        for agent in self._agents.values():
            # `==`, since each access to a method makes a new bound method.
            if agent.message is not None and agent.message.reply == reply:
                agent.message.reply = _discard_reply

    def _game(self, agent: WireAgent) -> ServedGame:
        return self._games[agent.agent_type]

    def _call_handler(self, handler: Callable[[WireRequest, Reply], None], request: WireRequest, reply: Reply) -> None:
        try:
            handler(request, reply)
        except WireRequestError as error:
            reply(error_reply(error, self.has_independent_fights))
        except Exception as error:  # A client must never be able to end the server.
            logger.exception("request failed: %s", shown(request))
            reply(error_reply(WireRequestError("RuntimeException", str(error))))

    def _handle_login(self, request: WireRequest, reply: Reply) -> None:
        agent_id = request.agent_id
        agent_type = body_object(request.body, "body").get("agentType")
        agent_type = "" if agent_type is None else text(agent_type, "agentType")
        _ = self._games[agent_type]  # makes the world, or raises `WireRequestError`
        if agent_id in self._agents:
            raise WireRequestError(ENVIRONMENT, f"Agent already exists with ID: {agent_id}")
        self._agents[agent_id] = WireAgent(agent_id, agent_type, last_heard=self._now)
        reply(EMPTY_REPLY)

    def _handle_logout(self, request: WireRequest, reply: Reply) -> None:
        agent = self._agents.get(request.agent_id)
        if agent is None:
            raise WireRequestError(ILLEGAL_STATE, f"No player found for: {request.agent_id}")
        self._log_out(agent)
        reply(EMPTY_REPLY)

    def _log_out(self, agent: WireAgent) -> None:
        del self._agents[agent.id]
        agent.refuse(WireRequestError(ENVIRONMENT, f"Agent logged out: {agent.id}"))
        self._leave(agent)

    def _handle_debug(self, request: WireRequest, reply: Reply) -> None:
        reply(body_reply([self._debug_info(agent) for _, agent in sorted(self._agents.items())]))

    def _debug_info(self, agent: WireAgent) -> dict[str, Any]:
        info = {
            "id": agent.id,
            "state": agent.state.value,
            "pendingMessage": agent.message is not None,
            "envType": f"{agent.agent_type.removesuffix('Env')}EnvironmentDescriptor",
            "currentEpisodeTicks": self._episode_ticks(agent),
            "lastMessageTick": agent.last_message_tick,
            "isLoaded": True,
            "isTargetLoaded": agent.fight is not None and agent.fight.target_is_loaded(agent),
        }
        return info if agent.request is None else info | {"target": agent.request.target}

    def _episode_ticks(self, agent: WireAgent) -> int:
        return 0 if agent.fight is None else agent.fight.episode_ticks(agent)

    def _sender(self, request: WireRequest) -> WireAgent:
        agent = self._agents.get(request.agent_id)
        if agent is None:
            raise not_logged_in(request.agent_id)
        agent.last_heard = self._now
        return agent

    def _reset_request(self, agent: WireAgent, body: Any) -> ResetRequest:
        """Parses the body of a reset; raises `WireRequestError` for a target that this server does not support."""
        request = parse_reset(body, agent.agent_type)
        if request.target == ATTACKER:
            raise no_attackers()
        if request.target == agent.id:
            raise own_target(agent.id)
        target = self._agents.get(request.target)
        if target is not None and target.agent_type != agent.agent_type:
            types = agent.agent_type, target.agent_type
            error = different_types(agent.id, types[0], target.id, types[1])
            if self._waits_for(target, agent):  # In vain, as is only known now that this agent has its type.
                self._stop_waiting(target, error)
            raise error
        return request

    def _waits_for(self, agent: WireAgent, target: WireAgent) -> bool:
        return (
            agent.state is State.PENDING_TARGET_MATCH
            and agent.request is not None
            and agent.request.target == target.id
        )

    def _stop_waiting(self, agent: WireAgent, error: WireRequestError) -> None:
        agent.state = State.PENDING
        agent.refuse(error)

    def _match(self, agent: WireAgent, request: ResetRequest) -> None:
        """Starts the agent's fight if its opponent is logged in and waits for it (``protocol.md`` §5.5)."""
        if request.target == BASELINE:
            self._start([agent])
            return
        target = self._agents.get(request.target)
        if target is not None and self._waits_for(target, agent):
            self._start([target, agent])

    def _start(self, agents: list[WireAgent]) -> None:
        try:
            self._game(agents[0]).player.start(agents)
        except WireRequestError as error:
            for agent in agents:
                self._stop_waiting(agent, error)

    def _leave(self, agent: WireAgent) -> None:
        fight = agent.fight
        self._game(agent).player.leave(agent)
        agent.request, agent.last_message_tick = None, 0
        if fight is not None:
            # The fight may be ready now: the opponent no longer has to wait for a message of this agent.
            self._play_soon(self._game(agent), fight)

    def _play_soon(self, game: ServedGame, fight: Fight) -> None:
        """Called when an agent of this fight has sent a message or left."""


def _discard_reply(line: bytes) -> None:
    """Replaces the reply of a connection that is gone."""
