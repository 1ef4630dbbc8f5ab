"""Who plays fights in one process, and that nobody else talks to it meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sb3_pvp.arena import playing
from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.arena.playing import MatchFight, Workers
from tests.arena.duel import GAME
from tests.waiting import wait_until

PLAYERS: Any = {name: ("script", name, None) for name in "ab"}


class Pipe:
    """A sandbox that says who talks to it while another does; each fight takes a moment."""

    talking = 0

    def __init__(self, *_: object, **__: object) -> None:
        self.runs = 0

    def placed(self, *_: object) -> list[dict[str, str]]:
        return []

    def run(self, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.runs += 1
        self.talking += 1
        try:
            for number in range(len(job["fights"])):
                time.sleep(0.002)
                assert self.talking == 1, "another job's reply may be taken for one of this"
                yield {"fight": number, "outcome": "won", "faults": [None, None]}
        finally:
            self.talking -= 1

    def close(self) -> None: ...


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(playing, "PlayerSandbox", Pipe)
    return Workers(Challenge(name="duel", game=GAME), 1)


def matches(count: int) -> list[MatchFight]:
    return [MatchFight(f"m{number}", 0, "a", "b", number) for number in range(count)]


def test_a_test_fight_during_a_round_waits_for_its_turn(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "FIGHTS_PER_JOB", 10)
    ends, part = list[str](), workers._part(0)
    run = part._sandbox.run

    def run_late(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
        monkeypatch.setattr(part._sandbox, "run", run)  # this is the round's first job
        wait_until(part._turn._next.locked)
        yield from run(job)

    monkeypatch.setattr(part._sandbox, "run", run_late)

    def play(kind: str) -> int:
        played = [*(workers.play(PLAYERS, matches(100)) if kind == "round" else workers.play_now(PLAYERS, matches(2)))]
        ends.append(kind)
        return len(played)

    with ThreadPoolExecutor(2) as pool:
        counts = [pool.submit(play, "round")]
        wait_until(part._turn._mine.locked)
        counts.append(pool.submit(play, "test"))
        assert [each.result(60) for each in counts] == [100, 2]
    assert ends == ["test", "round"], "it does not wait for the whole round"


def test_who_wants_no_more_results_frees_the_process(workers: Workers) -> None:
    for play in (workers.play, workers.play_now):
        results: Any = play(PLAYERS, matches(9))
        next(results)
        results.close()
        assert len([*workers.play_now(PLAYERS, matches(2))]) == 2


def test_after_an_error_no_thread_plays_on(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "FIGHTS_PER_JOB", 10)
    workers._size, before = 2, threading.active_count()
    monkeypatch.setattr(workers._part(0), "play", lambda *_: iter([1 // 0]))
    with pytest.raises(ZeroDivisionError):
        list(workers.play(PLAYERS, matches(100)))
    assert threading.active_count() == before and workers._part(1)._sandbox.runs < 5
