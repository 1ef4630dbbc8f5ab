"""A world that waits for its agents. Unlike on the reference server, each fight waits for its own agents only."""

from __future__ import annotations

from collections.abc import Callable

from sb3_pvp.games.osrs.remote.agents import Fight, Message, Reply, State
from sb3_pvp.games.osrs.remote.lobby import Lobby
from sb3_pvp.games.osrs.remote.messages import WireRequest
from sb3_pvp.games.osrs.remote.served_games import ServedGame, ServedGames
from sb3_pvp.games.osrs.remote.step_actions import parse_actions
from sb3_pvp.games.osrs.remote.wire_errors import message_already_queued, no_transition


class SynchronousLobby(Lobby):
    """Plays a tick of a fight soon after its agents have sent their messages; answers all other requests at once.

    ``schedule`` is called whenever a fight is ready, with whether all others in play are ready as well. It must have
    `play` called soon (see `Gathering`).
    """

    has_independent_fights = True

    def __init__(self, games: ServedGames, schedule: Callable[[bool], object]) -> None:
        super().__init__(games)
        self._schedule = schedule
        self._num_ready = 0
        self._handlers: dict[str, Callable[[WireRequest, Reply], None]] = {
            "login": self._handle_login,
            "logout": self._handle_logout,
            "reset": self._handle_reset,
            "step": self._handle_step,
            "debug": self._handle_debug,
        }

    def handle(self, request: WireRequest, reply: Reply) -> None:
        """Handles a request; ``reply`` is called with the answer, now or when the fight has ticked."""
        self._call_handler(self._handlers[request.action], request, reply)

    def play(self) -> None:
        """Plays one tick of every fight whose agents are ready."""
        self._num_ready = 0
        for game in self._games:
            game.play_ready()

    def _handle_reset(self, request: WireRequest, reply: Reply) -> None:
        agent = self._sender(request)
        if agent.message is not None:
            raise message_already_queued()
        self._leave(agent)
        # After leaving: a reset ends the fight even if its body is refused.
        agent.request = wanted = self._reset_request(agent, request.body)
        agent.message = Message(reply)
        agent.state = State.PENDING_TARGET_MATCH
        self._match(agent, wanted)

    def _handle_step(self, request: WireRequest, reply: Reply) -> None:
        agent = self._sender(request)
        sent = parse_actions(request.body)
        if agent.message is not None:
            raise message_already_queued()
        if agent.fight is None or agent.state not in (State.STEPPING, State.TERMINAL):
            raise no_transition(agent.state.value, "STEP")
        actions, error = self._game(agent).action_check.playable(sent)
        agent.message = Message(reply, actions, error)
        agent.last_message_tick = agent.fight.episode_ticks(agent)
        self._play_soon(self._game(agent), agent.fight)

    def _play_soon(self, game: ServedGame, fight: Fight) -> None:
        if fight.is_ready():
            game.ready.append(fight)
            self._num_ready += 1
            self._schedule(self._num_ready >= self._games.num_in_play)
