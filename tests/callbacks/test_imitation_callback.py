"""Imitation in a training: it begins as a clone, is pulled back towards it, and resumes exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch as th
from sb3_contrib import MaskablePPO

from sb3_pvp import PvpPPO, load
from sb3_pvp.callbacks import ImitationCallback, MaskableCheckpointCallback
from sb3_pvp.callbacks.checkpoint import CHECKPOINTS
from sb3_pvp.callbacks.imitation_callback import CLONE
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.demonstrations import save_demonstration
from tests.algorithms.imitation.test_cloning import random_fights
from tests.callbacks.logged import remember

ROLLOUT = 8 * 16


def learner(folder: Path, **settings: Any) -> PvpPPO:
    env = NhVecEnv(8, "self", seed=0, max_episode_ticks=20)
    given: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "seed": 1, "device": "cpu"}
    model = PvpPPO(AutoregressivePolicy, env, **given | settings)
    model.run_folder = folder
    return model


def weights(model: Any) -> list[float]:
    return th.cat([part.flatten().double() for part in model.policy.state_dict().values()]).tolist()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shown")
    for number, each in enumerate(random_fights(6, 30)):
        save_demonstration(each, folder / f"{number}.npz")
    return folder


def imitating(shown: Path) -> ImitationCallback:
    return ImitationCallback(str(shown), epochs=2, measure_every=1, measured=2)


def test_the_clone_is_the_magnet_and_a_resumed_run_goes_on_as_if_never_stopped(shown: Path, tmp_path: Path) -> None:
    model = learner(
        tmp_path, magnet_coef={"type": "linear", "initial_value": 0.5, "final_value": 0.1, "change_over_time_steps": 10}
    )
    kept = remember(model)
    model.learn(2 * ROLLOUT, imitating(shown))
    assert model.magnet == str(tmp_path / CLONE) and weights(load(tmp_path / CLONE)) != weights(model)
    logged = {name: value for dump in kept.dumps for name, value in dump.items()}
    assert abs(logged["imitation/explained"]) < 0.1 and logged["train/magnet_kl"] > 0  # chance explains nothing
    model.save(tmp_path / "half.zip")
    model.learn(2 * ROLLOUT, imitating(shown), reset_num_timesteps=False)
    resumed = PvpPPO.load(tmp_path / "half.zip", env=NhVecEnv(8, "self", seed=5, max_episode_ticks=20), device="cpu")
    resumed.run_folder = tmp_path
    resumed.learn(2 * ROLLOUT, imitating(shown), reset_num_timesteps=False)
    assert weights(resumed) == weights(model)


def test_the_average_begins_as_the_clone(shown: Path, tmp_path: Path) -> None:
    model = learner(tmp_path, ema_decay=0.999, learning_rate=0.0)
    model.learn(ROLLOUT, imitating(shown))
    average = model.average.weights()  # type: ignore[union-attr]
    for name, part in model.policy.named_parameters():
        th.testing.assert_close(average[name], part)


def test_a_run_that_resumes_at_step_0_is_not_cloned_again(shown: Path, tmp_path: Path) -> None:
    model = learner(tmp_path)
    model.learn(2 * ROLLOUT, [imitating(shown), MaskableCheckpointCallback(strip_optimizer=False)])
    env = NhVecEnv(8, "self", seed=5, max_episode_ticks=20)
    resumed = PvpPPO.load(tmp_path / CHECKPOINTS / "main_0_steps.zip", env=env, device="cpu")
    resumed.run_folder = tmp_path
    resumed.learn(2 * ROLLOUT, imitating(shown), reset_num_timesteps=False)
    assert weights(resumed) == weights(model)


def test_a_stronger_pull_stays_nearer(shown: Path, tmp_path: Path) -> None:
    ends = []
    for coef in (0.0, 5.0):
        model = learner(tmp_path / str(coef), magnet_coef=coef, learning_rate=1e-2, n_epochs=4)
        kept = remember(model)
        model.learn(4 * ROLLOUT, imitating(shown))
        assert (model.magnet is None) == (coef == 0.0)
        ends.append([dump["imitation/log_likelihood"] for dump in kept.dumps if "imitation/log_likelihood" in dump][-1])
    assert ends[1] > ends[0]


def test_what_cannot_be_is_one_line(shown: Path, tmp_path: Path) -> None:
    stock = MaskablePPO("MultiInputPolicy", NhVecEnv(2), n_steps=4, batch_size=4)
    with pytest.raises(ValueError, match="imitation needs a PvpPPO"):
        stock.learn(8, ImitationCallback(str(shown)))
    with pytest.raises(ValueError, match="nothing to imitate"):
        learner(tmp_path).learn(ROLLOUT, ImitationCallback(str(tmp_path)))
