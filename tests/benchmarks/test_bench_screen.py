from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import screen_learning
from benchmarks.__main__ import main
from benchmarks.json_lines import read_lines
from benchmarks.screen import occupied
from tests.games.screen.screens import need_display, painter, written


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


def test_what_a_model_gets_more_has_an_interval() -> None:
    lines = [
        {"player": player, "return": each, "frames": 90, "late": 5, "dropped": 10}
        for player, returns in (("random", (1.0, 2.0, 3.0) * 10), ("it.zip", (4.0, 6.0) * 15))
        for each in returns
    ]
    random, model, difference = screen_learning.compared(lines, "it.zip")
    assert (random["case"], random["return"], random["episodes"]) == ("random", pytest.approx(2), 30)
    assert (model["return"], model["ticks"], model["dropped"]) == (5, 100, pytest.approx(0.1))
    assert difference["return"] == pytest.approx(3)
    # Of means of 30: the deviations are sqrt(2/3 / 30) and sqrt(1 / 30).
    assert 3 - difference["low"] == pytest.approx(1.96 * 0.236, rel=0.15)
    assert difference["high"] - 3 == pytest.approx(1.96 * 0.236, rel=0.15)


@pytest.mark.slow
def test_a_model_plays_in_turns_with_random_actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_display()
    path = written(tmp_path, painter(limit=8))
    right = SimpleNamespace(
        predict=lambda seen, *others, **keywords: (np.full(len(seen), 2), None), action_space=SimpleNamespace(n=6)
    )
    monkeypatch.setattr(screen_learning, "load", lambda path: right)
    given = {"env_kwargs": {"game": path}, "episodes": 3, "displays": 2, "seed": 0}
    out = tmp_path / "out" / "episodes.jsonl"
    for _ in range(2):
        screen_learning.play(Path("right.zip"), out, **given)
        lines = read_lines(out)
        assert sorted(line["player"] for line in lines) == ["random"] * 3 + ["right.zip"] * 3
    assert all(line["frames"] + line["dropped"] >= 8 for line in lines)
    random, model, difference = screen_learning.compared(lines, "right.zip")
    assert model["return"] > random["return"] and difference["low"] > 0
