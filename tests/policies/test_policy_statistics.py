"""Statistics belong to the policy: collected while acting, applied after learning (training.md §3.8, §4, §5)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_pvp import PvpPPO
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.networks import RunningNormalizer
from tests.policies.guessing_game import NH, GuessingGame

NUM_ENVS, NUM_STEPS = 4, 32
ROLLOUT = NUM_ENVS * NUM_STEPS
Algorithm = type[MaskablePPO]
both_algorithms = pytest.mark.parametrize("algorithm", [MaskablePPO, PvpPPO])


def make_model(algorithm: Algorithm = MaskablePPO, **arguments: Any) -> MaskablePPO:
    env = DummyVecEnv([GuessingGame] * NUM_ENVS)
    defaults = {"n_steps": NUM_STEPS, "batch_size": 64, "n_epochs": 2, "learning_rate": 1e-2, "seed": 0}
    return algorithm(AutoregressivePolicy, env, **(defaults | arguments))


class Witness(BaseCallback):
    """Records for each rollout its observations, and what acting and learning compute for them at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.features: list[np.ndarray] = []
        self.actions: list[np.ndarray] = []
        self.means: list[list[np.ndarray]] = []
        self.differences: list[float] = []

    def _on_rollout_start(self) -> None:
        self.means.append([])

    def _on_step(self) -> bool:
        policy = self.model.policy
        assert isinstance(policy, AutoregressivePolicy)
        self.means[-1].append(policy.observation_normalizer.mean.numpy().copy())
        return True

    def _on_rollout_end(self) -> None:
        buffer: Any = self.locals["rollout_buffer"]
        seen = buffer.observations
        width = NH.num_observations
        flat = [seen["observation"].reshape(-1, width), seen["privileged"].reshape(ROLLOUT, -1)]
        self.features.append(np.concatenate(flat, 1).astype(np.float64))
        self.actions.append(buffer.actions.reshape(ROLLOUT, -1).astype(int))
        tensors = {key: th.as_tensor(part.reshape(ROLLOUT, *part.shape[2:])) for key, part in seen.items()}
        policy: Any = self.model.policy
        actions = th.as_tensor(buffer.actions.reshape(ROLLOUT, -1))
        masks = th.as_tensor(buffer.action_masks.reshape(ROLLOUT, -1))
        with th.no_grad():
            values, log_probs, _ = policy.evaluate_actions(tensors, actions, masks)
        differences = (values[:, 0].numpy() - buffer.values.ravel(), log_probs.numpy() - buffer.log_probs.ravel())
        self.differences.append(float(np.abs(differences).max()))


def learn(model: MaskablePPO, rollouts: int) -> Witness:
    witness = Witness()
    model.learn(rollouts * ROLLOUT, callback=witness)
    model.policy.set_training_mode(False)
    return witness


def weights_of(model: MaskablePPO) -> list[th.Tensor]:
    return [parameter.detach().clone() for parameter in model.policy.parameters()]


def unequal(before: list[th.Tensor], after: list[th.Tensor]) -> bool:
    return any(not one.equal(other) for one, other in zip(before, after, strict=True))


@both_algorithms
@pytest.mark.parametrize("policy_kwargs", [{}, {"normalize_observations": False}])
def test_the_first_learning_phase_only_gathers_statistics(algorithm: Algorithm, policy_kwargs: dict[str, Any]) -> None:
    model = make_model(algorithm, policy_kwargs=policy_kwargs)
    before = weights_of(model)
    assert not model.policy.has_statistics
    learn(model, 1)
    assert not unequal(before, weights_of(model))
    assert model.policy.has_statistics
    model.learn(ROLLOUT, reset_num_timesteps=False)
    assert unequal(before, weights_of(model))


