from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from matplotlib.image import imread

from benchmarks import screen_learning
from benchmarks.__main__ import main
from benchmarks.json_lines import append_line, read_lines
from benchmarks.screen import occupied
from sb3_pvp import PvpPPO
from sb3_pvp.common.errors import Refusal
from tests.games.screen.screens import need_display, painter, written
from tests.paths import ROOT


def test_squares_are_told_apart_by_the_colors_of_pieces() -> None:
    board = np.full((328, 328, 3), (205, 133, 63), np.uint8)  # wood
    board[:41] = np.where(np.arange(41)[:, None, None] % 2, (20, 20, 20), (205, 133, 63))  # the eighth rank
    board[-41:, :41] = np.where(np.arange(41)[:, None, None] % 9, (255, 255, 204), (20, 20, 20))
    seen = occupied(board).reshape(8, 8)
    assert seen[0, 0] == 1 and not seen[0, 1:].any() and not seen[1:7].any() and (seen[7] == -1).all()


@pytest.mark.slow
def test_displays_keep_time_and_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    need_display("xgalaga")
    with pytest.raises(SystemExit) as ended:
        main(["screen", "--moves", "0", "--displays", "1,2", "--seconds", "2", "--json"])
    assert ended.value.code == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["case"], row["displays"], row["frames"], row["left"]) for row in rows] == [
        ("xgalaga", 1, 20, 0),
        ("xgalaga", 2, 40, 0),
    ]
    assert all(0 <= row["median ms"] <= row["p95 ms"] <= row["most ms"] for row in rows)


def lines_of(player: str, *returns: float) -> list[dict[str, Any]]:
    """Lines of episodes that were begun, and came to an end."""
    found = []
    for each in returns:
        found += [{"player": player, "begins": True}]
        found += [{"player": player, "return": each, "frames": 90, "late": 5, "dropped": 10}]
    return found


def test_what_a_model_gets_more_has_an_interval() -> None:
    lines = lines_of("random", *(1.0, 2.0, 3.0) * 10) + lines_of("it.zip", *(4.0, 6.0) * 15)
    lines += [{"player": "it.zip", "begins": True}]
    random, model = screen_learning.compared(lines, ["it.zip"])
    assert (random["case"], random["return"], random["episodes"]) == ("random", pytest.approx(2), 30)
    assert (model["return"], model["ticks"], model["dropped"]) == (5, 100, pytest.approx(0.1))
    assert (random["lost"], model["lost"], model["more"]) == (0, 1, pytest.approx(3))
    # Of means of 30: the deviations are sqrt(2/3 / 30) and sqrt(1 / 30).
    assert 3 - model["more low"] == pytest.approx(1.96 * 0.236, rel=0.15)
    assert model["more high"] - 3 == pytest.approx(1.96 * 0.236, rel=0.15)


def test_all_models_together_have_an_interval_over_seeds_and_episodes() -> None:
    lines = lines_of("random", *(1.0, 3.0) * 15)
    for number in range(4):
        lines += lines_of(f"{number}.zip", *(4.0 + number, 6.0 + number) * 15)
    *_, together = screen_learning.compared(lines, [f"{number}.zip" for number in range(4)])
    assert (together["case"], together["return"], together["more"]) == ("all models", 6.5, 4.5)
    # Models differ by a variance of 5/4, and episodes of each, like random ones, by 1: means of 4 and of 30.
    half = 1.96 * (1.25 / 4 + 1 / 30 / 4 + 1 / 30) ** 0.5
    assert 4.5 - together["more low"] == pytest.approx(half, rel=0.15)
    assert together["more high"] - 4.5 == pytest.approx(half, rel=0.15)


def test_the_hours_of_a_training_are_those_of_its_monitor_files(tmp_path: Path) -> None:
    assert screen_learning.hours_of_play(tmp_path / "it.zip", 0.1) == {}
    head = '#{"t_start": 1.5, "env_id": "Screen-v0"}\nr,l,t,frames,late,dropped\n'
    (tmp_path / "0.monitor.csv").write_text(f"{head}1.0,9000,950.5,9000,40,500\n2.0,8000,1800.1,8000,40,500\n")
    (tmp_path / "1.monitor.csv").write_text(f"{head}1.0,17000,1800.5,17000,90,1000\n3.0,90")  # it was cut off
    assert screen_learning.hours_of_play(tmp_path / "it.zip", 0.1) == {"hours": pytest.approx(1)}
    metrics = tmp_path / "metrics.jsonl"
    rollouts = [{"step": 8 * each, "time/iterations": each, "rollout/time": 900.0} for each in (1, 2, 3)]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in [*rollouts, {"step": 30, "other": 1}]))
    assert screen_learning.hours_of_play(tmp_path / "it.zip", 0.1) == {"hours": pytest.approx(1), "at most": 1.5}
    # A run that was stopped has played what no line has.
    metrics.write_text("".join(json.dumps({**line, "time/iterations": 1}) + "\n" for line in rollouts))
    assert screen_learning.hours_of_play(tmp_path / "it.zip", 0.1) == {"hours": pytest.approx(1)}


