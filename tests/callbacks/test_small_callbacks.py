"""Rewards, progress and the table of environments."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from chosen_duel import chosen_duels
from logged import remember
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import (
    EpisodeMetricsCallback,
    LeagueCallback,
    ProgressCallback,
    RewardTrackerCallback,
    SelfPlayCallback,
)
from sb3_pvp.envs import NhVecEnv

ROLLOUT = 4 * 16


def new_model(folder: Path, env: Any = None) -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    model = PvpPPO("MultiInputPolicy", env or chosen_duels(4), device="cpu", seed=1, **settings)
    model.run_folder = folder
    return model


def test_the_reward_tracker_logs_rewards_alone(tmp_path: Path) -> None:
    model = new_model(tmp_path, NhVecEnv(4, max_episode_ticks=20))
    memory = remember(model)
    rewards: list[float] = []

    class Sum(BaseCallback):
        def _on_step(self) -> bool:
            rewards.append(float(self.locals["rewards"].sum()))
            return True

    model.learn(2 * ROLLOUT, callback=[RewardTrackerCallback(verbose=True), Sum()])
    table = memory.dumps[-1]
    assert table["rewards/overall_total"] == pytest.approx(sum(rewards[16:]), abs=1e-4)
    tags = {tag for tag in table if tag.startswith(("rewards/", "combat/", "terminal/", "env/"))}
    assert len(tags) > 3 and all(tag.startswith("rewards/") for tag in tags)


def test_the_progress_bar_shows_win_rate_and_elo(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    remember(model)
    progress = ProgressCallback(window=10)
    texts: list[str] = []

    class Look(BaseCallback):
        def _on_step(self) -> bool:
            texts.append(progress.text)
            return True

    callbacks = [LeagueCallback(), SelfPlayCallback(past=0.5), progress, Look()]
    model.learn(4 * ROLLOUT, callback=callbacks)
    assert texts[0] == ""
    assert texts[15].startswith("won ") and "Elo" not in texts[15]
    won, _, count, elo = texts[-1].removeprefix("won ").split(maxsplit=3)
    assert 0 <= int(won.rstrip("%")) <= 100 and count == "10," and int(elo.removeprefix("Elo ")) > 1000
    assert progress.pbar.n == 4 * ROLLOUT


def test_fights_against_itself_say_nothing() -> None:
    progress = ProgressCallback()
    for info in ({"opponent": "self", "outcome": "won"}, {"opponent": "noop", "outcome": "desync"}, {}):
        progress._count(info)
    assert progress.text == ""
    progress._count({"opponent": "noop", "outcome": "won"})
    progress._count({"opponent": "noop", "outcome": "timeout"})
    assert progress.text == "won 50% of 2"
    with pytest.raises(ValueError, match="window"):
        ProgressCallback(0)


def test_a_resumed_run_continues_the_table_of_environments(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    remember(model)
    ended: list[int] = []

    class Episodes(BaseCallback):
        def _on_step(self) -> bool:
            ended.extend(row for row, done in enumerate(self.locals["dones"]) if done)
            return True

    model.learn(2 * ROLLOUT, callback=[EpisodeMetricsCallback(), Episodes(), Saving(tmp_path / "model.zip")])
    resumed = PvpPPO.load(tmp_path / "model.zip", env=chosen_duels(4))
    resumed.run_folder = tmp_path
    remember(resumed)
    resumed.learn(ROLLOUT, reset_num_timesteps=False, callback=[EpisodeMetricsCallback(), Episodes()])
    rows = list(csv.DictReader((tmp_path / "environments.csv").read_text().splitlines()))
    assert [int(row["environment"]) for row in rows] == [0, 1, 2, 3]
    assert [int(row["episodes"]) for row in rows] == [ended.count(row) for row in range(4)]
    for row in rows:
        outcomes = sum(int(row[name]) for name in ("wins", "losses", "ties", "broken"))
        assert outcomes == int(row["episodes"]) and row["total_steps"] == "48" and row["opponent"] == "stayalive"
        assert row["last_step"].endswith("+00:00")


class Saving(BaseCallback):
    """Saves the model at the end of training, while its callbacks are still known to it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self.model.save(self._path)
