"""Live fights: played in sandboxes tick by tick, for any number of viewers. They never count."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import SCRIPT, Challenge
from sb3_pvp.arena.match_rounds import files_of
from sb3_pvp.arena.page.guards import PageRefusal
from sb3_pvp.arena.playing import File
from sb3_pvp.arena.store import ACTIVE, Entrant
from sb3_pvp.common.arguments import to_plain
from sb3_pvp.common.atomic_files import temporary_folder
from sb3_pvp.common.errors import Refusal, one_line
from sb3_pvp.common.sandbox.sandbox import Sandbox, SandboxDied, SandboxLimits
from sb3_pvp.game import as_other_sees, game_reference
from sb3_pvp.matches.replay.page import end_event, short_labels
from sb3_pvp.matches.replay.recording import RecordedPlayer, heads_of, viewer_of
from sb3_pvp.matches.scoring import with_build
from sb3_pvp.players.opponents import WORLD_BOT

TARGET = "sb3_pvp.arena.page.live_worker:play"
#: Seconds of a tick at speed 1, and the speeds that may be chosen.
TICK, SPEEDS = 0.6, (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
#: Fights at the same time, those that are kept for late viewers, viewers of one, and messages that one may be behind.
MOST_FIGHTS, MOST_KEPT, MOST_VIEWERS, MOST_BEHIND = 24, 60, 500, 120
#: Seconds without a viewer after which a fight is ended.
ALONE = 120.0


class LiveSummary(BaseModel):
    """A live fight, as the list shows it."""

    id: str
    players: list[str]
    state: str  #: ``running``, ``paused`` or ``over``.
    tick: int
    viewers: int
    speed: float
    outcomes: list[str]


@dataclass(eq=False)
class Watcher:
    """Somebody who watches: what is still to be sent, and ``None`` at the end of that."""

    messages: asyncio.Queue[str | None] = field(default_factory=lambda: asyncio.Queue(MOST_BEHIND))


class FightProcess:
    """A sandbox that plays live fights, one tick after another."""

    def __init__(self, challenge: Challenge) -> None:
        self._folder = temporary_folder()
        self._spool = Path(self._folder.name)
        self._spool.chmod(0o711)  # as for matches: another user reads the files
        seconds = max(challenge.decision.seconds * 2, 5.0)
        limits = SandboxLimits(memory_mb=challenge.memory_mb, call_seconds=seconds, silence_seconds=120.0)
        setup = {"challenge": challenge.model_dump(mode="json"), "folder": os.getcwd()}
        self._sandbox = Sandbox(TARGET, setup, limits, [self._spool])
        self._lock = asyncio.Lock()

    async def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer to a job; raises `SandboxDied`, or `RuntimeError` if the game fails."""
        async with self._lock:
            return await asyncio.to_thread(lambda: next(iter([*self._sandbox.run(job)])))

    def place(self, opponent: str, file: File | None) -> str:
        """Writes the file of a player, and returns its path, or the name of a script."""
        if file is None:
            return opponent
        path = self._spool / file[0]
        if not path.is_file():
            path.write_bytes(file[1])
            path.chmod(0o644)
        return str(path)

    async def close(self) -> None:
        """Ends the process and its fights, after the tick that it plays."""
        async with self._lock:
            await asyncio.to_thread(self._sandbox.close)
        self._folder.cleanup()


