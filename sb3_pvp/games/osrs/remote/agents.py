"""Logged-in agents and their states (``protocol.md`` §5.1), and the fights that they are in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sb3_pvp.game import NUM_SEATS
from sb3_pvp.games.osrs.remote.fight_pool import Slot
from sb3_pvp.games.osrs.remote.messages import WireRequest, error_reply
from sb3_pvp.games.osrs.remote.reset_request import BASELINE, ResetRequest
from sb3_pvp.games.osrs.remote.wire_errors import WireRequestError

#: Sends a reply line to the connection that the request came from.
Reply = Callable[[bytes], None]


class State(Enum):
    """The states of an agent, with their names on the wire."""

    PENDING = "PENDING"
    #: Waits until a dead fighter has disappeared; only on a server with a clock.
    PROCESSING_RESET = "PROCESSING_RESET"
    PENDING_TARGET_MATCH = "PENDING_TARGET_MATCH"
    #: The fight exists, the reset is answered in its next tick.
    RESET_COMPLETE = "RESET_COMPLETE"
    STEPPING = "STEPPING"
    #: The fight is decided; the next step is answered with the outcome.
    TERMINAL = "TERMINAL"


@dataclass(slots=True)
class Message:
    """A `reset` or `step` that is not answered yet. ``actions`` is the playable part of a step's action, ``error`` why
    the rest is not executed. A server with a clock keeps the ``request``, which it reads in the next tick."""

    reply: Reply
    actions: list[int] | None = None
    error: WireRequestError | None = None
    request: WireRequest | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How the fight ended for an agent, and its observation (JSON text) in the tick that decided the fight."""

    outcome: str
    obs: bytes


@dataclass(slots=True)
class TickCounts:
    """Counters of an agent on a server with a clock, in ticks (``protocol.md`` §5.2, §5.3).

    Attributes:
        episode_start: number of the tick in which the episode's counter was 0.
        missed: ticks of this fight without a message.
        dying_until: number of the tick in which neither the agent nor its last opponent is dying any more.
        wait: ticks before a reset is carried out.
        waited: ticks of this episode without an opponent.
    """

    episode_start: int = 0
    missed: int = 0
    dying_until: int = 0
    wait: int = 0
    waited: int = 0


@dataclass(slots=True, eq=False)
class WireAgent:
    """A logged-in agent, not tied to a connection: it stays until it logs out (protocol-observed.md, surprise 8)."""

    id: str
    #: The name of its game, see `ServedGames`.
    agent_type: str
    state: State = State.PENDING
    message: Message | None = None
    request: ResetRequest | None = None
    fight: Fight | None = None
    seat: int = 0
    #: Its row in the flattened arrays of the fight's world: twice the fight's number, plus the seat.
    row: int = 0
    ending: Ending | None = None
    #: What a login keeps between fights, such as its PID and poison tasks.
    login: Any = field(default=None, repr=False)
    last_message_tick: int = 0
    #: Time of its last message, see `Lobby.log_out_silent`.
    last_heard: float = 0.0
    counts: TickCounts = field(default_factory=TickCounts, repr=False)

    @property
    def wants_target_view(self) -> bool:
        """Whether replies carry the opponent's observation and masks."""
        return self.request is not None and self.request.maintain_target_environment

    def answer(self, line: bytes) -> None:
        """Sends the reply to the waiting message, if there is one."""
        message, self.message = self.message, None  # Only an agent without a message may send the next one.
        if message is not None:
            message.reply(line)

    def refuse(self, error: WireRequestError) -> None:
        """Sends an error reply to the waiting message, if there is one."""
        self.answer(error_reply(error))


class Fight:
    """A fight between two agents, or of one agent against the world's own bot.

    A seat is empty when its agent has left, or when the world plays it.
    """

    def __init__(self, slot: Slot, agents: list[WireAgent]) -> None:
        self.slot = slot
        self.against_bot = len(agents) == 1
        self.seats: list[WireAgent | None] = [*agents, None][:2]
        #: The agents that are still in the fight; a new list whenever one leaves.
        self.agents = agents
        self._episode_ticks = slot.world.report["episode_ticks"][slot.fight]
        for seat, agent in enumerate(agents):
            agent.fight, agent.seat, agent.ending = self, seat, None
            agent.row = slot.fight * NUM_SEATS + seat

    @property
    def target_left(self) -> bool:
        """Whether one of two agents has left."""
        return not self.against_bot and None in self.seats

    def is_ready(self) -> bool:
        """Whether the next tick can be played: all agents that have not left have sent a message."""
        for agent in self.agents:
            if agent.message is None:
                return False
        return bool(self.agents)

    def target_is_loaded(self, agent: WireAgent) -> bool:
        """Whether the agent's opponent is in the world."""
        return self.against_bot or self.seats[1 - agent.seat] is not None

    def episode_ticks(self, agent: WireAgent) -> int:
        """Returns the ticks since the agent's episode began."""
        return int(self._episode_ticks[agent.seat])

    def add_waiting_ticks(self) -> None:
        """Adds the ticks in which an agent waited for its opponent to its episode; call it after the world's reset."""
        for agent in self.agents:
            seat = self.slot.fight, agent.seat
            if agent.counts.waited:
                # The counter, and the report that the reset has made of it.
                self.slot.world.state["ticks"][seat] += agent.counts.waited
                self.slot.world.report["episode_ticks"][seat] += agent.counts.waited

    def remove(self, agent: WireAgent) -> None:
        """Removes an agent, and stores on it what its login keeps."""
        agent.login = self.slot.world.login(self.slot.fight, agent.seat)
        agent.fight = agent.ending = None
        self.seats[agent.seat] = None
        # A new list: `TickPlayer` may be iterating over the old one.
        self.agents = [other for other in self.agents if other is not agent]

    def actions(self, no_op: list[int]) -> list[list[int]]:
        """Returns the joint action of each seat; once the fight is decided, actions are ignored (protocol.md §6.2)."""
        return [no_op if agent is None else self._playable_action(agent) or no_op for agent in self.seats]

    def _playable_action(self, agent: WireAgent) -> list[int] | None:
        # Another state: the reset of a late agent, or the step after the end, whose action has no effect.
        if agent.state is not State.STEPPING or self.target_left or agent.message is None:
            return None
        return agent.message.actions

    def reset_options(self) -> dict[str, Any]:
        """Returns the options of the world's reset, from the requests of the agents."""
        requests = [agent.request for agent in self.agents if agent.request is not None]
        params = [request.reset_params for request in requests]
        logins = [agent.login for agent in self.agents]
        return {
            "seat_reset_params": (params[0], params[-1]),
            "bots": (None, BASELINE if self.against_bot else None),
            # The agent that completes a pair chooses the tiles of both (protocol.md §5.4).
            "training": requests[-1].training,
            "death_match": all(request.death_match for request in requests),
            "maintain_target_environment": any(request.maintain_target_environment for request in requests),
            "logins": (logins[0], None if self.against_bot else logins[1]),
        }