@pytest.mark.parametrize(
    "optimizer", [(th.optim.AdamW, {"weight_decay": 0.1}), (th.optim.Adam, {"weight_decay": 0.1}), (th.optim.SGD, {})]
)
def test_no_optimizer_moves_weights_in_the_first_learning_phase(optimizer: tuple[Any, dict[str, Any]]) -> None:
    arguments = {"optimizer_class": optimizer[0], "optimizer_kwargs": optimizer[1]}
    model = make_model(policy_kwargs=arguments)
    before = weights_of(model)
    learn(model, 1)
    assert not unequal(before, weights_of(model))


@both_algorithms
def test_statistics_are_those_of_everything_that_was_acted_on(algorithm: Algorithm) -> None:
    model = make_model(algorithm)
    for rollouts in (1, 2):
        witness = learn(model, rollouts)
        features = np.concatenate(witness.features)
        chosen = np.zeros((len(features), NH.num_flat_actions))
        np.put_along_axis(chosen, np.concatenate(witness.actions) + NH.head_offsets[:-1], 1.0, 1)
        for normalizer, samples in (
            (model.policy.observation_normalizer, features),
            (model.policy.heads.normalizer, chosen),
        ):
            assert normalizer.count == len(samples)
            np.testing.assert_allclose(normalizer.mean, samples.mean(0), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(normalizer.variance, samples.var(0), rtol=1e-5, atol=1e-6)
        model = make_model(algorithm)


@both_algorithms
def test_acting_and_learning_share_statistics_that_change_between_roll_outs_only(algorithm: Algorithm) -> None:
    witness = learn(make_model(algorithm), 4)
    assert max(witness.differences) < 1e-5
    for means in witness.means:
        assert all(np.array_equal(means[0], mean) for mean in means)
    firsts = [means[0] for means in witness.means]
    assert not any(np.array_equal(one, other) for one, other in pairwise(firsts))


@both_algorithms
def test_the_first_minibatch_finds_the_policy_that_acted(algorithm: Algorithm) -> None:
    model = make_model(algorithm, n_epochs=1, batch_size=ROLLOUT, clip_range=1e-3)
    model.learn(4 * ROLLOUT)
    assert model.logger.name_to_value["train/approx_kl"] == pytest.approx(0.0, abs=1e-6)
    assert model.logger.name_to_value["train/clip_fraction"] == 0.0


def test_predicting_and_evaluating_gather_nothing() -> None:
    model = make_model()
    learn(model, 1)
    count = model.policy.observation_normalizer.count.clone()
    env = GuessingGame()
    for seed in range(5):
        model.predict(env.reset(seed=seed)[0])
    seen = model.policy.obs_to_tensor(env.reset()[0])[0]
    model.policy.predict_values(seen)
    model.policy.evaluate_actions(seen, model.policy.get_distribution(seen).sample())
    model.policy.set_training_mode(True)
    model.policy.set_training_mode(False)
    assert model.policy.observation_normalizer.count == count


@both_algorithms
@pytest.mark.parametrize("after_learning", [True, False])
def test_a_zip_keeps_the_statistics(algorithm: Algorithm, after_learning: bool, tmp_path: Path) -> None:
    model = make_model(algorithm)
    model.learn(2 * ROLLOUT)
    if after_learning:
        model.policy.set_training_mode(False)
    model.save(tmp_path / "fighter")
    loaded = MaskablePPO.load(tmp_path / "fighter")
    env = GuessingGame()
    for seed in range(10):
        seen = env.reset(seed=seed)[0]
        expected = model.predict(seen, deterministic=True)[0]
        assert loaded.predict(seen, deterministic=True)[0].tolist() == expected.tolist()
    assert loaded.policy.has_statistics
    for get in NORMALIZERS:
        for name in ("mean", "variance", "count"):
            assert getattr(get(model.policy), name).equal(getattr(get(loaded.policy), name))


NORMALIZERS: list[Callable[[AutoregressivePolicy], RunningNormalizer]] = [
    lambda policy: policy.observation_normalizer,
    lambda policy: policy.heads.normalizer,
]
