"""A live fight: its moments so far, whoever watches it, and who plays in it with a keyboard."""

from __future__ import annotations

import asyncio
import secrets
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import BaseModel, Field

from sb3_pvp.arena.page.guards import Buckets, PageRefusal
from sb3_pvp.matches.replay.growing import GrowingRecording
from sb3_pvp.matches.replay.recording import Recording

#: Seconds of a tick at speed 1, and the speeds that may be chosen.
TICK, SPEEDS = 0.6, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
#: Viewers of one fight, and messages that one of them may be behind.
MOST_VIEWERS, MOST_BEHIND = 500, 120
#: Seconds without a viewer after which a fight is ended.
ALONE = 120.0
#: Seconds before the first tick of a person, and without a connection, or without a move in a game that waits for one,
#: after which a person forfeits.
COUNTDOWN, ABSENT, HESITATION = 3.0, 30.0, 180.0
#: The seat of a person, and the kind of what plays it.
PERSON_SEAT, PERSON = 0, "person"
#: Orders that a person may send in a second on average, and ids in one.
MOST_ORDERS, MOST_IDS = 20, 64
#: What is still to be sent to somebody who watches, and ``None`` at the end of that.
Messages = asyncio.Queue[str | None]


class LiveSummary(BaseModel):
    """A live fight, as the list shows it."""

    id: str
    players: list[str]
    state: str  #: ``running``, ``paused`` or ``over``.
    tick: int
    viewers: int
    speed: float
    outcomes: list[str]


class LiveBegun(LiveSummary):
    """A live fight that was begun, and the key that steers it."""

    key: str


class PersonWish(BaseModel):
    """What the page of a person sends: the ids of the sub-actions that are to be played in the next tick."""

    do: list[str] = Field(max_length=MOST_IDS)


@dataclass
class Person:
    """Whoever plays the first seat of a fight.

    Attributes:
        waits: whether the game waits for a choice, as board games do, instead of playing a tick without one.
        pad: what the page needs to show the controls.
        orders: the ids of the sub-actions that are to be played in the next tick; the last one of a head counts.
            A game that waits goes on when there are some.
    """

    name: str
    waits: bool
    pad: dict[str, Any]
    orders: list[str] = field(default_factory=list)
    connections: int = 0
    gone_at: float = field(default_factory=time.monotonic)
    left: Buckets = field(default_factory=lambda: Buckets(MOST_ORDERS, MOST_ORDERS))


