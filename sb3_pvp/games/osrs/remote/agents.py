"""A logged-in agent and its state (``protocol.md`` §5.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from sb3_pvp.games.osrs.remote.errors import RequestError
from sb3_pvp.games.osrs.remote.messages import Request, error_reply
from sb3_pvp.games.osrs.remote.reset_request import ResetRequest

if TYPE_CHECKING:
    from sb3_pvp.games.osrs.remote.arena import Arena
    from sb3_pvp.games.osrs.remote.fights import Fight

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
    error: RequestError | None = None
    request: Request | None = None


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
class Agent:
    """A logged-in agent, not tied to a connection: it stays until it logs out (protocol-observed.md, surprise 8)."""

    id: str
    #: The arena of its type.
    arena: Arena = field(repr=False)
    state: State = State.PENDING
    message: Message | None = None
    request: ResetRequest | None = None
    fight: Fight | None = None
    seat: int = 0
    #: Its row in the flattened arrays of the fight's world: twice the fight's number, plus the seat.
    row: int = 0
    ending: Ending | None = None
    #: What a login keeps between fights: PID, hitsplats, run energy.
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

    def refuse(self, error: RequestError) -> None:
        """Sends an error reply to the waiting message, if there is one."""
        self.answer(error_reply(error))
