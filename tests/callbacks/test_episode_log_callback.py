"""The file of all training episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from duel import duels
from logged import remember
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import EpisodeLogCallback
from sb3_pvp.envs import NhVecEnv

ROLLOUT = 4 * 16
SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}


def fights(**kwargs: Any) -> NhVecEnv:
    return NhVecEnv(4, opponent="stayalive", max_episode_ticks=10, **kwargs)


def new_model(folder: Path, env: Any) -> PvpPPO:
    model = PvpPPO("MultiInputPolicy", env, device="cpu", seed=1, **SMALL)
    model.run_folder = folder
    remember(model)
    return model


def read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]


class Ended(BaseCallback):
    """The infos of all episodes that ended, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.infos: list[tuple[int, int, dict[str, Any]]] = []

    def _on_step(self) -> bool:
        for row, info in enumerate(self.locals["infos"]):
            if info:
                self.infos.append((self.num_timesteps, row, info))
        return True


class SaveOnce(BaseCallback):
    """Saves the model in the middle of the second rollout."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def _on_step(self) -> bool:
        if self.num_timesteps == ROLLOUT + ROLLOUT // 2:
            self.model.save(self._path)
        return True


def test_every_episode_has_a_line(tmp_path: Path) -> None:
    model, ended = new_model(tmp_path, fights(episode_statistics=True)), Ended()
    model.learn(3 * ROLLOUT, callback=[EpisodeLogCallback(statistics=["mean", "max"]), ended])
    lines = read(tmp_path)
    assert len(lines) == len(ended.infos) >= 16
    for line, (timesteps, row, info) in zip(lines, ended.infos, strict=True):
        assert (line["timesteps"], line["environment"]) == (timesteps, row)
        assert {name: line.get(name) for name in ("opponent", "outcome", "build", "seed")} == {
            name: info.get(name) for name in ("opponent", "outcome", "build", "seed")
        }
        assert line["length"] == info["episode"]["l"] and line["reward"] == pytest.approx(info["episode"]["r"])
        assert line["rewards"] == pytest.approx(info["episode_rewards"], rel=1e-5)
        for statistic in ("mean", "max"):
            assert line[statistic] == pytest.approx(info["episode_statistics"][statistic], rel=1e-5)
        assert "std" not in line and "sum" not in line


def test_other_environments_have_what_they_tell(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "fights.jsonl"
    new_model(tmp_path, duels(4)).learn(2 * ROLLOUT, callback=EpisodeLogCallback(path=path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines and all(line.keys() == {"timesteps", "environment", "outcome"} for line in lines)


@pytest.mark.slow
def test_a_resumed_run_has_the_file_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, killed, kept = tmp_path / "whole", tmp_path / "killed", tmp_path / "model.zip"
    new_model(whole, fights(episode_statistics=True)).learn(4 * ROLLOUT, callback=EpisodeLogCallback())
    first = new_model(killed, fights(episode_statistics=True))
    first.learn(3 * ROLLOUT, callback=[EpisodeLogCallback(), SaveOnce(kept)])
    assert len(read(killed)) < len(read(whole))
    resumed = PvpPPO.load(kept, env=fights(episode_statistics=True))
    resumed.run_folder = killed
    remember(resumed)
    resumed.learn(4 * ROLLOUT - resumed.num_timesteps, reset_num_timesteps=False, callback=EpisodeLogCallback())
    assert read(killed) == read(whole)


def test_a_stock_algorithm_that_resumes_has_each_episode_once(tmp_path: Path) -> None:
    model = MaskablePPO("MultiInputPolicy", duels(4), device="cpu", seed=1, **SMALL)
    model.run_folder = tmp_path  # type: ignore[attr-defined]
    model.learn(2 * ROLLOUT, callback=[EpisodeLogCallback(), SaveOnce(tmp_path / "model.zip")])
    saved = ROLLOUT + ROLLOUT // 2
    before = [each for each in read(tmp_path) if each["timesteps"] <= saved]
    with (tmp_path / "episodes.jsonl").open("a") as file:
        file.write('{"timesteps": 7, "envir')  # a process that was killed while it wrote
    resumed = MaskablePPO.load(tmp_path / "model.zip", env=duels(4))
    resumed.run_folder = tmp_path  # type: ignore[attr-defined]
    resumed.learn(ROLLOUT, callback=EpisodeLogCallback(), reset_num_timesteps=False)
    found = read(tmp_path)
    assert found[: len(before)] == before and len(found) > len(before)
    assert all(saved < each["timesteps"] <= saved + ROLLOUT for each in found[len(before) :])
    resumed.learn(ROLLOUT, callback=EpisodeLogCallback())  # from 0: another run
    assert [json.loads(line) for line in (tmp_path / "episodes-1.jsonl").read_text().splitlines()] == found


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown statistic 'median'"):
        EpisodeLogCallback(statistics=["median"])
    with pytest.raises(ValueError, match=r"statistics .* got 'median'"):
        EpisodeLogCallback(statistics="median")
    with pytest.raises(ValueError, match="path must be a path, got 3"):
        EpisodeLogCallback(path=3)  # type: ignore[arg-type]