class LiveFight(GrowingRecording):
    """A fight that is on; of a person's one the recording is what that person sees, until it is over.

    Attributes:
        id: in its address.
        key: of whoever has begun it: it allows to pause, and to play.
        state: ``running``, ``paused`` or ``over``.
        due: when the next tick is played, in seconds of `time.monotonic`.
        after: of a person's fight that is over, what is said about it.
    """

    def __init__(self, recording: Recording, viewer: Any, person: Person | None = None) -> None:
        super().__init__(recording, viewer)
        self.id, self.key, self.person = secrets.token_hex(5), secrets.token_urlsafe(18), person
        self.viewers: set[Messages] = set()
        self.state, self.speed = "running", 1.0
        self.due = time.monotonic() + (COUNTDOWN if person else 0.0)
        self.after: dict[str, Any] | None = None
        self.order: Any = None  #: How it was begun.
        self.address = ""  #: By whom.
        self.is_void = False  #: Whether it has ended for no player's reason: it has no result then.
        self.score = [0.0, 0.0]  #: Of a person and the opponent, in the fights of a series.
        self.kept: dict[str, Any] | None = None  #: What is needed to look for the person's costliest ticks.
        self.thinking: asyncio.Task[Any] | None = None  #: That looks for them.
        self._wake = asyncio.Event()
        self._steps, self._alone_since = 0, time.monotonic()

    def summary(self) -> LiveSummary:
        """Returns what the list of live fights shows."""
        count = len(self.viewers)
        return LiveSummary(id=self.id, players=self.names, tick=self.tick, viewers=count, **self._status())

    def begun(self) -> LiveBegun:
        """Returns what whoever has begun it is told."""
        return LiveBegun(key=self.key, **self.summary().model_dump())

    @property
    def is_decided(self) -> bool:
        """Whether nobody needs to fight any more in the series of a person."""
        return self.person is None or max(self.score) > self.person.pad["best_of"] / 2

    def told(self, **news: Any) -> None:
        """Sends how it stands, and news, to everybody; who is too far behind is let go, and comes back for all."""
        text = orjson.dumps({"moments": [], "first": self.tick + 1, **news, **self._status()}).decode()
        for viewer in [*self.viewers]:
            if viewer.qsize() < MOST_BEHIND:
                viewer.put_nowait(text)
            else:
                self.leave(viewer)

    @contextmanager
    def watching(self, after: int, key: str = "") -> Iterator[Messages]:
        """Lets somebody watch who has seen the moments up to number ``after``; with the key it is the person."""
        if len(self.viewers) >= MOST_VIEWERS:
            raise PageRefusal(f"{MOST_VIEWERS} people watch this fight already", 503)
        viewer, player = Messages(), self.person if key == self.key else None
        self.viewers.add(viewer)
        viewer.put_nowait(self._missed(max(after + 1, 0)))
        if self.state == "over":
            viewer.put_nowait(None)
        if player is not None:
            player.connections += 1
        try:
            yield viewer
        finally:
            if player is not None:
                player.connections, player.gone_at = player.connections - 1, time.monotonic()
            self.leave(viewer)

    def leave(self, viewer: Messages) -> None:
        """Ends the messages of a viewer."""
        self.viewers.discard(viewer)
        self._alone_since = time.monotonic()
        viewer.put_nowait(None)

    def ordered(self, key: str, text: str) -> None:
        """Takes a `PersonWish`, from the person alone; raises `PageRefusal` for a message that no page sends."""
        if self.person is None or key != self.key:
            return
        try:
            self.person.orders = PersonWish.model_validate_json(text).do
        except ValueError as error:
            raise PageRefusal("no page sends such messages") from error
        if not self.person.left.take(""):
            raise PageRefusal("no page sends so many messages")
        self._wake.set()

    def content(self, hidden: Collection[str] = ()) -> dict[str, Any]:
        """Returns what a page needs to show it."""
        # Who knows the seed of a fight that is on could compute all that chance will bring.
        if self.person is not None and self.after is None:
            hidden = (*hidden, "seed")
        person = None if self.person is None else {"waits": self.person.waits, **self.person.pad}
        about = {"live": self.summary().model_dump(), "person": person, "after": self.after}
        return super().content(hidden) | about

    def steer(self, wish: str, value: Any = None) -> None:
        """Fulfils a wish: ``pause``, ``play``, ``step``, ``speed`` with a value of `SPEEDS`, or ``end``."""
        if self.state == "over":
            raise PageRefusal("the fight is over", 409)
        if self.person is not None and wish != "end":
            raise PageRefusal("a fight of a person goes on at its own speed; it can only be ended")
        if wish == "speed":
            if value not in SPEEDS:
                raise PageRefusal(f"speed must be one of {', '.join(f'{each:g}' for each in SPEEDS)}")
            self.speed = float(value)
        elif wish == "step":
            self.state, self._steps = "paused", self._steps + 1
        elif self.person is not None:
            self.forfeit(PERSON_SEAT, "gives up")
        else:
            self.state, self.due = {"pause": "paused", "play": "running", "end": "over"}[wish], time.monotonic()
        self._wake.set()
        self.told()

    def stop(self) -> None:
        """Ends the fight because the server stops."""
        self.forfeit(-1, "the server stops")
        self._wake.set()

    async def run(self, ask: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        """Plays the fight to its end, a tick at a time, at its speed, by jobs for `sb3_pvp.arena.page.live_worker`.

        All that takes long happens before a tick is due: without a person the whole tick, which is then only told;
        with one, the other player decides.
        """
        step = {"step": self.id, "orders": []}
        while self.state != "over":
            ready = await ask(step if self.person is None else {"think": self.id})
            await self._until_due()
            if self.state == "over":
                break
            if self.person is not None and "fault" not in ready:
                orders, self.person.orders = self.person.orders, []
                ready = await ask({**step, "orders": orders})
            self.due = max(self.due, time.monotonic() - TICK) + TICK / self.speed  # who was late does not hurry long
            self.add(ready)

    def finish(self) -> None:
        """Tells everybody that it is over."""
        self.state = "over"
        self.told(events=self.events[-1:])
        for viewer in [*self.viewers]:
            self.leave(viewer)
        if self.person is None:
            self.put_away()

    def completed(self, after: dict[str, Any]) -> None:
        """Keeps all of a person's fight that is over, for everybody to see."""
        end = [each for each in self.events if each["kind"] == "end"]
        self.put_away(b64decode(after.pop("moments")) if "moments" in after else None)
        self.events = [each for each in after.pop("events", self.events) if each["kind"] != "end"] + end
        self.after = {"score": self.score, "is_decided": self.is_decided, **after}

    def forfeit(self, seat: int, why: str) -> None:
        """Ends the fight, which a seat has lost; -1: neither of them, and it has no result."""
        super().forfeit(seat, why)
        if seat < 0:
            self.is_void, self.events[-1]["seat"] = True, None
        self.state = "over"

    def add(self, reply: Mapping[str, Any]) -> None:
        """Adds a moment, and tells everybody."""
        if "fault" in reply:
            what = "is out of the fight" if reply["fault"] >= 0 else "the fight cannot go on"
            self.forfeit(reply["fault"], f"{what}: {reply['cause']}")
            return
        if self.last and self.person is None:
            self.last["outlooks"] = reply["outlooks"]
        self.header["build"], moment = reply["build"], reply["moment"]
        self.state = "over" if "outcomes" in reply else self.state
        events = self.grow(moment, reply.get("outcomes"))
        self.told(first=self.tick, moments=[moment], before=reply["outlooks"], events=events)

    def _missed(self, first: int) -> str:
        """Returns the message with all moments from a number on; made here, so that no viewer keeps the parts."""
        moments = orjson.Fragment(self.moments_text(first))
        return orjson.dumps({"moments": moments, "first": first, "events": self.events, **self._status()}).decode()

    def _status(self) -> dict[str, Any]:
        wait = {} if self.state == "over" else {"wait": round(max(self.due - time.monotonic(), 0.0), 4)}
        return {"state": self.state, "speed": self.speed, "outcomes": self.header["outcomes"], **wait}

    async def _until_due(self) -> None:
        """Returns when the next tick is due: at once after ``step``, and never while the fight is paused."""
        while self.state != "over":
            now, person = time.monotonic(), self.person
            self._leave_alone(now)
            if self._steps:
                self._steps, self.due = self._steps - 1, now
                return
            has_choice = any(head.count("1") > 1 for head in self.last.get("can", ()))
            is_waiting = person is not None and person.waits and not person.orders and has_choice
            if self.state == "running" and now >= self.due and not is_waiting:
                return
            self._wake.clear()
            wait = self.due - now if self.state == "running" and not is_waiting else ABSENT
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), min(max(wait, 0.0), ABSENT))

    def _leave_alone(self, now: float) -> None:
        """Ends a fight that nobody watches, or whose person is gone or does nothing where the game waits."""
        if self.person is None:
            if not self.viewers and now - self._alone_since > ALONE:
                self.state = "over"
        elif not self.person.connections and now - self.person.gone_at > ABSENT:
            self.forfeit(PERSON_SEAT, "is gone")
        elif self.person.waits and now - self.due > HESITATION:
            self.forfeit(PERSON_SEAT, "does not move")
