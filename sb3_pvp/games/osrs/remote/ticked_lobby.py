"""A world with a clock, which ticks without waiting for its agents (``protocol.md`` §5 and §6.4).

A tick handles log-ins, log-outs and `debug` first, then every agent's turn, then the fights, then the expiry of silent
agents. Requests are answered in the next tick; only those that cannot be queued are refused at once.
"""

from __future__ import annotations

import logging

from sb3_pvp.common.errors import shown
from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.remote.agents import Fight, Message, Reply, State, WireAgent
from sb3_pvp.games.osrs.remote.lobby import Lobby
from sb3_pvp.games.osrs.remote.messages import WireRequest
from sb3_pvp.games.osrs.remote.reset_request import BASELINE
from sb3_pvp.games.osrs.remote.served_games import ServedGame, ServedGames
from sb3_pvp.games.osrs.remote.step_actions import parse_actions
from sb3_pvp.games.osrs.remote.wire_errors import (
    WireRequestError,
    message_already_queued,
    no_transition,
    too_many_ticks,
)

logger = logging.getLogger(__name__)

#: Ticks that an agent may miss (protocol.md §6.5).
MISSED_TICKS_ALLOWED = 3
#: Ticks from a death until the dead fighter is gone, and the wait before a reset after that (§5.3).
DYING_TICKS = 3
WAIT_AFTER_DEATH = 5
#: Ticks between two checks for silent agents, and ticks of silence after which these are logged out (§6.5).
EXPIRY_INTERVAL = 10
EXPIRY_TICKS = 1000

_DEATHS = (Outcome.WON.name, Outcome.LOST.name)


class TickedLobby(Lobby):
    """Queues messages for the next call of `tick`, which a clock makes."""

    def __init__(self, games: ServedGames) -> None:
        super().__init__(games)
        self._tasks: list[tuple[WireRequest, Reply]] = []
        self._task_handlers = {"login": self._handle_login, "logout": self._handle_logout, "debug": self._handle_debug}
        #: Number of the tick that is being played, or of the next one.
        self._tick = 0

    def handle(self, request: WireRequest, reply: Reply) -> None:
        """Queues the request for the next tick, or refuses it."""
        if request.action in self._task_handlers:
            self._tasks.append((request, reply))
        else:
            self._call_handler(self._queue_message, request, reply)

    def tick(self) -> None:
        """Plays one tick of the whole world."""
        tasks, self._tasks = self._tasks, []
        for request, reply in tasks:
            self._call_handler(self._task_handlers[request.action], request, reply)
        # A fight that starts in this tick plays its first tick in the next one.
        fights = {agent.fight: self._game(agent) for agent in self._agents.values() if agent.fight is not None}
        for agent in list(self._agents.values()):
            self._take_turn(agent)
        self._play({fight: game for fight, game in fights.items() if fight.agents})
        if self._tick % EXPIRY_INTERVAL == 0:
            self._log_out_expired()
        self._tick += 1

    def _handle_login(self, request: WireRequest, reply: Reply) -> None:
        super()._handle_login(request, reply)
        self._agents[request.agent_id].counts.episode_start = self._tick

    def _queue_message(self, request: WireRequest, reply: Reply) -> None:
        agent = self._sender(request)
        if request.action == "step":
            parse_actions(request.body)  # Refuses a malformed body at once: it costs no tick.
        if agent.message is not None:
            raise message_already_queued()
        agent.message = Message(reply, request=request)
        agent.last_message_tick = self._episode_ticks(agent)

    def _episode_ticks(self, agent: WireAgent) -> int:
        return max(0, self._tick - agent.counts.episode_start)

    def _take_turn(self, agent: WireAgent) -> None:
        message = agent.message
        try:
            if message is None or message.request is None:
                agent.counts.missed += agent.state is State.STEPPING
            elif message.request.action == "step":
                self._take_step(agent, message, message.request)
            else:
                self._advance_reset(agent, message.request)
        except WireRequestError as error:
            agent.refuse(error)
        except Exception as error:  # A client must never be able to end the server.
            logger.exception("message failed: %s", shown(message))
            agent.refuse(WireRequestError("RuntimeException", str(error)))

    def _take_step(self, agent: WireAgent, message: Message, request: WireRequest) -> None:
        if agent.fight is None or agent.state not in (State.STEPPING, State.TERMINAL):
            raise no_transition(agent.state.value, "STEP")
        if agent.state is State.STEPPING and agent.counts.missed > MISSED_TICKS_ALLOWED:
            raise too_many_ticks(agent.counts.missed, agent.id)
        agent.counts.missed = 0
        message.actions, message.error = self._game(agent).action_check.playable(parse_actions(request.body))

    def _advance_reset(self, agent: WireAgent, request: WireRequest) -> None:
        # Several of these stages may be passed in one tick (protocol.md §5.1).
        if agent.request is None or agent.state in (State.PENDING, State.STEPPING, State.TERMINAL):
            self._leave(agent)
            agent.request = self._reset_request(agent, request.body)
            agent.state = State.PROCESSING_RESET
        if agent.state is State.PROCESSING_RESET and self._can_reset(agent):
            agent.state = State.PENDING_TARGET_MATCH
            agent.counts.missed, agent.counts.episode_start = 0, self._tick + 1
        if agent.state is State.PENDING_TARGET_MATCH:
            agent.last_message_tick = self._episode_ticks(agent)
            # The world's bot joins one tick later (protocol.md §5.3).
            if agent.request.target != BASELINE or agent.counts.episode_start <= self._tick:
                self._match(agent, agent.request)

    def _can_reset(self, agent: WireAgent) -> bool:
        # The wait starts over in each tick of dying, and is counted down after it (protocol.md §5.3).
        counts = agent.counts
        if self._tick < counts.dying_until:
            counts.wait = WAIT_AFTER_DEATH
        elif counts.wait == 0:
            return True
        else:
            counts.wait -= 1
        return False

    def _start(self, agents: list[WireAgent]) -> None:
        for agent in agents:
            agent.counts.waited = self._tick + 1 - agent.counts.episode_start if len(agents) > 1 else 0
        super()._start(agents)

    def _play(self, fights: dict[Fight, ServedGame]) -> None:
        undecided = [agent for fight in fights for agent in fight.agents if agent.ending is None]
        for game in self._games:
            game.player.play([fight for fight, its_game in fights.items() if its_game is game])
        for agent in undecided:
            if agent.ending is not None and agent.ending.outcome in _DEATHS:
                agent.counts.dying_until = self._tick + DYING_TICKS

    def _log_out_expired(self) -> None:
        for agent in list(self._agents.values()):
            if self._episode_ticks(agent) - agent.last_message_tick > EXPIRY_TICKS:
                logger.info("agent %s sent nothing for %d ticks", agent.id, EXPIRY_TICKS)
                self._log_out(agent)