def lasting(**changes: Any) -> dict[str, Any]:
    """The values of a file with a program that random play does not end."""
    content = painter(**changes)
    return {**content, "actions": content["actions"][:-1]}


class Always:
    """In place of a model: it always does the same."""

    def __init__(self, action: int) -> None:
        self.predict = lambda seen, *others, **keywords: (np.full(len(seen), action), None)


@pytest.mark.slow
def test_models_play_in_turns_with_random_actions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_display()
    path = written(tmp_path, lasting(limit=8))
    monkeypatch.setattr(screen_learning, "load", lambda path: Always({"right.zip": 2, "wait.zip": 0}[path]))
    players = {"random": "it", "right.zip": "1", "wait.zip": "2"}
    given = {"game": {"game": path}, "episodes": 3, "displays": 2, "seed": 0}
    out = tmp_path / "out" / "episodes.jsonl"
    for _ in range(2):
        screen_learning.play(players, out, **given)
        lines = read_lines(out)
        for kind in ("begins", "return"):
            assert Counter(line["player"] for line in lines if kind in line) == dict.fromkeys(players, 3)
    assert all(line["frames"] + line["dropped"] >= 8 for line in lines if "return" in line)
    random, right, wait, together = screen_learning.compared(lines, ["right.zip", "wait.zip"])
    assert right["return"] > wait["return"] == 0 and right["more"] == pytest.approx(right["return"] - random["return"])
    assert together["return"] == pytest.approx((right["return"] + wait["return"]) / 2)
    assert capsys.readouterr().err == ""
    # A kill while an episode is under way.
    append_line(out, {"player": "right.zip", "content": "1", "begins": True})
    screen_learning.play(players, out, **given)
    assert capsys.readouterr().err == "1 episodes did not come to an end, and are played again\n"
    with pytest.raises(Refusal, match="has episodes of another model right.zip, or another preset: take another --out"):
        screen_learning.play({**players, "right.zip": "3"}, out, **given)


@pytest.mark.slow
def test_an_episode_whose_program_dies_is_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_display()
    # The program ends once, when the file is there.
    dies = 'if rm "$0" 2>/dev/null; then "$@" & sleep 1; kill $!; exit 3; fi; exec "$@"'
    (tmp_path / "dies").touch()
    program = ["sh", "-c", dies, str(tmp_path / "dies"), *painter()["program"]]
    path = written(tmp_path, lasting(limit=200, program=program, reset=[{"start": True}]))
    monkeypatch.setattr(screen_learning, "load", lambda path: Always(2))
    out = tmp_path / "episodes.jsonl"
    players = {"random": "it", "right.zip": "1"}
    screen_learning.play(players, out, game={"game": path}, episodes=1, displays=1, seed=0)
    lines = read_lines(out)
    assert [*lines[1]][2:] == ["failed"] and "has ended with code 3" in lines[1]["failed"]
    random, right = screen_learning.compared(lines, ["right.zip"])
    assert (random["episodes"], random["lost"], right["episodes"], right["lost"]) == (1, 1, 1, 0)


def test_the_returns_of_trainings_are_drawn(tmp_path: Path) -> None:
    models = [tmp_path / name / "Screen-v0.zip" for name in ("one", "two")]
    for model in models:
        for step in range(1, 60):
            model.parent.mkdir(exist_ok=True)
            append_line(model.parent / "scores.jsonl", {"step": step * 100, "episode/score": step / 2})
    random = {"return": 9.0, "return low": 8.0, "return high": 10.0}
    screen_learning.draw_trainings(tmp_path / "a.png", models, random, 0.2)
    screen_learning.draw_trainings(tmp_path / "b.png", models[:1], random, 0.2)
    assert (imread(tmp_path / "a.png") != imread(tmp_path / "b.png")).any()


@pytest.mark.slow
def test_without_xvfb_it_is_one_line(tmp_path: Path) -> None:
    for name in ("mss", "Xlib"):
        pytest.importorskip(name)

    class Seen(gymnasium.Env[Any, Any]):
        observation_space, action_space = spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6)

    small = {"features_extractor_kwargs": {"features_dim": 8}}
    PvpPPO("CnnPolicy", Seen(), n_steps=8, batch_size=8, policy_kwargs=small).save(tmp_path / "it.zip")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "screen_learning", tmp_path / "it.zip", "--out", tmp_path / "out.jsonl"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PATH": str(tmp_path)},
    )
    line = "benchmarks: error: there is no program Xvfb: apt-get install xvfb; the same command goes on\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", line)
