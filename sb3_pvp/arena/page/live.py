"""Live fights: played in sandboxes tick by tick, for any number of viewers. They never count in the arena's table."""

from __future__ import annotations

import asyncio
import secrets
import time
import zlib
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from itertools import cycle, permutations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import SCRIPT, Challenge
from sb3_pvp.arena.match_rounds import TICK_LIMIT, files_of
from sb3_pvp.arena.page.guards import PageRefusal
from sb3_pvp.arena.page.live_fight import PERSON, PERSON_SEAT, LiveFight, LiveSummary, Person
from sb3_pvp.arena.page.people import People, PersonFight
from sb3_pvp.arena.playing import PlayerSandbox
from sb3_pvp.arena.referee import unpacked
from sb3_pvp.arena.replaying import kind_of
from sb3_pvp.arena.store import ACTIVE, Entrant
from sb3_pvp.common.errors import one_line
from sb3_pvp.common.sandbox.sandbox import SandboxDied
from sb3_pvp.game import Drill, controls_of
from sb3_pvp.matches.replay.recording import RecordedPlayer, Recording, about_game, viewer_for_page
from sb3_pvp.matches.scoring import with_build
from sb3_pvp.players.handicaps import MOST_DELAY
from sb3_pvp.players.league.match_records import SCORES
from sb3_pvp.players.opponents import WORLD_BOT

#: Tiles from the opponent that a click on the map may be.
REACH = 12
#: Of what is said after a person's fight, what is for the log only.
KEPT = ("actions", "digest", "observations", "masks")
TARGET = "sb3_pvp.arena.page.live_worker:play"
#: Fights at the same time, of all and of one address; those that are kept for late viewers; and fights of people that
#: wait until their costliest ticks are looked for.
MOST_FIGHTS, MOST_OWN, MOST_KEPT, MOST_WAITING = 32, 8, 60, 8
MOST_PARTS = 64  #: Of an answer of a process.


class PersonOrder(BaseModel, extra="forbid", frozen=True, strict=True):
    """A person who plays the first seat."""

    name: str = Field("", max_length=40)  #: On the ladder; empty: somebody who is not on it.
    key: str = Field("", max_length=200)  #: What the name is bound to, made by the browser.
    delay: int = Field(0, ge=0, le=MOST_DELAY)  #: Reaction time of the opponent, in ticks.
    randomness: float = Field(0.0, ge=0, le=1)  #: Share of the ticks in which it moves at random.
    best_of: Literal[1, 3, 5] = 1
    consent: bool = False  #: Whether the fight is kept as a demonstration.
    drill: str | None = Field(None, max_length=80)  #: An exercise of the game instead of an opponent.


class LiveOrder(BaseModel, extra="forbid", frozen=True, strict=True):
    """What begins a live fight: two players, or one and a person, or a person alone for a drill."""

    first: str | None = Field(None, max_length=200)
    second: str | None = Field(None, max_length=200)
    build: str | None = Field(None, max_length=80)
    paused: bool = False  #: Whether it waits for its beginner after the start.
    person: PersonOrder | None = None


class CostlyLine(BaseModel):
    """A tick that cost a person some of its chance to win."""

    tick: int
    cost: float  #: Of a win, with its 95 % interval.
    low: float
    high: float
    taken: str  #: What the person did, where the fighter would have done something else.
    instead: str


class CostlyTicks(BaseModel):
    """The costliest ticks of a person."""

    state: Literal["waiting", "done", "none"]
    cause: str = ""  #: Why there are none.
    ticks: list[CostlyLine] = []


class FightProcess:
    """A sandbox that plays live fights, one tick after another; ``patient``: for long work, which others go before.

    A decision may last ``seconds``, at least: a first one on a busy machine compiles for many.
    """

    def __init__(self, challenge: Challenge, patient: bool = False, seconds: float = 5.0) -> None:
        seconds, self._lock = max(challenge.decision.seconds * 2, seconds), asyncio.Lock()
        silence, nice = (900.0, 15) if patient else (120.0, 0)
        self.sandbox = PlayerSandbox(TARGET, challenge, seconds, silence, nice=nice)

    async def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the answer to a job, ``{"fault": seat, "cause": …}`` if there is none."""
        async with self._lock:
            try:
                return await asyncio.to_thread(self._answer, job)
            except SandboxDied as error:
                return {"fault": error.marked if error.marked in (0, 1) else -1, "cause": error.cause}
            except RuntimeError as error:
                return {"fault": -1, "cause": f"the game failed: {one_line(error):.300}"}

    def _answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a reply, to whose texts others may add."""
        found = dict[str, Any]()
        for number, reply in enumerate(self.sandbox.run(job)):
            if number > MOST_PARTS:
                raise SandboxDied("nonsense", None)
            found |= {name: f"{found[name]}{value}" if name in found else value for name, value in reply.items()}
        return found

    async def close(self) -> None:
        """Ends the process and its fights, after the tick that it plays."""
        async with self._lock:
            await asyncio.to_thread(self.sandbox.close)


