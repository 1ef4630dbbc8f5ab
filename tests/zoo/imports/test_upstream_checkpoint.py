"""A checkpoint that the original system trained, and its own outputs: the imported fighter has the same.

``tests/data/upstream`` has 50 recorded situations and the checkpoint, without the numbers of its optimiser and without
the texts that describe actions and observations.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from sb3_pvp import PvpPPO, import_upstream, load
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies.files.fighter_files import export_fighter
from tests.paths import DATA

FOLDER = DATA / "upstream"


@pytest.fixture(scope="module")
def recorded() -> Any:
    return dict(np.load(FOLDER / "small-io.npz"))


@pytest.fixture(scope="module")
def fighter() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # its rules and names are those of our contract
        return import_upstream(FOLDER / "small.zip")


def seen(recorded: Any) -> dict[str, Any]:
    own, hidden = np.split(recorded["obs"], [176], 2)
    return {"observation": own, "privileged": hidden, "action_mask": recorded["masks"].astype(np.int8)}


def test_it_decides_the_same(fighter: Any, recorded: Any) -> None:
    observation = seen(recorded)
    np.testing.assert_array_equal(fighter.predict(observation, deterministic=True)[0], recorded["det_actions"])
    tensors, _ = fighter.policy.obs_to_tensor(observation)
    with th.no_grad():
        np.testing.assert_allclose(fighter.policy.predict_values(tensors)[:, 0], recorded["values"], atol=1e-5)
        for which in ("det", "given", "sampled"):
            actions = th.as_tensor(recorded[f"{which}_actions"]).long()
            shares = fighter.policy.head_probabilities(tensors, actions)
            np.testing.assert_allclose(shares, recorded[f"{which}_probs"], atol=1e-5)
            values, log_probs, entropies = fighter.policy.evaluate_heads(tensors, actions)
            np.testing.assert_allclose(log_probs.sum(1), recorded[f"{which}_log_probs"], atol=1e-5)
            np.testing.assert_allclose(entropies, recorded[f"{which}_entropy"], atol=1e-5)
            np.testing.assert_allclose(values[:, 0], recorded["given_values"], atol=1e-5)


def test_it_predicts_the_same_outcomes(fighter: Any, recorded: Any) -> None:
    outcomes = fighter.outcome_predictor.predict(seen(recorded))
    for name in ("WIN", "LOSE"):
        np.testing.assert_allclose(outcomes[name], recorded[f"winrate_{name}"], atol=1e-5)


def test_what_it_knows_of_its_training(fighter: Any) -> None:
    assert (fighter.num_timesteps, fighter.trained_rollouts, fighter.num_updates) == (3840, 3, 40)
    assert (fighter.game, fighter.frame_ages) == ("NhEnv", (0,))
    assert fighter.reset_params["randomizeBuild"] is True and "LMS_MED" in fighter.reset_params["randomBuildOptions"]
    assert fighter.policy.observation_normalizer.count == pytest.approx(3840.0001)
    assert fighter.normalize_reward and fighter.reward_normalizer.variance == pytest.approx(0.59366542)
    assert fighter.upstream["env_kwargs"]["include_target_obs_in_critic"] is True


def test_it_can_be_saved_and_loaded(fighter: Any, recorded: Any, tmp_path: Path) -> None:
    fighter.save(tmp_path / "fighter.zip")
    loaded: Any = load(tmp_path / "fighter.zip")
    test_it_decides_the_same(loaded, recorded)
    test_it_predicts_the_same_outcomes(loaded, recorded)


def test_it_is_the_same_without_unpickling(fighter: Any, recorded: Any, tmp_path: Path) -> None:
    fighter.save(tmp_path / "fighter.zip")
    test_it_decides_the_same(load(tmp_path / "fighter.zip", safe=True), recorded)
    export_fighter(fighter, tmp_path / "fighter.fighter", onnx=False)
    loaded: Any = load(tmp_path / "fighter.fighter")
    test_it_decides_the_same(loaded, recorded)
    test_it_predicts_the_same_outcomes(loaded, recorded)


def test_training_continues(fighter: Any, tmp_path: Path) -> None:
    fighter.save(tmp_path / "fighter.zip")
    env = NhVecEnv(2, seed=0)
    model = PvpPPO.load(tmp_path / "fighter.zip", env=env, n_steps=16, batch_size=32, n_epochs=1)
    before, count = model.policy.value_net.weight.clone(), model.policy.observation_normalizer.count.clone()  # type: ignore[operator, union-attr]
    model.learn(32, reset_num_timesteps=False)
    assert (model.num_timesteps, model.trained_rollouts, model.num_updates) == (3840 + 32, 4, 41)
    assert not th.equal(before, model.policy.value_net.weight)
    assert model.policy.observation_normalizer.count == count + 32  # type: ignore[union-attr, operator]
