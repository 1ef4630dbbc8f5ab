"""Plays fights in sandboxes, on this machine or on a Ray cluster, and finds out who is at fault if one of them dies."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated, Any

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field

from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.common.atomic_files import temporary_folder
from sb3_pvp.common.cores import num_cores
from sb3_pvp.common.errors import one_line, require_known
from sb3_pvp.common.sandbox.sandbox import Sandbox, SandboxDied, SandboxLimits
from sb3_pvp.game import Outcome

TARGET = "sb3_pvp.arena.worker:play"
FIGHTS_PER_JOB = 512  #: About so many are played beside each other, so that players decide in large batches.
_CALL_SECONDS = 5.0  # at least, since whole batches are decided in one call
_SILENCE = 600.0
_ATTEMPTS = 2  #: To play a match by itself whose process ends for reasons that nobody knows.
_OUTCOMES = ("timeout", *(each.name.lower() for each in Outcome))

File = tuple[str, bytes]  #: Name and content.
Players = Mapping[str, tuple[str, str, File | None]]  #: Kind, name of script or file, and file of players, by name.


@dataclass(frozen=True)
class MatchFight:
    """A fight that is to be played."""

    match: str  #: Key of its match.
    number: int  #: In the match, from 0.
    first: str  #: Name of the player in the first seat.
    second: str
    seed: int
    actions: str = ""  #: Of a fight that was played before: the players decide again, but these are what happens.


class FightResult(BaseModel):
    """What became of a fight."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    outcome: str  #: As the first seat sees it; of fights that were not played, that of the forfeit.
    ticks: Annotated[int, Field(ge=0, lt=2**31)] = 0
    build: Annotated[str, Field(max_length=100)] | None = None
    faults: Annotated[list[Annotated[str, Field(max_length=1000)] | None], Field(min_length=2, max_length=2)]
    times: Annotated[list[Annotated[str, Field(max_length=4000)]], Field(min_length=2, max_length=2)] = ["", ""]
    digest: Annotated[int, Field(ge=0, lt=2**63)] = 0
    actions: Base64Bytes = b""  #: Of both seats, as the log keeps them.
    agreement: Annotated[float, Field(ge=0, le=1)] | None = None  #: Share of the decisions that were taken again.


Played = tuple[MatchFight, FightResult | str]  #: A fight, and its result, or why it could not be played.


