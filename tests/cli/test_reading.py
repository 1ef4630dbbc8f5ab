"""How commands read: help, completion, tables, starts of fights and numbers, as people write them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sb3_pvp.arena.challenge import SYSTEMS
from sb3_pvp.cli import arena, main, runs, serve
from sb3_pvp.cli.tables import aligned
from sb3_pvp.cli.zoo_words import OPTIONS, completions
from sb3_pvp.common.arguments import as_written
from sb3_pvp.common.user_modules import PYTHON
from sb3_pvp.games.osrs import DHAROK, NH
from sb3_pvp.games.soccer import SOCCER_TWOS
from sb3_pvp.matches.curves import METRICS
from sb3_pvp.policies.export.inference import AUTO, BACKENDS
from sb3_pvp.zoo.front_ends import COMMANDS
from sb3_pvp.zoo.sweeps.space import DEFAULT_SPACE, own_values
from tests.paths import ROOT

_KIND = re.compile(r"<[a-z]")  #: As in <str>, which newer versions of Typer show.


def run(*arguments: object) -> object:
    with pytest.raises(SystemExit) as exit_info:
        main(list(map(str, arguments)))
    return exit_info.value.code


def completed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str) -> list[str]:
    """What bash offers for the last word; an empty one if this ends in a space."""
    monkeypatch.setenv("_SB3_PVP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    run()
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("sb3-pvp models gen", ["generalist", "generalist@1"]),
        ("sb3-pvp evaluate gen", ["generalist", "generalist@1"]),
        ("sb3-pvp evaluate fast --opponent base", ["baseline"]),
        ("sb3-pvp presets Past", ["PastSelfPlay"]),
        ("sb3-pvp sweep space --preset Past", ["PastSelfPlay"]),
        ("sb3-pvp record fast --game Dha", ["DharokEnv"]),
        ("sb3-pvp league export x --format ", ["json", "csv", "markdown", "table"]),
        ("sb3-pvp exploit --start ", ["both", "scratch", "warm"]),
        ("sb3-pvp train --pre", ["--preset"]),
        ("sb3-pvp train --preset Past", ["PastSelfPlay"]),
        ("sb3-pvp train --preset PastSelfPlay --res", ["--resume"]),
        ("sb3-pvp train --vec-env ", ["dummy", "subproc"]),
        ("sb3-pvp enjoy --env Dha", ["DharokEnv"]),
    ],
)
def test_values_are_completed(
    words: str, offered: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert completed(capsys, monkeypatch, words) == offered


@pytest.mark.parametrize("command", ["train", "enjoy"])
def test_the_options_that_are_completed_are_those_of_the_command(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list stands by itself since the parser takes seconds."""
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit, match="0"):
        COMMANDS[command](["--help"])
    shown = capsys.readouterr().out
    assert {*OPTIONS[command]} == {*re.findall(r"^  (?:-\w.*?, )?(--[\w-]+)", shown, re.MULTILINE)}
    assert completions(command, [], "--al") == ["--algo"]


def test_choices_are_those_that_commands_check() -> None:
    assert tuple(METRICS) == runs.METRICS and {*arena._SYSTEMS} == {*SYSTEMS}
    assert {*serve._BACKENDS} == {AUTO, *BACKENDS}


def test_help_shows_choices_and_one_kind_of_words(capsys: pytest.CaptureFixture[str]) -> None:
    for command, choice in (
        ("league export", "csv|"),
        ("serve", "auto|torch"),
        ("exploit", "both|"),
        ("plot", "win_rate|"),
    ):
        assert run(*command.split(), "-h") == 0
        text = capsys.readouterr().out
        assert choice in text and not _KIND.search(text), text
    assert run("evaluate", "-h") == 0
    text = capsys.readouterr().out
    assert "MODEL" in text and "--episodes EPISODES" in text and not _KIND.search(text)


def test_the_command_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    output = capsys.readouterr()
    assert "quickstart" in output.out and not output.err


def test_what_is_missing_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate") == 2
    assert "'MODEL'. The model's file, a fighter that ships, or mcts:FILE; see" in capsys.readouterr().err


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_tables_fit_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["name", "what for"], ["short", "a word " * 15], ["logs/maskable_ppo/NhEnv_1/NhEnv.zip", "1"]]
    monkeypatch.setenv("COLUMNS", str(width))
    wide = aligned(rows)
    assert max(map(len, wide.splitlines())) > 120 and len(wide.splitlines()) == 3, "a pipe gets one line for each"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = aligned(rows).splitlines()
    assert max(map(len, lines)) <= width and "".join("".join(lines).split()).count("word") == 15
    if width >= 60:
        assert any(line.startswith(rows[2][0]) for line in lines), "words are broken last"


def test_all_tables_fit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for command in ("models", "presets"):
        assert run(command) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_start_of_fights_is_told_in_words() -> None:
    assert NH.start_in_words({}) == "the build PURE"
    assert NH.start_in_words({"accountBuild": "MED", "allowSmite": False}) == "the build MED and allowSmite False"
    everything = {"randomizeBuild": True, "randomizeGear": True, "randomizeFightType": True}
    told = NH.start_in_words(everything)
    assert told == "one of the builds PURE, ZERKER, MED, random gear and a random fight type"
    twice = NH.start_in_words(everything | {"randomBuildOptions": ["PURE", "PURE", "MED"]})
    assert twice == "one of the builds PURE, MED, random gear and a random fight type"
    many = ["PURE", "ZERKER", "MED", "MAXED"]
    assert NH.start_in_words({**everything, "randomBuildOptions": many}).startswith("one of 4 builds, random gear")
    assert DHAROK.start_in_words({}) == SOCCER_TWOS.start_in_words({}) == "the default start"
    assert SOCCER_TWOS.start_in_words({"ballTouch": 0.5}) == "ballTouch 0.5"


def test_numbers_are_rounded_as_people_write_them() -> None:
    assert as_written(1 - 0.995) == 0.005 and as_written({"n": [4e6, 1 / 3]}, 4) == {"n": [4_000_000, 0.3333]}
    block = {"gamma": 0.995, "gae_lambda": 0.95, "n_timesteps": 1e6, "policy": "AutoregressivePolicy"}
    own = own_values(DEFAULT_SPACE, block, 1_000_000)
    assert own["one_minus_gamma"] == 0.005 and own["one_minus_gae_lambda"] == 0.05


def test_presets_are_printed_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("presets", "NhEnv") == 0
    assert "n_timesteps: 4000000\n" in capsys.readouterr().out


@pytest.mark.slow
def test_in_a_pipe_errors_come_after_what_led_to_them(tmp_path: Path) -> None:
    """Both outputs of a training that is refused late, in one pipe."""
    done = subprocess.run(
        [*PYTHON, "sb3_pvp.cli", "train", "-n", "10", "-params", "gamma:2", "n_steps:-1", "-f", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 2 and lines[0].startswith("=====") and "error" in lines[-1], json.dumps(lines)
