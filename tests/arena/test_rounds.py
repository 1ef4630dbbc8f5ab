"""Rounds of an arena: real matches in real sandboxes, with players of all kinds of malice among them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.arena.exchange import compare_players, export_matches, import_matches
from sb3_pvp.arena.playing import Workers
from sb3_pvp.arena.replaying import fights_of, recording_of, verify
from sb3_pvp.arena.serve import parse_interval, serve
from sb3_pvp.arena.store import Entrant
from sb3_pvp.arena.table import as_json, matches_of, payoff_matrix
from sb3_pvp.matches.sprt import Sprt
from tests.arena.duel import GAME
from tests.arena.kept_workers import kept
from tests.paths import ROOT
from tests.zoo.sweeps.postgres_server import postgres_server, require_postgres

GOOD = tuple(f"level-{n}" for n in (2, 5, 8, 11))


def make(folder: Path, scripts: tuple[str, ...] = GOOD, **facts: Any) -> Arena:
    """An arena of scripts of the duel, let in without test fights, which some of them would fail."""
    facts = {"fights_per_match": 4, "memory_mb": 512, "pairing": {"kind": "round_robin"}, **facts}
    made = Arena.create(folder, Challenge(name="duel", game=GAME, **facts))
    for script in scripts:
        made.store.add(Entrant(script, "script", script, script, script, "the game"))
    made.workers = kept(made.challenge)
    return made


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    made = make(tmp_path / "arena")
    yield made
    made.close()


def test_a_round_gives_a_table_that_the_log_gives_again(arena: Arena) -> None:
    summary = arena.run_once()
    assert summary is not None and (summary.matches, summary.fights, summary.is_over) == (6, 24, True)
    records = arena.records()
    assert len(records) == 24 and all(record.counted for record in records)
    for match in matches_of(records):
        fights = fights_of(arena, match.key)
        details = [fight.details for fight in fights]
        assert [each.seat for each in details if each] == [0, 1, 0, 1]
        assert [fight.seed for fight in fights] == [fights[0].seed, fights[0].seed, fights[2].seed, fights[2].seed]
        assert fights[2].seed == (fights[0].seed or 0) + 1
    # The gear is rolled for the seats, so in a pair each player has that of the other once.
    table = arena.table()
    assert [line.player for line in table] == ["level-11", "level-8", "level-5", "level-2"]
    assert sum(line.rating for line in table) == pytest.approx(4 * 1200)
    assert arena.recompute() is True, "byte for byte"
    later = arena.table(until=records[0].finished_at - 1)
    assert {line.matches for line in later} == {0}
    assert {line.player for line in arena.table("bradley_terry")} == set(GOOD)
    assert payoff_matrix(records)["level-11"]["level-2"]["wins"] > 0
    assert all(line.seconds_p99 and line.seconds_p50 and line.seconds_p99 >= line.seconds_p50 for line in table)
    seeds = {match.key: fights_of(arena, match.key)[0].seed for match in matches_of(records)}
    assert len(set(seeds.values())) == len(seeds)


def test_every_fight_is_verified_bit_for_bit(arena: Arena) -> None:
    arena.run_once()
    found = [each for match in matches_of(arena.records()) for each in verify(arena, match.key)]
    assert len(found) == 24
    assert all(each.same_observations and each.same_outcome and each.agreement == 1 for each in found)
    key = found[0].key
    record = arena.log.fight(key)
    assert record.details is not None
    changed = record.details.digest ^ 1
    vars(record.details)["digest"] = changed
    arena.log.fight = lambda key: record  # type: ignore[method-assign]
    assert not verify(arena, key, decisions=False)[0].same_observations
    recorded = recording_of(arena, key)  # as text: the game has no viewer
    assert len(recorded.moments) == 7 and "level-2 sees tick 6" in recorded.moments[-1].scene.text


#: What each player does, and what the log says about it.
MALICE = {
    "endless": "hung",
    "memory": "crashed|out of memory",
    "forks": "crashed",
    "nan": "crashed: ValueError: actions of an opponent must be integers",
    "shape": "not one integer per head",
    "outside": "chose an action that does not exist",
    "error": "crashed: KeyError: 'a bug'",
    "exit": "crashed",
    "segfault": "crashed",
    "slow": "too slow",
}


#: The others are slow only because each takes a process of its own.
_QUICK = ("slow",)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in _QUICK else pytest.mark.slow) for each in MALICE]
)
def test_a_hostile_player_loses_with_its_cause_and_the_others_go_on(name: str, tmp_path: Path) -> None:
    decision = {"seconds": 0.05, "strikes": 3} if name == "slow" else {}
    made = make(tmp_path / "arena", (*GOOD[:3], name), decision=decision, fights_per_match=2)
    made.workers = Workers(made.challenge, 1)
    try:
        summary = made.run_once()
        assert summary is not None and (summary.matches, summary.failed, summary.faults) == (6, 0, 3)

        for match in matches_of(made.records()):
            if name in (str(match.player_a), str(match.player_b)):
                assert match.at_fault == name and re.search(MALICE[name], str(match.cause)), match
                assert match.score == (0.0 if str(match.player_a) == name else 1.0)
            else:
                assert match.at_fault is None
                found = verify(made, match.key)
                assert all(each.same_observations and each.same_outcome and each.agreement == 1 for each in found)
        line = next(line for line in made.table() if line.player == name)
        assert line.crash_rate == 1.0 and line.wins == 0
    finally:
        made.close()
    assert not [each for each in psutil.process_iter(["cmdline"]) if "time.sleep(600)" in str(each.info["cmdline"])]


def test_a_file_that_changes_costs_its_player_the_match_only(tmp_path: Path) -> None:
    made = make(tmp_path / "arena")
    model = Entrant("model", "fighter", "00.fighter", "00", "00", "a folder")
    made.store.add(model, b"something else")
    summary = made.run_once()
    made.close()
    assert summary is not None and (summary.matches, summary.faults) == (10, 4)
    causes = Counter(match.cause for match in matches_of(made.records()))
    assert causes == {None: 6, "its file has changed since it was admitted": 4}
    assert next(each for each in made.players if each.name == "model").state == "gone"


def _started(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sb3_pvp.cli", "arena", "run-once", str(folder), "--jobs", "1"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)


def _check_nothing_lost_or_twice(arena: Arena, rounds: int, matches: int, fights: int) -> None:
    records = arena.log.records(counted_only=False, detailed=True)
    keys = [record.key for record in records]
    assert len(keys) == len(set(keys)) == rounds * matches * fights
    by_match = Counter(record.details.match for record in records if record.details)
    assert set(by_match.values()) == {fights} and len(by_match) == rounds * matches
    assert not arena.store.waiting() and arena.store.open_round() is None


@pytest.mark.slow
def test_ten_kills_at_random_moments_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    made = make(tmp_path / "arena", tuple(f"level-{n}" for n in range(20)), fights_per_match=20)
    rng, killed = np.random.default_rng(0), 0
    while killed < 10:
        process = _started(made.folder)
        try:
            process.wait(6 + float(rng.uniform(0, 6)))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
    while made.store.open_round() is not None:
        assert _started(made.folder).wait(300) == 0
    rounds = max(match.round for match in matches_of(made.records()))
    _check_nothing_lost_or_twice(made, rounds, 190, 20)
    before = as_json(made.table())
    made.publish()
    assert made.recompute() is True and as_json(made.table()) == before


@pytest.mark.slow
def test_a_killed_round_goes_on(tmp_path: Path) -> None:
    made = make(tmp_path / "arena", tuple(f"level-{n}" for n in range(8)), fights_per_match=200)
    process = _started(made.folder)
    deadline = time.monotonic() + 120
    while len(made.log) == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert made.store.open_round() == 1 and 0 < len(made.log) < 28 * 200
    assert _started(made.folder).wait(300) == 0
    _check_nothing_lost_or_twice(made, 1, 28, 200)


def two_arenas(made: Arena) -> None:
    """Two processes play the same round."""
    both = [_started(made.folder) for _ in range(2)]
    assert [process.wait(300) for process in both] == [0, 0]


@pytest.mark.slow
def test_two_arenas_on_one_store_play_no_match_twice(tmp_path: Path) -> None:
    made = make(tmp_path / "arena", tuple(f"level-{n}" for n in range(8)), fights_per_match=20)
    two_arenas(made)
    records = made.log.records(counted_only=False, detailed=True)
    rounds = max(record.details.round for record in records if record.details)
    _check_nothing_lost_or_twice(made, rounds, 28, 20)


@pytest.mark.slow
def test_two_arenas_on_one_database(tmp_path: Path) -> None:
    require_postgres()
    with postgres_server() as url:
        challenge = Challenge(name="duel", game=GAME, fights_per_match=20, pairing={"kind": "round_robin"})  # type: ignore[arg-type]
        made = Arena.create(tmp_path / "one", challenge, url)
        for n in range(8):
            made.store.add(Entrant(f"level-{n}", "script", f"level-{n}", f"level-{n}", f"level-{n}", "the game"))
        other = Arena.create(tmp_path / "other", challenge, url)
        assert [each.name for each in other.players] == [f"level-{n}" for n in range(8)]
        both = [_started(each.folder) for each in (made, other)]
        assert [process.wait(300) for process in both] == [0, 0]
        records = made.log.records(counted_only=False, detailed=True)
        rounds = max(record.details.round for record in records if record.details)
        _check_nothing_lost_or_twice(other, rounds, 28, 20)
        assert as_json(made.table()) == as_json(other.table())


def test_results_travel_as_csv(arena: Arena, tmp_path: Path) -> None:
    arena.run_once()
    arena.run_once()
    text = export_matches(arena)
    assert text.splitlines()[0] == "model1,model2,timestamp,result" and len(text.splitlines()) == 13
    other = make(tmp_path / "other")
    assert import_matches(other, text) == 12
    assert import_matches(other, text) == 0, "the same lines are not counted twice"
    for system in ("elo", "elo_sequential", "openskill"):
        own, imported = ({line.player: line.rating for line in each.table(system)} for each in (arena, other))
        assert own == pytest.approx(imported, abs=1e-9 if system == "elo" else 2)
    assert export_matches(other) == text
    for line in ("a,b,1", "a,b,x,1", "a,b,1,7", "a,a,1,1", "a b,c,1,1"):
        with pytest.raises(ValueError, match="line 2 is no match"):
            import_matches(other, f"model1,model2,timestamp,result\n{line}\n")
    with pytest.raises(ValueError, match="'result' is missing"):
        import_matches(other, "model1,model2,timestamp\n")


@pytest.mark.slow
def test_a_sequential_test_finds_the_better_one_and_changes_no_rating(arena: Arena) -> None:
    arena.run_once()
    before = as_json(arena.table())
    *_, result = compare_players(arena, "level-11", "level-2", Sprt())
    assert result.verdict == "better" and result.elo.low > 0
    *_, result = compare_players(arena, "level-2", "level-11", Sprt())
    assert result.verdict == "not better"
    assert as_json(arena.table()) == before
    assert len(list((arena.folder / "sprt").glob("level-11-level-2-*.json"))) == 1
    with pytest.raises(ValueError, match="unknown player 'level-1'"):
        next(compare_players(arena, "level-1", "level-2", Sprt()))


def test_rounds_on_schedule(arena: Arena) -> None:
    assert [parse_interval(text) for text in ("4h", "30m", "0.5s", "1d")] == [14400, 1800, 0.5, 86400]
    for text in ("", "4", "h", "0s", "-1h", "soon"):
        with pytest.raises(ValueError, match="such as 4h"):
            parse_interval(text)
    told: list[Any] = []
    serve(arena, 0.5, told.append, rounds=2)
    assert [each.number for each in told] == [1, 2] and len(arena.log) == 48
    assert (arena.folder / "leaderboard.json").is_file()


def test_a_season_ends_with_a_frozen_table_that_names_who_is_unsettled(tmp_path: Path) -> None:
    made = make(tmp_path / "arena", season={"name": "spring", "end": "2126-01-01T00:00:00Z"})
    assert made.run_once() is not None and made.freeze() is None
    text = (made.folder / "challenge.yaml").read_text().replace("2126", "2026")
    (made.folder / "challenge.yaml").write_text(text)
    ended = Arena(made.folder, 1)
    told: list[Any] = []
    serve(ended, 0.2, told.append)
    assert told == [None]
    frozen = ended.freeze()
    assert frozen is not None and frozen["season"] == "spring"
    assert set(frozen["unsettled"]) == set(GOOD)
    assert ended.run_once() is None and ended.freeze() == frozen
    for each in (made, ended):
        each.close()


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, arena: Arena) -> None:
    with pytest.raises(ValueError, match="there is an arena in"):
        Arena.create(arena.folder, arena.challenge)
    with pytest.raises(FileNotFoundError, match="arena init"):
        Arena(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="needs two players"):
        make(tmp_path / "empty", ()).run_once()
    (arena.folder / "challenge.yaml").write_text("name: other\ngame: " + GAME)
    with pytest.raises(ValueError, match="store is that of the challenge duel"):
        Arena(arena.folder)
    with pytest.raises(ValueError, match="no fight 'round-9/match-1' of an arena"):
        verify(arena, "round-9/match-1")
