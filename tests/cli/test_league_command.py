from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.cli import main
from sb3_pvp.matches.rating import Progress
from sb3_pvp.players.league import League, MatchRecord, Player

BOT, OLD, NEW = Player("baseline"), Player("main", 64), Player("main", 128)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    league = League(tmp_path / "league")
    outcomes = ["won", "won", "lost", "tied", "desync"]
    league.log.append(
        MatchRecord(NEW, OLD, outcome, None, None, 9, outcome != "desync", 0.0, str(number))
        for number, outcome in enumerate(outcomes)
    )
    return league.folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as exit_info:
        main(["league", *map(str, arguments)])
    output = capsys.readouterr()
    assert exit_info.value.code == code
    return output.err if code == 2 else output.out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    return json.loads(run(capsys, *arguments, "--json", code=code))


def test_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "show", folder, "--rollouts").splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["player", "main@128", "main@64"]
    assert lines[3] == "5 matches, 1 of them not counted"
    shown = as_json(capsys, "show", folder, "--rollouts")
    assert (shown["matches"], shown["not_counted"]) == (5, 1)
    assert [(one["player"], one["games"]) for one in shown["players"]] == [("main@128", 4), ("main@64", 4)]


def test_single_rollouts_are_shown_on_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    League.existing(folder).add(NEW, lambda path: path.write_text("a model"))
    assert [one["player"] for one in as_json(capsys, "show", folder)["players"]] == ["main@128"]
    assert run(capsys, "export", folder, "--format", "markdown").count("| main@") == 1


def test_showing_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    run(capsys, "show", folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_recompute_reports_whether_saved_ratings_were_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    League.existing(folder).save_ratings()
    figures = {"matches": 5, "not_counted": 1, "identical": True, "kept": "identical"}
    assert as_json(capsys, "recompute", folder) == figures
    kept = folder / "ratings.json"
    kept.write_text(kept.read_text().replace("main@64", "main@65"))
    assert as_json(capsys, "recompute", folder) == {**figures, "identical": False, "kept": "different"}
    assert "identical" in run(capsys, "recompute", folder)
    kept.write_text("half of {")
    assert "none of this log" in run(capsys, "recompute", folder)
    kept.unlink()
    assert "none of this log" in run(capsys, "recompute", folder)
    League.existing(folder, {BOT: 1400})
    assert "these anchors were kept" in run(capsys, "recompute", folder)


def test_a_league_whose_matches_are_gone_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    League.existing(folder).save_ratings()
    (folder / "matches.sqlite").unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for command in ("show", "recompute", "export"):
        assert "has lost its matches" in run(capsys, command, folder, code=2)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_the_folder_of_a_run_will_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "show", folder.parent) == run(capsys, "show", folder)


def test_export(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(run(capsys, "export", folder, "--rollouts"))))
    assert [row["player"] for row in rows] == ["main@128", "main@64"]
    assert run(capsys, "export", folder, "--rollouts", "--format", "markdown").count("| main@") == 2
    out = tmp_path / "board.json"
    assert run(capsys, "export", folder, "--rollouts", "--format", "json", "-o", out) == ""
    assert float(rows[0]["rating"]) == json.loads(out.read_text())[0]["rating"]


def test_play_and_rate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = as_json(capsys, "play", folder, "noop", "scripted", "--fights", 5)
    assert counts == {"a": "noop", "b": "scripted", "wins": 0, "ties": 0, "losses": 5, "not_counted": 0}
    assert "noop against scripted: 0 won" in run(capsys, "play", folder, "noop", "scripted", "--fights", 1)
    assert len(League.existing(folder).log) == 5 + 5 + 1, "a second command plays other fights"
    rating = ("rate", folder, "--anchor", "baseline=1400", "--player", "scripted")
    rated = as_json(capsys, *rating, "--until", 200, "--fights-per-round", 32)
    places = {one["player"]: one for one in rated["players"]}
    assert places["baseline"]["rating"] == 1400 == League.existing(folder).anchors[BOT]
    assert places["scripted"]["high"] - places["scripted"]["low"] <= 400
    assert as_json(capsys, "recompute", folder)["identical"] is True
    run(capsys, *rating, "--until", 1, "--max-fights", 5, code=1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--anchor", "foo=1500"], "unknown player 'foo'"),
        (["--anchor", "scripted=nan"], "the anchor of scripted"),
        (["--anchor", "scripted=inf"], "the anchor of scripted"),
        (["--anchor", "scripted=1500", "--player", "noob"], "unknown player 'noob'"),
        (["--anchor", "scripted=1500", "--player", "noop", "--reset-params", '{"foo": 1}'], "foo"),
        (["--anchor", "scripted=1500"], "two players"),
    ],
)
def test_no_anchor_is_kept_of_a_command_that_is_refused(
    folder: Path, wrong: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "league.json").read_bytes()
    assert words in run(capsys, "rate", folder, "--until", 300, *wrong, code=2)
    assert (folder / "league.json").read_bytes() == before


