"""Self-play in games whose answers are known (docs/self-play.md).

Figures of the full run (120 rollouts, seeds 0 to 4): docs/self-play.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.matrix_games import WITH_A_WELL
from benchmarks.self_play import figures, make_learner, strategy_of, train
from tests.paths import ROOT

DOCS = ROOT / "docs"


@pytest.mark.slow
def test_past_self_play_approaches_the_solution_and_the_newest_self_goes_round_in_circles(tmp_path: Path) -> None:
    results = {kind: figures(train(kind, 60, tmp_path / kind)) for kind in ("past", "latest")}
    past, latest = results["past"], results["latest"]
    assert np.abs(np.array(past["average"][-1]) - 1 / 3).max() < 0.08
    assert past["exploitability_of_average"][0] > 0.6  # it began with rock
    assert past["exploitability_of_average"][-1] < 0.15
    newest = {kind: np.mean(result["exploitability"][-20:]) for kind, result in results.items()}
    assert newest["past"] < 0.45 < newest["latest"]
    favourites = np.argmax(latest["strategy"][10:], axis=1)
    assert set(favourites.tolist()) == {0, 1, 2}


def test_the_figures_of_the_documentation_say_what_it_says() -> None:
    results = json.loads((DOCS / "self-play.json").read_text(encoding="utf-8"))
    ends: dict[str, list[Any]] = {"past": [], "prioritised": [], "latest": []}
    for end in results["summaries"]:
        ends[end["opponents"]].append(end)
    assert all([end["seed"] for end in own] == [0, 1, 2, 3, 4] for own in ends.values())
    for kind in ("past", "prioritised"):
        assert all(np.abs(np.array(end["average"]) - 1 / 3).max() < 0.05 for end in ends[kind])
        assert max(end["exploitability_of_newest"] for end in ends[kind]) < 0.25
        assert results[kind]["exploitability_of_average"][-1] < 0.05 < results[kind]["exploitability_of_average"][15]
    assert min(end["exploitability_of_newest"] for end in ends["latest"]) > 0.6


def test_an_exploitable_champion_is_beaten_within_25_rollouts() -> None:
    game = WITH_A_WELL
    model = make_learner(game, logits=(0.0, 0.0, 2.0, 0.0), opponent="champion")
    before = strategy_of(model) @ game.payoff @ game.champion
    model.learn(25 * model.n_steps * model.n_envs)
    after = strategy_of(model) @ game.payoff @ game.champion
    assert game.best_answer(game.champion) == pytest.approx(0.6)
    assert before < 0  # scissors lose to rock
    assert after > 0.28  # with an entropy bonus of 0.4 the best is 0.37
