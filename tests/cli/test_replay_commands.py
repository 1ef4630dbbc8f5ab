from __future__ import annotations

import json
from pathlib import Path

import pytest
from sb3_contrib import MaskablePPO

from sb3_pvp import PvpPPO
from sb3_pvp.cli import main
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.matches.replay import load_fight
from sb3_pvp.policies import AutoregressivePolicy
from tests.paths import DATA
from tests.players.opponent_models import random_model, saved

RECORDINGS = DATA / "recordings"


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as exit_info:
        main(list(arguments))
    code = exit_info.value.code
    assert isinstance(code, int)
    captured = capsys.readouterr()
    return code, captured.err if code else captured.out


def test_a_fight_is_recorded_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, fight = saved(random_model(1), tmp_path, "mine"), tmp_path / "fight.json.gz"
    options = ("--opponent", "noop", "--seed", "4", "--reset-params", '{"accountBuild": "ZERKER"}', "-o", str(fight))
    code, output = run("record", model, *options, capsys=capsys)
    recording = load_fight(fight)
    ticks = len(recording.moments) - 1
    assert code == 0 and f"mine against noop: {recording.outcomes[0]} after {ticks} ticks" in output
    assert (recording.seed, recording.build) == (4, "ZERKER")
    assert "with sampled actions" in output and "with --deterministic it may be" in output
    code, output = run("record", model, *options, "--json", capsys=capsys)
    figures = json.loads(output)
    assert (figures["players"], figures["build"], figures["start"]) == (
        ["mine", "noop"],
        "ZERKER",
        {"accountBuild": "ZERKER"},
    )
    assert (figures["outcome"], figures["ticks"]) == (recording.outcomes[0], len(recording.moments) - 1)
    code, output = run("replay", str(fight), capsys=capsys)
    assert code == 0 and f"open {tmp_path / 'fight.html'} in a browser" in output
    assert "mine against noop" in (tmp_path / "fight.html").read_text()


def test_the_fight_is_one_of_the_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = NhVecEnv(1, reset_params={"accountBuild": "MAXED"})
    PvpPPO(AutoregressivePolicy, env, n_steps=2, batch_size=2).save(tmp_path / "maxed.zip")
    _, output = run("record", str(tmp_path / "maxed"), "-o", str(tmp_path / "fight.json"), "--json", capsys=capsys)
    assert json.loads(output)["build"] == "MAXED"


def test_policies_of_sb3_contrib_are_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    MaskablePPO("MultiInputPolicy", NhVecEnv(1), n_steps=2, batch_size=2).save(tmp_path / "stock.zip")
    code, output = run("record", str(tmp_path / "stock.zip"), "-o", str(tmp_path / "fight.json"), capsys=capsys)
    assert code == 0 and "does not record how its training fights started" in output
    assert load_fight(tmp_path / "fight.json").moments[1].decisions[0]


def test_a_recording_of_the_wire_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    code, _ = run("replay", str(RECORDINGS / "selfplay-04-core_random1.jsonl.gz"), "-o", str(page), capsys=capsys)
    assert code == 0 and page.read_text().endswith("</html>\n")


@pytest.mark.parametrize(
    ("name", "page"),
    [("run.1.jsonl.gz", "run.1.html"), ("run.2.jsonl", "run.2.html"), ("v1.0.json.gz", "v1.0.html")],
)
def test_every_fight_has_a_page_of_its_own(
    name: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages: list[Path] = []
    monkeypatch.setattr("sb3_pvp.matches.replay.load_fight", lambda path, game: path)
    monkeypatch.setattr("sb3_pvp.matches.replay.write_replay_page", lambda recording, path: pages.append(path))
    assert run("replay", str(tmp_path / name), capsys=capsys)[0] == 0
    assert pages == [tmp_path / page]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["record", "none.zip"], "no model file none.zip"),
        (["record", "noop", "--opponent", "bseline"], "did you mean 'baseline'"),
        (["record", "noop", "--reset-params", "3"], "--reset-params must be a JSON object"),
        (["record", "noop", "--world", "rsps://127.0.0.1:1?connect_timeout=1"], "no server can be reached"),
        (["replay", "none.json.gz"], "There is no recorded fight none.json.gz"),
        (["replay", "none.jsonl"], "There is no recording none.jsonl"),
        (["replay", __file__], "is not a recorded fight"),
        (["replay", "none.json.gz", "-o", str(RECORDINGS)], f"'{RECORDINGS}' is a directory"),
        (["record", "none.zip", "-o", str(RECORDINGS)], f"'{RECORDINGS}' is a directory"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = run(*arguments, capsys=capsys)
    assert code == 2 and message in output and output.count("\n") == 1