def test_anchors_who_cannot_fight_are_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    League.existing(folder, {Player("foo"): 1500, Player("main", 7): 1600})
    run(capsys, "play", folder, "noop", "scripted", "--fights", 1)
    with pytest.raises(SystemExit) as exit_info:
        main(["league", "rate", str(folder), "--until", "2000", "--player", "noop", "--player", "scripted"])
    assert exit_info.value.code == 0
    errors = capsys.readouterr().err
    assert "ignoring the league's anchor foo" in errors and "ignoring the league's anchor main@7" in errors


def fights(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Returns the line in which `play` and `rate` describe their fights."""
    with pytest.raises(SystemExit):
        main(["league", *map(str, arguments)])
    return next(line for line in capsys.readouterr().err.splitlines() if line.startswith("fights of"))


def test_matches_default_to_the_training_of_the_league(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play = ("play", folder, "scripted", "noop", "--fights", 2)
    rate = ("rate", folder, "--until", 50, "--max-fights", 2, "--player", "noop", "--player", "scripted")
    assert (
        fights(capsys, *play)
        == "fights of NhEnv with the build PURE (the league does not record how its training fights started)"
    )
    league = League.existing(folder)
    league.set_fights("NhEnv", {"accountBuild": "ZERKER"})
    for command in (play, rate):
        assert fights(capsys, *command) == "fights of NhEnv with the build ZERKER"
    assert fights(capsys, *play, "--reset-params", "{}") == "fights of NhEnv with the build PURE"
    assert [each.build for each in league.log.records(5)] == ["PURE"] * 2 + ["ZERKER"] * 4 + ["PURE"] * 2
    other = ("play", folder, "noop", "baseline", "--fights", 1, "--contract", "DharokEnv")
    assert fights(capsys, *other) == "fights of DharokEnv with the default start"
    league.set_fights("DharokEnv", {})
    assert fights(capsys, *other[:-2]) == "fights of DharokEnv with the default start"


def test_rating_takes_models_from_all_over_the_training(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    league, taken = League.existing(folder), []
    league.set_fights("NhEnv", {})
    for step in range(0, 700, 100):
        league.add(Player("main", step), lambda path: path.write_text("a model"))

    def rate(opened: League, candidates: set[Player], *others: Any) -> Iterator[Progress]:
        taken.extend(sorted(candidates))
        yield Progress(dict.fromkeys(candidates, 1.0), (), 0)

    monkeypatch.setattr("sb3_pvp.matches.rating.rate", rate)
    run(capsys, "rate", folder, "--until", 50, "--max-players", 4, "--player", "scripted")
    assert [str(player) for player in taken] == ["main@0", "main@200", "main@400", "main@600", "scripted"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "."], "holds no league"),
        (["recompute", "league.json"], "holds no league"),
        (["export", "{league}", "--format", "xml"], "unknown format 'xml'"),
        (["export", "{league}", "-o", "{league}"], "directory"),
        (["play", "{league}", "main@64", "baseline"], "main@64 has no model"),
        (["play", "{league}", "noop", "a b"], "player's name"),
        (["play", "{league}", "noop", "scripted", "--world", "moon"], "moon"),
        (["play", "{league}", "noop", "scripted", "--contract", "NhEnw"], "NhEnv"),
        (["play", "{league}", "noop", "scripted", "--reset-params", "{{"], "--reset-params"),
        (["play", "{league}", "noop", "scripted", "--reset-params", '{{"acountBuild": 1}}'], "accountBuild"),
        (["play", "{league}", "noop", "scripted", "--world", "rsps://127.0.0.1:1"], "127.0.0.1"),
        (["rate", "{league}"], "--until"),
        (["rate", "{league}", "--until", "50"], "two players"),
        (["rate", "{league}", "--until", "50", "--anchor", "baseline:3"], "baseline=1500"),
        (["rate", "{league}", "--until", "50", "--player", "noob"], "noop"),
    ],
)
def test_bad_usage(folder: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = run(capsys, *(argument.format(league=folder) for argument in arguments), code=2)
    assert error.startswith("sb3-pvp: error: ") and error.count("\n") == 1
    assert words in error
    assert len(League.existing(folder).log) == 5