class LiveFight:
    """A fight that is on.

    Attributes:
        id: in its address.
        key: of whoever has begun it: it allows to pause, and so on.
        header: the recording without its moments.
        moments: the start, and each tick so far.
        events: what has happened, see `sb3_pvp.game.Viewer.events`.
        state: ``running``, ``paused`` or ``over``.
    """

    def __init__(self, header: dict[str, Any]) -> None:
        self.id, self.key, self.header = secrets.token_hex(5), secrets.token_urlsafe(18), header
        self.moments: list[dict[str, Any]] = []
        self.scenes: list[Any] = []  # as the viewer reads them
        self.events: list[dict[str, Any]] = []
        self.viewers: set[Watcher] = set()
        self.state, self.speed = "running", 1.0
        self._wake = asyncio.Event()
        self._steps, self._alone_since = 0, time.monotonic()

    def summary(self) -> LiveSummary:
        """Returns what the list of live fights shows."""
        return LiveSummary(
            id=self.id,
            players=[each["name"] for each in self.header["players"]],
            state=self.state,
            tick=len(self.moments) - 1,
            viewers=len(self.viewers),
            speed=self.speed,
            outcomes=self.header["outcomes"],
        )

    def told(self, message: Mapping[str, Any]) -> None:
        """Sends a message to everybody; who is too far behind is let go, and comes back with all of it."""
        text = orjson.dumps(message).decode()
        for viewer in [*self.viewers]:
            try:
                viewer.messages.put_nowait(text)
            except asyncio.QueueFull:
                self.leave(viewer)

    @contextmanager
    def watching(self, after: int) -> Iterator[Watcher]:
        """Lets somebody watch who has seen the moments up to number ``after``."""
        if len(self.viewers) >= MOST_VIEWERS:
            raise PageRefusal(f"{MOST_VIEWERS} people watch this fight already", 503)
        viewer, seen = Watcher(), max(after + 1, 0)
        self.viewers.add(viewer)
        missed = {"moments": self.moments[seen:], "first": seen, "events": self.events, **self._status()}
        viewer.messages.put_nowait(orjson.dumps(missed).decode())
        if self.state == "over":
            viewer.messages.put_nowait(None)
        try:
            yield viewer
        finally:
            self.leave(viewer)

    def leave(self, viewer: Watcher) -> None:
        """Ends the messages of a viewer."""
        self.viewers.discard(viewer)
        self._alone_since = time.monotonic()
        with suppress(asyncio.QueueFull):
            viewer.messages.put_nowait(None)

    def content(self) -> dict[str, Any]:
        """Returns what a page needs to show it, see `sb3_pvp.matches.replay.page.content_of`."""
        header = {name: value for name, value in self.header.items() if name != "labels"}
        about = {"events": self.events, "labels": self.header["labels"], "live": self.summary().model_dump()}
        return {"recording": {**header, "moments": self.moments}, **about}

    def steer(self, wish: str, value: Any = None) -> None:
        """Fulfils a wish: ``pause``, ``play``, ``step``, ``speed`` with a value of `SPEEDS`, or ``end``."""
        if self.state == "over":
            raise PageRefusal("the fight is over", 409)
        if wish == "speed":
            if value not in SPEEDS:
                raise PageRefusal(f"speed must be one of {', '.join(f'{each:g}' for each in SPEEDS)}")
            self.speed = float(value)
        elif wish == "step":
            self.state, self._steps = "paused", self._steps + 1
        elif wish in ("pause", "play", "end"):
            self.state = {"pause": "paused", "play": "running", "end": "over"}[wish]
        else:
            raise PageRefusal("do must be one of pause, play, step, speed, end")
        self._wake.set()
        self.told({"moments": [], "first": len(self.moments), **self._status()})

    async def run(self, ask: Any, events_of: Any) -> None:
        """Plays the fight to its end, a tick at a time, at its speed."""
        due = time.monotonic()
        while self.state != "over":
            due = max(due + TICK / self.speed, time.monotonic() - TICK)  # who was late does not hurry long
            await self._due(due)
            if self.state == "over" or (not self.viewers and time.monotonic() - self._alone_since > ALONE):
                break
            if self.state == "paused" and self._steps == 0:
                due = time.monotonic()
                continue
            self._steps = max(self._steps - 1, 0)
            self.add(await ask(), events_of)

    def finish(self) -> None:
        """Tells everybody that it is over."""
        self.state = "over"
        self.told({"moments": [], "first": len(self.moments), "events": self.events[-1:], **self._status()})
        for viewer in [*self.viewers]:
            self.leave(viewer)

    def add(self, reply: dict[str, Any], events_of: Any) -> None:
        """Adds a moment, and tells everybody."""
        if "fault" in reply:
            seat = reply["fault"]
            self.header["outcomes"] = ["lost", "won"] if seat == 0 else ["won", "lost"]
            self.state = "over"
            text = f"is out of the fight: {reply['cause']}"
            self.events.append({"tick": len(self.moments) - 1, "kind": "end", "seat": max(seat, 0), "text": text})
            return
        if self.moments:
            self.moments[-1]["outlooks"] = reply["outlooks"]
        self.header["build"] = reply["build"]
        self.moments.append(reply["moment"])
        if "outcome" in reply:
            self.header["outcomes"], self.state = [reply["outcome"], as_other_sees(reply["outcome"])], "over"
        self.events = events_of(self)
        new = {"moments": [reply["moment"]], "first": len(self.moments) - 1, "before": reply["outlooks"]}
        now = len(self.moments) - 1
        self.told({**new, "events": [each for each in self.events if each["tick"] == now], **self._status()})

    def _status(self) -> dict[str, Any]:
        return {"state": self.state, "speed": self.speed, "outcomes": self.header["outcomes"]}

    async def _due(self, moment: float) -> None:
        """Waits until it is time for the next tick, or somebody wishes something."""
        self._wake.clear()
        wait = None if self.state == "paused" and self._steps == 0 else max(moment - time.monotonic(), 0.0)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._wake.wait(), min(wait, 30.0) if wait is not None else 30.0)