class Workers:
    """Processes behind walls that play the fights of a challenge; they start with the first fights.

    Args:
        challenge: whose fights they are.
        processes: how many, by default one for each core; on a Ray cluster, as many as it has CPUs for.
        distribute: use the Ray cluster at ``RAY_ADDRESS``, or one of this machine.
    """

    def __init__(self, challenge: Challenge, processes: int | None = None, distribute: bool = False) -> None:
        self._challenge, self._parts, self._lock = challenge, list[Any](), threading.Lock()
        self._size, self._distribute = processes, distribute

    @property
    def size(self) -> int:
        """The number of processes."""
        if self._size is None and self._distribute:
            from sb3_pvp.algorithms.actors.cluster import room_for_actors

            self._size = room_for_actors()
        return self._size or num_cores()

    def play(self, players: Players, fights: Sequence[MatchFight]) -> Iterator[Played]:
        """Plays fights of whole matches; yields each as it ends. A match stays in one process."""
        matches = [list(part) for _, part in groupby(fights, key=lambda fight: fight.match)]
        jobs: SimpleQueue[list[MatchFight] | None] = SimpleQueue()
        size = min(self.size, max(len(matches), 1))
        most = max(min(FIGHTS_PER_JOB, -(-len(fights) // size)), 1)
        part: list[MatchFight] = []
        for match in matches:
            part += match
            if len(part) >= most:
                jobs.put(part)
                part = []
        if part:
            jobs.put(part)
        answers: SimpleQueue[Played | BaseException | None] = SimpleQueue()
        is_over = threading.Event()
        about = players, jobs, answers, is_over
        parts = [self._part(number) for number in range(size)]
        threads = [threading.Thread(target=self._run, args=(part, *about), daemon=True) for part in parts]
        for thread in threads:
            jobs.put(None)
            thread.start()
        running = size
        try:
            while running:
                answer = answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                if answer is None:
                    running -= 1
                else:
                    yield answer
        except KeyboardInterrupt:
            threads.clear()  # nobody waits: the program ends
            raise
        finally:  # after an error, or if nobody wants the rest, they would go on
            is_over.set()
            for thread in threads:
                thread.join()

    def play_now(self, players: Players, fights: Sequence[MatchFight]) -> Iterator[tuple[MatchFight, dict[str, Any]]]:
        """Plays a few fights in one process, each match alone; raises `ValueError` for one that cannot be played."""
        with closing(self._part(0).play(players, fights, alone=True)) as results:
            for fight, result in results:
                if isinstance(result, str):
                    raise ValueError(result)
                yield fight, result.model_dump()

    def close(self) -> None:
        """Ends all processes; the next fights start new ones."""
        with self._lock:
            parts, self._parts = self._parts, []
        for part in parts:
            part.close()

    def _part(self, number: int) -> Any:
        with self._lock:
            while len(self._parts) <= number:
                kind = _OnCluster if self._distribute else MatchProcess
                self._parts.append(kind(self._challenge.model_dump(mode="json")))
            return self._parts[number]

    def _run(self, part: Any, players: Players, jobs: Any, answers: Any, is_over: threading.Event) -> None:
        """Plays jobs until there are no more, or nobody wants the rest; run in a thread."""
        try:
            while not is_over.is_set() and (fights := jobs.get()) is not None:
                names = {name for fight in fights for name in (fight.first, fight.second)}
                with closing(part.play({name: players[name] for name in names}, fights)) as results:
                    for played in results:
                        answers.put(played)
                        if is_over.is_set():
                            break
            answers.put(None)
        except BaseException as error:
            answers.put(error)


class PlayerSandbox:
    """A sandbox with the files of the players that fight in it; its arguments are those of `Sandbox` and its limits."""

    def __init__(self, target: str, rules: Challenge, call_seconds: float, silence: float, **setup: Any) -> None:
        self._folder = temporary_folder()
        self._path = Path(self._folder.name)
        self._path.chmod(0o711)  # another user reads the files, whose names nobody else knows
        limits = SandboxLimits(memory_mb=rules.memory_mb, call_seconds=call_seconds, silence_seconds=silence)
        setup |= {"challenge": rules.model_dump(mode="json"), "folder": os.getcwd()}
        self._sandbox = Sandbox(target, setup, limits, [self._path])

    def run(self, job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the replies of a job, see `Sandbox.run`."""
        return self._sandbox.run(job)

    def placed(self, players: Players, names: Sequence[str]) -> list[dict[str, str]]:
        """Writes the files of these players; returns what jobs say of each: ``name``, ``kind`` and ``opponent``."""
        found = []
        for name in names:
            kind, opponent, file = players[name]
            if file is not None:
                path = self._path / file[0]
                opponent = str(path)
                if not path.is_file():
                    path.write_bytes(file[1])
                    path.chmod(0o644)
            found.append({"name": name, "kind": kind, "opponent": opponent})
        return found

    def close(self) -> None:
        """Ends the process, and removes the files."""
        self._sandbox.close()
        self._folder.cleanup()


class _Turn:
    """A lock that whoever takes it again and again leaves to others in between, as a round does to a test fight."""

    def __init__(self) -> None:
        self._next, self._mine = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._mine.acquire()

    def __exit__(self, *_: object) -> None:
        self._mine.release()


class MatchProcess:
    """One sandbox that plays fights, and finds out who ends it."""

    def __init__(self, challenge: Mapping[str, Any]) -> None:
        rules = Challenge.model_validate(challenge)
        seconds = max(rules.decision.seconds * rules.decision.strikes, _CALL_SECONDS)
        self._sandbox, self._turn = PlayerSandbox(TARGET, rules, seconds, _SILENCE), _Turn()

    def play(self, players: Players, fights: Sequence[MatchFight], alone: bool = False) -> Iterator[Played]:
        """Plays fights; yields each with its result, also those that a player has lost without a fight.

        If the process dies, whoever's code was running loses its matches that are not over; if that is not known, all
        matches that are not over are played again, each by itself. Whoever calls it meanwhile waits.
        """
        with self._turn:
            yield from self._played(players, fights, alone)

    def close(self) -> None:
        """Ends the process, and removes the files."""
        self._sandbox.close()

    def _played(self, players: Players, fights: Sequence[MatchFight], alone: bool) -> Iterator[Played]:
        lost = dict[tuple[str, str], str]()  # causes by match and player
        jobs: list[tuple[list[MatchFight], bool, int]] = [([*fights], alone, 1)]
        while jobs:
            left, alone, attempt = jobs.pop()
            waiting, is_known, why = dict(enumerate(left)), False, "it was left out"
            names = sorted({name for fight in left for name in _pair(fight)})
            try:
                yield from self._results(players, names, waiting, alone, lost)
                attempt = _ATTEMPTS
            except SandboxDied as death:
                why = f"its process ended ({death.cause}), and nobody knows why"
                guilty = None if death.marked is None or death.marked >= len(names) else names[death.marked]
                blamed = {(each.match, guilty): death.cause for each in waiting.values() if guilty in _pair(each)}
                is_known = bool(blamed)
                lost |= {(match, str(name)): cause for (match, name), cause in blamed.items()}
            except RuntimeError as error:  # not the players' fault
                why, attempt = f"the game failed: {str(error).strip().splitlines()[-1]:.300}", _ATTEMPTS
            again = []
            for fight in waiting.values():
                causes = [lost.get((fight.match, name)) for name in _pair(fight)]
                if any(causes):
                    yield fight, forfeit(causes)
                else:
                    again.append(fight)
            if again and is_known:
                jobs.append((again, alone, attempt))
            elif again and not alone:  # whoever is at fault is found in a match by itself
                jobs += [([*part], True, 1) for _, part in groupby(again, key=lambda fight: fight.match)]
            elif again and attempt < _ATTEMPTS:
                jobs.append((again, True, attempt + 1))
            else:
                for fight in again:
                    yield fight, why

    def _results(
        self,
        players: Players,
        names: Sequence[str],
        waiting: dict[int, MatchFight],
        alone: bool,
        lost: dict[tuple[str, str], str],
    ) -> Iterator[Played]:
        """Yields the results of one job, and removes their fights from ``waiting``; `SandboxDied` if that ends it."""
        numbers = {match: n for n, match in enumerate(dict.fromkeys(fight.match for fight in waiting.values()))}
        job = {
            "players": self._sandbox.placed(players, names),
            "fights": [
                {
                    "players": [*map(names.index, _pair(each))],
                    "match": numbers[each.match],
                    "seed": each.seed,
                    "actions": each.actions,
                }
                for each in waiting.values()
            ],
            "alone": alone,
        }
        order = [*waiting]
        replies = self._sandbox.run(job)
        for reply in replies:
            try:
                if "player" in reply:
                    name, cause = names[reply["player"]], str(reply["cause"])[:1000]
                    lost |= {(each.match, name): cause for each in waiting.values() if name in _pair(each)}
                    continue
                number = order[reply.pop("fight")]
                result = FightResult.model_validate(reply)
                require_known("outcome", result.outcome, _OUTCOMES)
                fight = waiting.pop(number)
            except (ValueError, KeyError, IndexError, TypeError) as error:  # pydantic's is a ValueError
                with suppress(Exception):
                    replies.close()  # type: ignore[attr-defined]
                raise SandboxDied("nonsense", None) from error
            yield fight, result


def _pair(fight: MatchFight) -> tuple[str, str]:
    return fight.first, fight.second


def forfeit(causes: Sequence[str | None]) -> FightResult:
    """Returns the result of a fight that one of the players, or both, have lost before it was over."""
    outcome = "tied" if all(causes) else "lost" if causes[0] else "won"
    return FightResult(outcome=outcome, faults=[*causes])


class _OnCluster:
    """The same as `MatchProcess`, in an actor of a Ray cluster."""

    def __init__(self, challenge: Mapping[str, Any]) -> None:
        from sb3_pvp.algorithms.actors.cluster import CPUS_PER_ACTOR, connect

        self._ray: Any = connect()
        self._make: Any = lambda: self._ray.remote(num_cpus=CPUS_PER_ACTOR)(MatchProcess).remote(challenge)
        self._actor, self._turn = self._make(), _Turn()

    def play(self, players: Players, fights: Sequence[MatchFight], alone: bool = False) -> Iterator[Played]:
        """Plays fights as `MatchProcess.play` does; another machine plays what one that fails has not finished."""
        with self._turn:
            yield from self._played(players, fights, alone)

    def _played(self, players: Players, fights: Sequence[MatchFight], alone: bool) -> Iterator[Played]:
        left = dict.fromkeys(fights)
        for attempt in range(1 + _ATTEMPTS):
            stream = self._actor.play.options(num_returns="streaming").remote(players, [*left], alone)
            try:
                for reference in stream:
                    fight, result = self._ray.get(reference)
                    del left[fight]
                    yield fight, result
                return
            except self._ray.exceptions.RayActorError as error:
                if attempt == _ATTEMPTS:
                    raise ConnectionError(f"the machines of the Ray cluster fail: {one_line(error)}") from error
                self._actor = self._make()

    def close(self) -> None:
        """Ends the actor."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor)
