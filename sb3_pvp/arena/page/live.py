"""Live fights: played in sandboxes tick by tick, for any number of viewers. They never count in the arena's table."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count, cycle, permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import SCRIPT, Challenge
from sb3_pvp.arena.match_rounds import TICK_LIMIT, files_of
from sb3_pvp.arena.page.guards import PageRefusal
from sb3_pvp.arena.page.live_fight import PERSON, PERSON_SEAT, LiveFight, LiveSummary, Person
from sb3_pvp.arena.page.people import People, PersonFight
from sb3_pvp.arena.playing import File
from sb3_pvp.arena.referee import unpacked
from sb3_pvp.arena.store import ACTIVE, Entrant
from sb3_pvp.common.arguments import to_plain
from sb3_pvp.common.atomic_files import temporary_folder
from sb3_pvp.common.errors import Refusal, one_line
from sb3_pvp.common.sandbox.sandbox import Sandbox, SandboxDied, SandboxLimits
from sb3_pvp.game import controls_of, game_reference
from sb3_pvp.matches.replay.page import short_labels
from sb3_pvp.matches.replay.recording import RecordedPlayer, heads_of, viewer_for_page
from sb3_pvp.matches.scoring import with_build
from sb3_pvp.players.handicaps import MOST_DELAY
from sb3_pvp.players.league.match_log import SCORES
from sb3_pvp.players.opponents import WORLD_BOT

#: Tiles from the opponent that a click on the map may be.
REACH = 12
#: Of what is said after a person's fight, what is for the log only.
KEPT = ("actions", "digest", "observations", "masks")
TARGET = "sb3_pvp.arena.page.live_worker:play"
#: Fights at the same time, and those that are kept for late viewers.
MOST_FIGHTS, MOST_KEPT = 32, 60
_PLAIN = ConfigDict(extra="forbid", frozen=True, strict=True)


class PersonOrder(BaseModel):
    """A person who plays the first seat."""

    model_config = _PLAIN
    name: str = Field("", max_length=40)  #: On the ladder; empty: somebody who is not on it.
    key: str = Field("", max_length=200)  #: What the name is bound to, made by the browser.
    delay: int = Field(0, ge=0, le=MOST_DELAY)  #: Reaction time of the opponent, in ticks.
    randomness: float = Field(0.0, ge=0, le=1)  #: Share of the ticks in which it moves at random.
    best_of: Literal[1, 3, 5] = 1
    consent: bool = False  #: Whether the fight is kept as a demonstration.
    drill: str | None = Field(None, max_length=80)  #: An exercise of the game instead of an opponent.


class LiveOrder(BaseModel):
    """What begins a live fight: two players, or one and a person, or a person alone for a drill."""

    model_config = _PLAIN
    first: str | None = Field(None, max_length=200)
    second: str | None = Field(None, max_length=200)
    build: str | None = Field(None, max_length=80)
    paused: bool = False  #: Whether it waits for its beginner after the start.
    person: PersonOrder | None = None


@dataclass
class Series:
    """Fights of a person against one opponent, until one of them has won more than half of them."""

    order: LiveOrder
    score: list[float] = field(default_factory=lambda: [0.0, 0.0])

    @property
    def is_decided(self) -> bool:
        """Whether nobody needs to fight any more."""
        return self.order.person is None or max(self.score) > self.order.person.best_of / 2


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


class LiveFights:
    """All live fights of an arena."""

    def __init__(self, arena: Arena) -> None:
        self._arena, self._numbers = arena, count()
        self._fights: dict[str, LiveFight] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._shared, self._looked = FightProcess(arena.challenge), asyncio.Event()
        self.people = People(arena)

    async def warm(self) -> None:
        """Starts the process that most fights share, so that the first one begins at once."""
        with suppress(SandboxDied, RuntimeError):
            await self._shared.ask({"end": -1})

    async def show(self) -> None:
        """Lets players of the arena fight for whoever looks, one pair after another, for ever."""
        await self.warm()
        names = [each.name for each in self._arena.players if each.state == ACTIVE]
        for first, second in cycle(permutations(names, 2)):
            with suppress(PageRefusal):
                fight = await self.begin(LiveOrder(first=first, second=second, build=None))
                while fight.state != "over":
                    await asyncio.sleep(1)
            self._looked.clear()
            await self._looked.wait()

    def all(self) -> list[LiveSummary]:
        """Returns the fights that are on or are kept, the newest first."""
        self._looked.set()
        return [each.summary() for each in self._fights.values()][::-1]

    def find(self, name: str) -> LiveFight:
        """Returns a fight; raises `PageRefusal`."""
        if name not in self._fights:
            raise PageRefusal("there is no such live fight: it may have ended long ago", 404)
        return self._fights[name]

    async def begin(self, order: LiveOrder, series: Series | None = None) -> LiveFight:
        """Begins a fight, and returns it at its start; raises `PageRefusal`."""
        if sum(each.state != "over" for each in self._fights.values()) >= MOST_FIGHTS:
            raise PageRefusal(f"{MOST_FIGHTS} fights are on already: watch one of them, or try again later", 503)
        rules, wish = self._arena.challenge, order.person
        if wish is not None and wish.name:
            try:
                name = await asyncio.to_thread(self.people.claim, wish.name, wish.key)
            except ValueError as error:
                raise PageRefusal(str(error), 409) from error
            order = order.model_copy(update={"person": (wish := wish.model_copy(update={"name": name}))})
        viewer = viewer_for_page(rules.played, wish is not None)
        drill = None if wish is None or wish.drill is None else _named(viewer, wish.drill)
        pair = await self._pair(order, drill)
        try:
            params = None if order.build is None else with_build(order.build, rules.played, rules.reset_params)
        except Refusal as error:
            raise PageRefusal(str(error)) from error
        # Who is trusted shares a process with others; a stranger has one of its own, and can harm only this fight.
        is_safe = all(each.kind == SCRIPT or each.facts.get("trusted", True) for each in pair)
        process = self._shared if is_safe else await asyncio.to_thread(FightProcess, rules)
        person = None if wish is None else self._person(wish, drill)
        fight, number = LiveFight(self._header(pair, person), viewer, person), next(self._numbers)
        players = await asyncio.to_thread(self._players, pair, process)
        if person is not None:
            players.insert(0, {"name": person.name, "kind": PERSON, "opponent": ""})
        job = {"begin": number, "players": players, "seed": secrets.randbits(31), "reset_params": params}
        job["deterministic"] = rules.deterministic
        if wish is not None:
            job |= {"delay": wish.delay, "randomness": wish.randomness, "consent": wish.consent}
        if drill is not None:
            job |= {"drill": drill.id, "ticks": drill.ticks, "reset_params": dict(drill.reset_params)}
        fight.header |= {"seed": job["seed"], "reset_params": job["reset_params"]}
        try:
            reply = await process.ask(job)
        except (SandboxDied, RuntimeError) as error:
            reply = {"cause": _cause(error)}
        if "moment" not in reply:
            await self._gone(process, number)
            raise PageRefusal(f"the fight cannot begin: {reply['cause']}")
        fight.add(reply)
        fight.state = "paused" if order.paused and person is None else fight.state
        fight.series = series or Series(order)
        self._fights[fight.id] = fight
        for old in [name for name, each in self._fights.items() if each.state == "over"][: -MOST_KEPT or None]:
            del self._fights[old]
        task = asyncio.create_task(self._play(fight, process, number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return fight

    async def again(self, fight: LiveFight) -> LiveFight:
        """Begins the next fight of a series, or the first one of another; raises `PageRefusal`."""
        if fight.state != "over" or fight.person is None:
            raise PageRefusal("the fight is not over, or nobody plays in it", 409)
        return await self.begin(fight.series.order, None if fight.series.is_decided else fight.series)

    async def _pair(self, order: LiveOrder, drill: Any) -> list[Entrant]:
        """Returns the players of the arena that fight, one if there is a person; raises `PageRefusal`."""
        if drill is not None:
            return [Entrant(drill.label, SCRIPT, drill.opponent, drill.opponent, drill.opponent, "")]
        names = [order.second] if order.person is not None else [order.first, order.second]
        if None in names or (order.person is not None and order.first is not None):
            raise PageRefusal("name two players, or the second one if the first is a person")
        entrants = {each.name: each for each in await asyncio.to_thread(self._arena.store.players, ACTIVE)}
        if missing := [name for name in names if name not in entrants]:
            raise PageRefusal(f"no player {missing[0]} takes part", 404)
        pair = [entrants[str(name)] for name in names]
        if len(pair) > 1 and pair[0].opponent == WORLD_BOT:
            pair.reverse()
        if len(pair) > 1 and pair[0].opponent == WORLD_BOT:
            raise PageRefusal("the world's bot needs somebody to fight against")
        return pair

    async def close(self) -> None:
        """Ends all fights."""
        for fight in self._fights.values():
            if fight.state != "over":
                fight.steer("end")
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._shared.close()

    async def _play(self, fight: LiveFight, process: FightProcess, number: int) -> None:
        try:
            await fight.run(
                lambda: process.ask({"think": number}),
                lambda orders: process.ask({"step": number, "orders": orders}),
            )
        except (SandboxDied, RuntimeError) as error:
            seat = error.marked if isinstance(error, SandboxDied) and error.marked in (0, 1) else -1
            fight.add({"fault": seat, "cause": _cause(error)})
        finally:
            after = await self._gone(process, number)
            if fight.person is not None:
                await self._tell(fight, after)
            fight.finish()

    async def _tell(self, fight: LiveFight, after: dict[str, Any]) -> None:
        """Keeps what a person's fight was like, of which now everything may be seen."""
        wish, kept = fight.series.order.person, {name: after.pop(name, None) for name in KEPT}
        share = {"won": 1.0, "lost": 0.0}.get(fight.header["outcomes"][PERSON_SEAT], 0.5)
        fight.series.score = [fight.series.score[0] + share, fight.series.score[1] + 1 - share]
        if wish.name and wish.drill is None and kept["actions"] is not None:
            try:
                record = person_fight(fight, kept, self._arena.challenge)
                after["key"] = await asyncio.to_thread(self.people.record, record)
            except ValueError as error:  # it was forgotten while it fought
                after["refusal"] = str(error)
        fight.completed(after)

    async def _gone(self, process: FightProcess, number: int) -> dict[str, Any]:
        """Ends a fight in its process; returns what is said about a person's one."""
        found: dict[str, Any] = {}
        with suppress(SandboxDied, RuntimeError):
            found = await process.ask({"end": number})
        if process is not self._shared:
            await process.close()
        return found

    def _person(self, wish: PersonOrder, drill: Any) -> Person:
        """Returns the person of a fight, with the controls of the game."""
        played = self._arena.challenge.played
        offset, reach = getattr(played.viewer, "at_offset", lambda east, north: None), range(-REACH, REACH + 1)
        moves = {f"{east},{north}": offset(east, north) for east in reach for north in reach}
        pad: dict[str, Any] = {"groups": [*map(asdict, controls_of(played.viewer, played.contract))]}
        pad |= {"moves": moves if any(moves.values()) else None, "best_of": wish.best_of}
        pad["drill"] = None if drill is None else drill.label
        return Person(wish.name or "you", not getattr(played.viewer, "real_time", False), pad)

    def _header(self, pair: list[Entrant], person: Person | None) -> dict[str, Any]:
        played, contract = self._arena.challenge.played, self._arena.challenge.played.contract
        kinds: list[Any] = [
            "bot" if each.opponent == WORLD_BOT else "script" if each.kind == SCRIPT else "model" for each in pair
        ]
        names = [each.name for each in pair]
        if person is not None:
            names, kinds = [person.name, *names], ["agent", *kinds]
        if names[0] == names[1]:
            names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
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
        names = {each.name for each in pair if each.source or each.admitted_at}
        players, lost = files_of(self._arena.store, {each.name: each for each in pair}, names)
        if lost:
            name, cause = next(iter(lost.items()))
            raise PageRefusal(f"{name} cannot fight: {cause}", 409)
        found = []
        for each in pair:
            kind, opponent, file = players.get(each.name, (SCRIPT, each.opponent, None))
            found.append({"name": each.name, "kind": kind, "opponent": process.place(opponent, file)})
        return found


