"""A logged-in agent and where it stands (``protocol.md`` §5.1)."""

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

#: Sends a reply line to whoever asked.
Reply = Callable[[bytes], None]


class State(Enum):
    """The states of an agent, with their names on the wire."""

    PENDING = "PENDING"
    #: Waits for the dead to be gone; on a server without a clock nobody has to.
    PROCESSING_RESET = "PROCESSING_RESET"
    PENDING_TARGET_MATCH = "PENDING_TARGET_MATCH"
    #: The fight exists, the reset is answered in its next tick.
    RESET_COMPLETE = "RESET_COMPLETE"
    STEPPING = "STEPPING"
    #: The fight is decided; the next step is answered with the outcome.
    TERMINAL = "TERMINAL"


@dataclass(slots=True)
class Message:
    """A `reset` or `step` that waits for its answer. ``error`` stopped the execution of the action.

    On a server with a clock, ``request`` is what was asked; it is looked at in the next tick.
    """

    reply: Reply
    actions: list[int] | None = None
    error: RequestError | None = None
    request: Request | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How the fight ended for an agent, and what it saw in the tick that decided it (JSON text)."""

    outcome: str
    obs: bytes


@dataclass(slots=True)
class TickCounts:
    """What a server with a clock counts for an agent (``protocol.md`` §5.2, §5.3). Points in time are numbers of ticks.

    Attributes:
        episode_start: the tick in which the episode's counter still was 0.
        missed: ticks of this fight without a message.
        dying_until: the tick in which it, or whom it fought last, is no longer dying.
        wait: ticks before a reset is carried out.
        waited: ticks of this episode in which the opponent was not there yet.
    """

    episode_start: int = 0
    missed: int = 0
    dying_until: int = 0
    wait: int = 0
    waited: int = 0


@dataclass(slots=True, eq=False)
class Agent:
    """One logged-in agent; connections come and go, the agent stays until it logs out."""

    id: str
    #: Where agents of its type fight.
    arena: Arena = field(repr=False)
    state: State = State.PENDING
    message: Message | None = None
    request: ResetRequest | None = None
    fight: Fight | None = None
    seat: int = 0
    #: Where it is in the world of its fight: twice the fight's number, plus the seat.
    place: int = 0
    ending: Ending | None = None
    #: What it takes along from its last fight: who has PID, hitsplats, run energy.
    login: Any = field(default=None, repr=False)
    last_message_tick: int = 0
    #: When it was last heard of, see `Lobby.log_out_silent`.
    last_heard: float = 0.0
    counts: TickCounts = field(default_factory=TickCounts, repr=False)

    @property
    def wants_target_view(self) -> bool:
        """Replies carry the opponent's observation and masks."""
        return self.request is not None and self.request.maintain_target_environment

    def answer(self, line: bytes) -> None:
        """Replies to the waiting message."""
        message, self.message = self.message, None
        if message is not None:
            message.reply(line)

    def refuse(self, error: RequestError) -> None:
        """Replies to the waiting message with an error."""
        self.answer(error_reply(error))
