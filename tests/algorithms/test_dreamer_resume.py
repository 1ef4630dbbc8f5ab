"""DreamerV3 goes on from a file, wherever in a rollout it was saved, and never takes the replay of another run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.callbacks import ObservationMetricsCallback
from sb3_pvp.envs import PvpVecEnv
from tests.algorithms.test_dreamer_algorithm import TINY
from tests.policies.files.numbers_game import GAME, TICKS

SETTINGS: dict[str, Any] = {"policy_kwargs": {"size": TINY}, "batch_size": 2, "batch_length": 4, "train_ratio": 4}
SETTINGS |= {"imagined_steps": 2, "buffer_size": 1000, "rollout_steps": 2 * TICKS, "device": "cpu", "seed": 0}
STEPS = 2 * 40


def fights() -> PvpVecEnv:
    return PvpVecEnv(2, game=GAME, opponent="any", seed=0)


class Saves(BaseCallback):
    """Changes rewards, and saves the model and its replay in some steps, as callbacks of rl-zoo3 and SB3 do."""

    def __init__(self, folder: Path, at: tuple[int, ...]) -> None:
        super().__init__()
        self.folder, self.at = folder, at

    def _on_step(self) -> bool:
        self.locals["rewards"] += 1
        assert isinstance(self.model, DreamerV3)
        if (step := self.num_timesteps // 2) in self.at:
            self.model.save(self.folder / str(step))
            shutil.copytree(self.folder / "replay", self.folder / f"replay-{step}")
        return True


def test_what_a_callback_saves_goes_on_exactly(tmp_path: Path) -> None:
    """In the middle of a fight, at the end of one, and in the last step of a rollout."""
    at = (TICKS + 2, 3 * TICKS, 4 * TICKS)
    model = DreamerV3("MultiInputPolicy", fights(), replay_folder=str(tmp_path / "replay"), **SETTINGS)
    model.learn(STEPS, callback=[Saves(tmp_path, at), ObservationMetricsCallback()], log_interval=1)
    counts = {name: getattr(model, name) for name in ("num_timesteps", "trained_rollouts", "n_updates", "_episode_num")}
    for step in at:
        folder = str(tmp_path / f"replay-{step}")
        again = DreamerV3.load(tmp_path / f"{step}.zip", env=fights(), device="cpu", replay_folder=folder)
        left = STEPS - again.num_timesteps
        callbacks = [Saves(tmp_path, ()), ObservationMetricsCallback()]
        again.learn(left, callback=callbacks, log_interval=1, reset_num_timesteps=False)
        assert counts == {name: getattr(again, name) for name in counts}, step
        weights = again.policy.state_dict()
        assert all(th.equal(part, weights[name]) for name, part in model.policy.state_dict().items()), step
        replays = [each.replay_buffer for each in (model, again)]
        rows = int(replays[0].counts.max()) * 2
        assert np.array_equal(replays[0].counts, replays[1].counts)
        assert np.array_equal(replays[0].records["reward"][:rows], replays[1].records["reward"][:rows]), step
        assert [each["r"] for each in model.ep_info_buffer or ()] == [each["r"] for each in again.ep_info_buffer or ()]


def test_the_replay_of_another_run_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "replay"
    DreamerV3("MultiInputPolicy", fights(), replay_folder=str(folder), **SETTINGS).learn(40).save(tmp_path / "run.zip")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    fresh = DreamerV3("MultiInputPolicy", fights(), replay_folder=str(folder), **SETTINGS)
    without = {"training_state": None}
    stateless = DreamerV3.load(tmp_path / "run.zip", env=fights(), device="cpu", custom_objects=without)
    for model in (fresh, stateless):
        with pytest.raises(ValueError, match="another run: resume that one, take another folder, or remove it"):
            model.learn(20, reset_num_timesteps=False)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
