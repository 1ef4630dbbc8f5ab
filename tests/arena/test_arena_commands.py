"""``sb3-pvp arena``: a whole life of an arena on the command line, and mistakes in one line."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.cli import main
from tests.arena.duel import GAME
from tests.arena.kept_workers import kept
from tests.paths import ROOT


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """What a command prints to stdout; errors are one line on stderr."""
    with pytest.raises(SystemExit) as exit_info:
        main(["arena", *map(str, arguments)])
    printed = capsys.readouterr()
    assert exit_info.value.code == code, printed.err
    if code == 2:
        assert printed.err.count("\n") == 1, printed.err
        return printed.err
    return printed.out


@pytest.fixture(scope="module")
def new_arena(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arena with three players that have not met."""
    folder = tmp_path_factory.mktemp("made") / "duel"
    scripts = [each for n in (3, 6, 9) for each in ("--script", f"level-{n}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        with pytest.raises(SystemExit) as exit_info:
            main(["arena", "init", str(folder), "--game", GAME, "--fights", "4", *scripts])
    assert exit_info.value.code == 0
    return folder


@pytest.fixture
def arena(new_arena: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ROOT)
    return shutil.copytree(new_arena, tmp_path / "duel")


def test_a_life_of_an_arena(
    arena: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sb3_pvp.arena.arena.Workers", kept)  # every command would start its own
    assert "level-12: may enter" in run(capsys, "check", arena, "level-12")
    assert "level-12: may enter" in run(capsys, "add", arena, "level-12")
    assert "refused: it has the same weights as level-12" in run(capsys, "add", arena, "level-12", code=1)
    assert "round 1: 2 matches, 8 fights, 0 lost by faults" in run(capsys, "run-once", arena, "--jobs", 1)
    found = json.loads(run(capsys, "run-once", arena, "--jobs", 1, "--json"))
    assert found["round"]["number"] == 2 and found["round"]["is_over"]
    table = run(capsys, "leaderboard", arena)
    assert table.splitlines()[0].split()[:3] == ["rank", "player", "owner"] and table.count("level-") == 4
    lines = json.loads(run(capsys, "leaderboard", arena, "--format", "json"))
    assert sum(line["matches"] for line in lines) == 8
    assert run(capsys, "leaderboard", arena, "--format", "csv").count("\n") == 5
    assert run(capsys, "leaderboard", arena, "--format", "markdown").count("\n") == 6
    assert json.loads(run(capsys, "leaderboard", arena, "--format", "payoff"))
    assert "identical to the one before" in run(capsys, "recompute", arena)
    other = json.loads(run(capsys, "recompute", arena, "--system", "openskill", "--until", "2126-01-01"))
    assert {line["player"] for line in other} == {line["player"] for line in lines}
    assert all(not line["matches"] for line in json.loads(run(capsys, "recompute", arena, "--until", "2020-01-01")))
    matches = json.loads(run(capsys, "matches", arena, "--json"))["matches"]
    assert len(matches) == 4 and not matches[0]["cause"]
    assert "no matches" in run(capsys, "matches", arena, "--faults")
    assert "no match waits" in run(capsys, "matches", arena, "--waiting")
    verified = run(capsys, "verify", arena, matches[0]["match"])
    assert verified.count("identical") == 8 and verified.count("100.00% again") == 4
    csv = tmp_path / "history.csv"
    run(capsys, "export", arena, "-o", csv)
    assert csv.read_text().startswith("model1,model2,timestamp,result\n")
    assert "added 4 matches" in run(capsys, "import", arena, csv)
    run(capsys, "remove", arena, "level-12")
    tested = run(capsys, "sprt", arena, "level-9", "level-3", "--elo1", 200, "--jobs", 1, "--json")
    assert json.loads(tested)["verdict"] == "better"
    undecided = run(capsys, "sprt", arena, "level-9", "level-3", "--max-pairs", 1, "--jobs", 1, code=1)
    assert "not decided" in undecided


@pytest.mark.slow
def test_a_fight_of_the_home_game_is_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "nh"
    run(capsys, "init", folder, "--script", "scripted", "--script", "baseline")
    run(capsys, "run-once", folder, "--jobs", 1)
    page = tmp_path / "fight.html"
    assert "in a browser: scripted against baseline" in run(capsys, "replay", folder, "round-1/match-1", "-o", page)
    assert page.stat().st_size > 10_000 and (tmp_path / "fight.json.gz").is_file()
    verified = json.loads(run(capsys, "verify", folder, "round-1/match-1", "--json"))["fights"]
    assert all(each["same_observations"] and each["same_outcome"] for each in verified)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run-once", "nowhere"], "make one with sb3-pvp arena init"),
        (["leaderboard", "{arena}", "--format", "xml"], "unknown format 'xml'"),
        (["leaderboard", "{arena}", "--system", "glicko"], "unknown system 'glicko'"),
        (["recompute", "{arena}", "--until", "tomorrow"], "--until must be a date"),
        (["recompute", "{arena}", "-o", "table.json"], "-o is for --system and --until: for the table, sb3-pvp arena"),
        (["recompute", "{arena}", "--until", "2026-05-01", "--json"], "print a JSON list anyway: leave --json out"),
        (["serve", "{arena}", "--every", "soon"], "such as 4h"),
        (["add", "{arena}", "nothing/here.fighter"], "there is no file, folder or script"),
        (["add", "{arena}", "level-33"], "did you mean 'level-3'?"),
        (["remove", "{arena}", "nobody"], "there is no player nobody"),
        (["verify", "{arena}", "round-7/match-1"], "no fight 'round-7/match-1'"),
        (["replay", "{arena}", "round-7/match-1"], "no fight"),
        (["sprt", "{arena}", "level-3", "nobody"], "unknown player 'nobody'"),
        (["sprt", "{arena}", "level-3", "level-3"], "two players"),
        (["sprt", "{arena}", "level-3", "level-6", "--elo1", "-5"], "elo0 must be below elo1"),
        (["import", "{arena}", "nothing.csv"], "nothing.csv"),
        (["init", "{arena}"], "there is an arena in"),
        (["init", "{arena}/x", "--fights", "3"], "multiple of 2"),
        (["init", "{arena}/x", "--game", "Nothing"], "unknown game 'Nothing'"),
        (["push", "{arena}", "x.zip", "a/b"], "asks for no tags"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], words: str, arena: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(arena.iterdir())
    assert words in run(capsys, *(each.format(arena=arena) for each in arguments), code=2)
    assert sorted(each for each in arena.iterdir() if "-wal" not in each.name and "-shm" not in each.name) == [
        each for each in before if "-wal" not in each.name and "-shm" not in each.name
    ]


@pytest.mark.slow
def test_an_arena_that_serves_is_stopped_and_goes_on(arena: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sb3_pvp.cli",
        "arena",
        "serve",
        str(arena),
        "--every",
        "1s",
        "--jobs",
        "1",
        "--no-page",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith("round 1: ")
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)  # a shell may have told its background not to heed Ctrl-C
        said: Any = process.stderr.read()
    assert "all matches that were over count, go on with: sb3-pvp arena serve" in said
    assert "Traceback" not in said
