"""The learner's rating among fighters of known strength."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chosen_duel import ChosenDuel, chosen_duels
from logged import remember
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from docs.metrics_page import is_documented
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import ReferenceRatingCallback
from sb3_pvp.callbacks.evaluations import Reference, read_references, sample_references
from sb3_pvp.players.league import Player

ROLLOUT = 4 * 16


def evaluation_env(seen: list[str] | None = None) -> DummyVecEnv:
    class Watched(ChosenDuel):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            step = super().step(action)
            if seen is not None and "outcome" in step[-1]:
                seen.append(step[-1]["opponent"])
            return step

    return DummyVecEnv([lambda: Monitor(Watched())] * 3)


def new_model() -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    return PvpPPO("MultiInputPolicy", chosen_duels(4), device="cpu", seed=1, **settings)


def write(folder: Path, **ratings: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "ratings.json").write_text(json.dumps(ratings))
    return folder


def test_the_learner_is_rated_by_frozen_references(tmp_path: Path) -> None:
    references = write(tmp_path, noop=1400, stayalive=1700, scripted=2300)
    model, seen = new_model(), list[str]()
    memory = remember(model)
    callback = ReferenceRatingCallback(references, eval_freq=2, n_eval_episodes=20, env=evaluation_env(seen))
    model.learn(5 * ROLLOUT, callback=callback)
    ratings = [dump["reference/elo"] for dump in memory.dumps if "reference/elo" in dump]
    assert len(ratings) == 3 and len(set(ratings)) == 3
    assert all(map(is_documented, ("reference/elo", "reference/average-match", "reference/win_rate")))
    assert all(dump["reference/matches"] == 20 for dump in memory.dumps if "reference/elo" in dump)
    fought = Counter(seen)
    assert fought["noop"] > fought["scripted"], "those of similar strength are sampled more often"
    # The rating moves towards what the fights say: the expected score at the end is near the real one.
    assert model.resumable_parts["reference_rating"].get_state() == {"rating": ratings[-1]}


def test_the_rating_is_saved_with_the_model(tmp_path: Path) -> None:
    references, ratings = write(tmp_path / "references", noop=1400, stayalive=1700), []
    for parts in ((4,), (2, 2)):
        model = new_model()
        for number, rollouts in enumerate(parts):
            if number:
                model.save(tmp_path / "model.zip")
                model = PvpPPO.load(tmp_path / "model.zip", env=chosen_duels(4))
            remember(model)
            callback = ReferenceRatingCallback(references, 1, 10, env=evaluation_env())
            model.learn(rollouts * ROLLOUT, callback=callback, reset_num_timesteps=not number)
        ratings.append(model.resumable_parts["reference_rating"].get_state())
    assert ratings[0] == ratings[1]


def test_similar_ratings_are_drawn_more_often() -> None:
    references = [Reference(Player(str(rating)), "noop", rating) for rating in (1500.0, 1900.0, 2300.0)]
    sampled = Counter(each.rating for each in sample_references(references, 1500, 20_000, np.random.default_rng(0)))
    weights = np.exp([0, -1, -2])
    assert [sampled[rating] / 20_000 for rating in (1500.0, 1900.0, 2300.0)] == pytest.approx(
        weights / weights.sum(), abs=0.01
    )


def test_references_are_models_and_bots(tmp_path: Path) -> None:
    write(tmp_path, champion=1720, noop=1000)
    for name in ("champion.zip", "main_64_steps.zip", ".partial.zip"):
        (tmp_path / name).write_bytes(b"")
    found = {str(each.player): (each.opponent, each.rating) for each in read_references(tmp_path)}
    assert found == {
        "champion": (str(tmp_path / "champion.zip"), 1720.0),
        "noop": ("noop", 1000.0),
        "reference-main@64": (str(tmp_path / "main_64_steps.zip"), 1360.0),  # their mean
    }


def test_without_ratings_references_have_1500(tmp_path: Path) -> None:
    (tmp_path / "champion.zip").write_bytes(b"")
    assert [each.rating for each in read_references(tmp_path)] == [1500]


def test_the_learner_starts_in_the_middle_of_its_references(tmp_path: Path) -> None:
    model = new_model()
    callback = ReferenceRatingCallback(write(tmp_path, noop=100, stayalive=300), 10, 2, env=evaluation_env())
    callback.init_callback(model)
    assert model.resumable_parts["reference_rating"].get_state() == {"rating": 200}


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ({}, "has no references"),
        ({"nobody": 3}, "no such model"),
        ({"noop": "strong"}, "names of references to numbers"),
    ],
)
def test_refuses_impossible_references(tmp_path: Path, ratings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReferenceRatingCallback(write(tmp_path, **ratings))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"references": 3}, "references must be the path of a folder, got 3"),
        ({"env": 3}, "the env of an evaluation must be a mapping, got 3"),
        ({"env": {"death_mach": False}}, "did you mean 'death_match'"),
    ],
)
def test_refuses_arguments_of_other_types(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReferenceRatingCallback(**{"references": write(tmp_path, noop=1000), **arguments})