class LiveFights:
    """All live fights of an arena."""

    def __init__(self, arena: Arena) -> None:
        self._arena, self.people = arena, People(arena)
        self._fights, self._tasks = dict[str, LiveFight](), set[asyncio.Task[None]]()
        self._beginning: list[str] = []  # the addresses of those whose fights are not there yet
        self._thoughts = set[asyncio.Task[CostlyTicks]]()
        # Those who are trusted do not hang on purpose, and all fights of this process would end with it.
        self._shared, self._looked = FightProcess(arena.challenge, seconds=60.0), asyncio.Event()
        self._thinking = asyncio.Lock()

    async def warm(self) -> None:
        """Starts the process that most fights share, so that the first one begins at once."""
        await self._shared.ask({"end": ""})

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
        return [each.summary() for each in [*self._fights.values()]][::-1]

    def find(self, name: str, key: str | None = None) -> LiveFight:
        """Returns a fight, with a key only to whoever has begun it; raises `PageRefusal`."""
        if name not in self._fights:
            raise PageRefusal("there is no such live fight: it may have ended long ago", 404)
        if key not in (None, self._fights[name].key):
            raise PageRefusal("only whoever began this fight can do that", 403)
        return self._fights[name]

    async def begin(self, order: LiveOrder, score: Sequence[float] = (0.0, 0.0), address: str = "") -> LiveFight:
        """Begins a fight, and returns it at its start; raises `PageRefusal`, and `Refusal` for a build there is not.

        Args:
            order: what fight.
            score: that of its series.
            address: of whoever begins it, so that nobody takes all places; empty: that is known to be well.
        """
        running = [each.address for each in self._fights.values() if each.state != "over"] + self._beginning
        if len(running) >= MOST_FIGHTS:
            raise PageRefusal(f"{MOST_FIGHTS} fights are on already: watch one of them, or try again later", 503)
        if address and running.count(address) >= MOST_OWN:
            raise PageRefusal(f"you have {MOST_OWN} fights on already: end one of them, or let it end", 429)
        self._beginning.append(address)
        try:
            return await self._begin(order, score, address)
        finally:
            self._beginning.remove(address)

    async def _begin(self, order: LiveOrder, score: Sequence[float], address: str) -> LiveFight:
        rules, wish, name = self._arena.challenge, order.person, "you"
        if wish is not None and wish.name:
            try:
                name = await asyncio.to_thread(self.people.claim, wish.name, wish.key)
            except ValueError as error:
                raise PageRefusal(str(error), 409) from error
        viewer = viewer_for_page(rules.played, wish is not None)
        drill = None if wish is None or wish.drill is None else _named(viewer, wish.drill)
        pair = await self._pair(order, drill)
        params = None if order.build is None else with_build(order.build, rules.played, rules.reset_params)
        params = params if drill is None else dict(drill.reset_params)
        job = {"seed": secrets.randbits(31), "deterministic": rules.deterministic, "reset_params": params}
        person = None
        if wish is not None:
            job |= wish.model_dump(include={"delay", "randomness", "consent", "drill"})
            pad = {**self._controls, "best_of": wish.best_of, "drill": drill and drill.label}
            person = Person(name, not getattr(rules.played.viewer, "real_time", False), pad)
        fight = LiveFight(self._recording(pair, person, job), viewer, person)
        # Who is trusted shares a process with others; a stranger has one of its own, and can harm only this fight.
        is_safe = all(each.kind == SCRIPT or each.facts.get("trusted", True) for each in pair)
        process = self._shared if is_safe else await asyncio.to_thread(FightProcess, rules)
        players = await asyncio.to_thread(self._placed, pair, process)
        if person is not None:
            players.insert(PERSON_SEAT, {"name": person.name, "kind": PERSON, "opponent": ""})
        reply = await process.ask({"begin": fight.id, "players": players, "ticks": drill and drill.ticks, **job})
        if "fault" in reply:
            await self._gone(fight, process)
            raise PageRefusal(f"the fight cannot begin: {reply['cause']}")
        fight.add(reply)
        fight.state = "paused" if order.paused and person is None else fight.state
        fight.order, fight.score, fight.address = order, [*score], address
        self._fights[fight.id] = fight
        for old in [name for name, each in self._fights.items() if each.state == "over"][: -MOST_KEPT or None]:
            del self._fights[old]
        task = asyncio.create_task(self._play(fight, pair, process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return fight

    async def again(self, fight: LiveFight) -> LiveFight:
        """Begins the next fight of a series, or the first one of another; raises `PageRefusal`."""
        if fight.state != "over" or fight.person is None:
            raise PageRefusal("the fight is not over, or nobody plays in it", 409)
        return await self.begin(fight.order, (0.0, 0.0) if fight.is_decided else fight.score, fight.address)

    def costly(self, fight: LiveFight) -> CostlyTicks:
        """Returns what is known of the costliest ticks of a person's fight, one of which is looked at at a time.

        The first call begins that; raises `PageRefusal`.
        """
        if fight.after is None or fight.kept is None:
            raise PageRefusal("there is nothing to say about this fight", 409)
        if fight.thinking is None:
            if len(self._thoughts) >= MOST_WAITING:
                raise PageRefusal("too many fights are looked at already: try again later", 503)
            fight.thinking = asyncio.create_task(self._think(fight.kept))
            self._thoughts.add(fight.thinking)
            fight.thinking.add_done_callback(self._thoughts.discard)
        return fight.thinking.result() if fight.thinking.done() else CostlyTicks(state="waiting")

    async def _think(self, kept: dict[str, Any]) -> CostlyTicks:
        """Looks for the costliest ticks, in a process of its own, since that takes long."""
        async with self._thinking:
            process = await asyncio.to_thread(FightProcess, self._arena.challenge, True)
            try:
                (player,) = await asyncio.to_thread(self._placed, kept["pair"], process)
                found = await process.ask({**kept, "pair": None, "costly": player})
            except PageRefusal as error:
                found = {"cause": error.detail}
            finally:
                await process.close()
        return CostlyTicks(state="done" if "ticks" in found else "none", **found)

    async def _pair(self, order: LiveOrder, drill: Drill | None) -> list[Entrant]:
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
        pair.sort(key=lambda each: each.opponent == WORLD_BOT)  # which only plays the second seat
        if len(pair) > 1 and pair[0].opponent == WORLD_BOT:
            raise PageRefusal("the world's bot needs somebody to fight against")
        return pair

    async def close(self) -> None:
        """Ends all fights."""
        for fight in self._fights.values():
            if fight.state != "over":
                fight.stop()
        for thought in self._thoughts:
            thought.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._shared.close()

    async def _play(self, fight: LiveFight, pair: list[Entrant], process: FightProcess) -> None:
        try:
            await fight.run(process.ask)
        finally:
            after = await self._gone(fight, process)
            if fight.person is not None:
                await self._tell(fight, pair, after)
            fight.finish()

    async def _tell(self, fight: LiveFight, pair: list[Entrant], after: dict[str, Any]) -> None:
        """Keeps what a person's fight was like, of which now everything may be seen."""
        wish, kept = fight.order.person, {name: after.pop(name, None) for name in KEPT}
        if not fight.is_void:
            share = SCORES.get(fight.header["outcomes"][PERSON_SEAT], 0.5)
            fight.score = [fight.score[0] + share, fight.score[1] + 1 - share]
        if wish.drill is None and kept["actions"] is not None:
            fight.kept = {"actions": kept["actions"], "pair": pair}
            fight.kept |= {name: fight.header.get(name) for name in ("seed", "reset_params")}
        if wish.name and fight.is_void:
            after["refusal"] = fight.events[-1]["text"]
        elif wish.name and fight.kept is not None:
            try:
                record = person_fight(fight, kept, self._arena.challenge)
                after["key"] = await asyncio.to_thread(self.people.record, record)
            except ValueError as error:  # it was forgotten while it fought
                after["refusal"] = str(error)
        fight.completed(after)

    async def _gone(self, fight: LiveFight, process: FightProcess) -> dict[str, Any]:
        """Ends a fight in its process; returns what is said about a person's one."""
        found = await process.ask({"end": fight.id})
        if process is not self._shared:
            await process.close()
        return {} if "fault" in found else found

    @cached_property
    def _controls(self) -> dict[str, Any]:
        """The controls of the game, and what a click on its map does; all fights of people share them."""
        played = self._arena.challenge.played
        offset, reach = getattr(played.viewer, "at_offset", lambda east, north: None), range(-REACH, REACH + 1)
        moves = {f"{east},{north}": offset(east, north) for east in reach for north in reach}
        groups = [*map(asdict, controls_of(played.viewer, played.contract))]
        return {"groups": groups, "moves": moves if any(moves.values()) else None}

    def _recording(self, pair: Sequence[Entrant], person: Person | None, start: Mapping[str, Any]) -> Recording:
        """Returns the recording of a fight before its first moment."""
        played = self._arena.challenge.played
        players = [] if person is None else [RecordedPlayer(person.name, "agent")]
        players += [RecordedPlayer(each.name, kind_of(each)) for each in pair]
        if players[0].name == players[1].name:
            players = [replace(each, name=f"{each.name} ({number})") for number, each in enumerate(players, 1)]
        about = about_game(played, played.contract) | {"world": "live"}
        about |= {name: start[name] for name in ("seed", "deterministic", "reset_params")}
        return Recording(players=(players[0], players[1]), outcomes=("running", "running"), moments=(), **about)

    def _placed(self, pair: list[Entrant], process: FightProcess) -> list[dict[str, str]]:
        """Returns what a process needs of players, whose files it has then; raises `PageRefusal`."""
        players, lost = files_of(self._arena.store, {each.name: each for each in pair}, {each.name for each in pair})
        if lost:
            name, cause = next(iter(lost.items()))
            raise PageRefusal(f"{name} cannot fight: {cause}", 409)
        return process.sandbox.placed(players, [each.name for each in pair])


def person_fight(fight: LiveFight, kept: dict[str, Any], rules: Challenge) -> PersonFight:
    """Returns what is kept of a person's fight, from what its process says."""
    order, contract = fight.order, rules.played.contract
    weaker = {name: getattr(order.person, name) for name in ("delay", "randomness")}
    outcome, params = fight.header["outcomes"][PERSON_SEAT], fight.header.get("reset_params")
    gave_up = next((each["text"] for each in fight.events if each["kind"] == "end" and each["seat"] is not None), None)
    actions = unpacked(b64decode(kept["actions"]), contract.num_heads)
    seen = dict[str, Any]()
    if kept["observations"] is not None:
        space, choices = contract.observation_space, contract.num_flat_actions
        seen["observations"] = _array(kept["observations"], space.dtype, (len(actions), *space.shape))
        seen["masks"] = _array(kept["masks"], np.bool_, (len(actions), choices))
    return PersonFight(
        person=fight.names[PERSON_SEAT],
        opponent=order.second,
        handicap=", ".join(f"{name} {value:g}" for name, value in weaker.items() if value),
        outcome=outcome if outcome in SCORES else "tied",
        seed=fight.header["seed"],
        build=fight.header["build"],
        ticks=len(actions),
        reset_params=rules.reset_params if params is None else params,
        actions=actions,
        digest=kept["digest"],
        finished_at=time.time(),
        rated=True,
        cause=gave_up if outcome == "lost" and gave_up else None if outcome in SCORES else TICK_LIMIT,
        **seen,
    )


def _array(text: str, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Returns a packed array; raises `ValueError` for one of another size, such as a bomb."""
    try:
        content = zlib.decompressobj().decompress(b64decode(text), int(np.prod(shape)) * np.dtype(dtype).itemsize + 1)
    except zlib.error as error:
        raise ValueError("what was seen is damaged") from error
    return np.frombuffer(content, dtype).reshape(shape)


def _named(viewer: Any, drill: str) -> Drill:
    """Returns a drill of a game; raises `PageRefusal`."""
    known: dict[str, Drill] = {each.id: each for each in getattr(viewer, "drills", tuple)()}
    if drill not in known:
        raise PageRefusal(f"no drill {drill}: there are {', '.join(known) or 'none in this game'}", 404)
    return known[drill]