class LiveFights:
    """All live fights of an arena."""

    def __init__(self, arena: Arena) -> None:
        self._arena, self._numbers = arena, count()
        self._fights: dict[str, LiveFight] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._shared = FightProcess(arena.challenge)

    async def warm(self) -> None:
        """Starts the process that most fights share, so that the first one begins at once."""
        with suppress(SandboxDied, RuntimeError):
            await self._shared.ask({"end": -1})

    def all(self) -> list[LiveSummary]:
        """Returns the fights that are on or are kept, the newest first."""
        return [each.summary() for each in self._fights.values()][::-1]

    def find(self, name: str) -> LiveFight:
        """Returns a fight; raises `PageRefusal`."""
        if name not in self._fights:
            raise PageRefusal("there is no such live fight: it may have ended long ago", 404)
        return self._fights[name]

    async def begin(self, first: str, second: str, build: str | None = None, paused: bool = False) -> LiveFight:
        """Begins a fight of two players of the arena, and returns it at its start; raises `PageRefusal`."""
        if sum(each.state != "over" for each in self._fights.values()) >= MOST_FIGHTS:
            raise PageRefusal(f"{MOST_FIGHTS} fights are on already: watch one of them, or try again later", 503)
        rules = self._arena.challenge
        entrants = {each.name: each for each in await asyncio.to_thread(self._arena.store.players, ACTIVE)}
        if missing := [name for name in (first, second) if name not in entrants]:
            raise PageRefusal(f"no player {missing[0]} takes part", 404)
        pair = [entrants[first], entrants[second]]
        if pair[0].opponent == WORLD_BOT:
            pair.reverse()
        if pair[0].opponent == WORLD_BOT:
            raise PageRefusal("the world's bot needs somebody to fight against")
        try:
            params = None if build is None else with_build(build, rules.played, rules.reset_params)
        except Refusal as error:
            raise PageRefusal(str(error)) from error
        # Who is trusted shares a process with others; a stranger has one of its own, and can harm only this fight.
        is_safe = all(each.kind == SCRIPT or each.facts.get("trusted", True) for each in pair)
        process = self._shared if is_safe else await asyncio.to_thread(FightProcess, rules)
        fight, number = LiveFight(self._header(pair)), next(self._numbers)
        job = {"begin": number, "players": await asyncio.to_thread(self._players, pair, process)}
        job |= {"seed": secrets.randbits(31), "deterministic": rules.deterministic, "reset_params": params}
        fight.header["seed"] = job["seed"]
        try:
            reply = await process.ask(job)
        except (SandboxDied, RuntimeError) as error:
            reply = {"cause": _cause(error)}
        if "moment" not in reply:
            await self._gone(process, number)
            raise PageRefusal(f"the fight cannot begin: {reply['cause']}")
        fight.add(reply, self._events)
        fight.state = "paused" if paused else "running"
        self._fights[fight.id] = fight
        for old in [name for name, each in self._fights.items() if each.state == "over"][: -MOST_KEPT or None]:
            del self._fights[old]
        task = asyncio.create_task(self._play(fight, process, number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return fight

    async def close(self) -> None:
        """Ends all fights."""
        for fight in self._fights.values():
            if fight.state != "over":
                fight.steer("end")
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._shared.close()

    async def _play(self, fight: LiveFight, process: FightProcess, number: int) -> None:
        try:
            await fight.run(partial(process.ask, {"step": number}), self._events)
        except (SandboxDied, RuntimeError) as error:
            seat = error.marked if isinstance(error, SandboxDied) and error.marked in (0, 1) else -1
            fight.add({"fault": seat, "cause": _cause(error)}, self._events)
        finally:
            fight.finish()
            await self._gone(process, number)

    async def _gone(self, process: FightProcess, number: int) -> None:
        if process is not self._shared:
            await process.close()
            return
        with suppress(SandboxDied, RuntimeError):
            await process.ask({"end": number})

    def _header(self, pair: list[Entrant]) -> dict[str, Any]:
        played, contract = self._arena.challenge.played, self._arena.challenge.played.contract
        names = [each.name for each in pair]
        if names[0] == names[1]:
            names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
        kinds: list[Any] = [
            "bot" if each.opponent == WORLD_BOT else "script" if each.kind == SCRIPT else "model" for each in pair
        ]
        heads, reference = heads_of(contract), game_reference(played)
        return {
            "contract": contract.name,
            "game": None if reference == contract.name else reference,
            "heads": to_plain(heads),
            "labels": [short_labels([choice.id for choice in head.choices], head.id) for head in heads],
            "players": [to_plain(RecordedPlayer(*each)) for each in zip(names, kinds, strict=True)],
            "outcomes": ["running", "running"],
            "world": "live",
        }

    def _players(self, pair: list[Entrant], process: FightProcess) -> list[dict[str, str]]:
        players, lost = files_of(self._arena.store, {each.name: each for each in pair}, {each.name for each in pair})
        if lost:
            name, cause = next(iter(lost.items()))
            raise PageRefusal(f"{name} cannot fight: {cause}", 409)
        found = []
        for each in pair:
            kind, opponent, file = players[each.name]
            found.append({"name": each.name, "kind": kind, "opponent": process.place(opponent, file)})
        return found

    def _events(self, fight: LiveFight) -> list[dict[str, Any]]:
        """Returns the game's events so far, and the end."""
        viewer = viewer_of(self._arena.challenge.game)
        fight.scenes += [viewer.read_scene(each["scene"]) for each in fight.moments[len(fight.scenes) :]]
        events = [dict(each) for each in viewer.events(fight.scenes)]
        if fight.state == "over" and (not events or events[-1]["kind"] != "end"):
            names = [each["name"] for each in fight.header["players"]]
            events.append(end_event(names, fight.header["outcomes"], len(fight.moments) - 1))
        return events


def _cause(error: SandboxDied | RuntimeError) -> str:
    return error.cause if isinstance(error, SandboxDied) else f"the game failed: {one_line(error):.300}"