def person_fight(fight: LiveFight, kept: dict[str, Any], rules: Challenge) -> PersonFight:
    """Returns what is kept of a person's fight, from what its process says."""
    order, contract = fight.series.order, rules.played.contract
    weaker = {name: getattr(order.person, name) for name in ("delay", "randomness")}
    outcome = fight.header["outcomes"][PERSON_SEAT]
    gave_up = next((each["text"] for each in fight.events if each["kind"] == "end" and each["seat"] is not None), None)
    actions = unpacked(b64decode(kept["actions"]), contract.num_heads)
    seen = dict[str, Any]()
    if kept["observations"] is not None:
        flat = np.frombuffer(b64decode(kept["observations"]), np.float32)
        bits = np.frombuffer(b64decode(kept["masks"]), np.uint8).reshape(len(actions), -1)
        seen["observations"] = flat.reshape(len(actions), *contract.observation_shape)
        seen["masks"] = np.unpackbits(bits, axis=1, count=contract.num_flat_actions).astype(bool)
    return PersonFight(
        person=order.person.name,
        opponent=order.second,
        handicap=", ".join(f"{name} {value:g}" for name, value in weaker.items() if value),
        outcome=outcome if outcome in SCORES else "tied",
        seed=fight.header["seed"],
        build=fight.header["build"],
        ticks=len(actions),
        reset_params=rules.reset_params if fight.header["reset_params"] is None else fight.header["reset_params"],
        actions=actions,
        digest=kept["digest"],
        finished_at=time.time(),
        rated=True,
        cause=gave_up if outcome == "lost" and gave_up else None if outcome in SCORES else TICK_LIMIT,
        **seen,
    )


def _named(viewer: Any, drill: str) -> Any:
    """Returns a drill of a game; raises `PageRefusal`."""
    known = {each.id: each for each in getattr(viewer, "drills", tuple)()}
    if drill not in known:
        raise PageRefusal(f"no drill {drill}: there are {', '.join(known) or 'none in this game'}", 404)
    return known[drill]


def _cause(error: SandboxDied | RuntimeError) -> str:
    return error.cause if isinstance(error, SandboxDied) else f"the game failed: {one_line(error):.300}"
