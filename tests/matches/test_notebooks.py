"""What a notebook shows of results, and that a training in one is not full of warnings."""

from __future__ import annotations

import re
import warnings

import pytest
from rich.console import Console

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import ProgressCallback
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.matches.evaluation import Score
from sb3_pvp.players.league import Player
from sb3_pvp.players.league.match_records import MatchRecord
from sb3_pvp.players.league.ratings import Ratings
from sb3_pvp.policies import AutoregressivePolicy


def cells(text: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", text)
    return [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in rows]


def test_an_evaluation_is_a_table() -> None:
    score = Score()
    for outcome, build in (("won", "PURE"), ("won", "<b>"), ("lost", "<b>"), ("desync", "PURE")):
        score.count({"outcome": outcome, "build": build})
    header, everything, evil, pure = cells(score._repr_html_())
    assert header == ["build", "win rate", "95 % interval", "won", "lost", "tied", "broken"]
    assert everything == ["all", "66.7%", "20.8% to 93.9%", "2", "1", "0", "1"]
    assert evil[0] == "&lt;b&gt;" and pure == ["PURE", "100.0%", "20.7% to 100.0%", "1", "0", "0", "1"]


def test_ratings_are_a_table() -> None:
    ratings, (a, b) = Ratings(), (Player("main", 7), Player("baseline"))
    outcomes = ["lost", *["won"] * 7]
    records = [MatchRecord(a, b, each, None, None, 9, True, 0.0, f"x/{row}") for row, each in enumerate(outcomes)]
    ratings.payoff.update(records)
    header, first, second = cells(ratings._repr_html_())
    assert header == ["player", "rating", "95 % interval", "Elo", "OpenSkill", "games"]
    assert first[0] == "main@7" and second[0] == "baseline" and first[-1] == second[-1] == "8"
    assert int(first[1]) > int(second[1])


def test_the_bar_of_a_notebook_is_plain_without_ipywidgets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There rich would show nothing, and warn at each step."""
    monkeypatch.setattr("sb3_pvp.callbacks.progress.get_console", lambda: Console(force_jupyter=True))
    monkeypatch.setattr("sb3_pvp.callbacks.progress.find_spec", lambda name: None)
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(2), n_steps=4, batch_size=8, seed=0, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(8, ProgressCallback())
    assert "8/8" in capsys.readouterr().err
