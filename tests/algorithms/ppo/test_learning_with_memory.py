"""PvpPPO learns from sequences: right states, right borders, exact resume, and answers that need memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks.dreamer_proofs.games import Cue
from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.ppo.update import PpoUpdate, read_buffer
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from tests.policies.remembering import KINDS, remembering_model, rollouts

DELAY = 10


def same_weights(one: Any, other: Any) -> bool:
    pairs = zip(one.policy.state_dict().values(), other.policy.state_dict().values(), strict=True)
    return all(th.equal(*pair) for pair in pairs)


def right_answers(memory: dict[str, Any] | None, seed: int) -> float:
    """The share of right answers, 10 ticks after the cue, of a policy that has learned for 11,264 steps."""
    env = DummyVecEnv([lambda: Cue(DELAY)] * 64)
    settings: dict[str, Any] = {"n_steps": 44, "batch_size": 704, "n_epochs": 4, "learning_rate": 2e-3, "seed": seed}
    model = PvpPPO(AutoregressivePolicy, env, policy_kwargs={"net_arch": [64], "memory": memory}, **settings)
    model.learn(64 * 44 * 4, use_masking=False)
    seen, state, starts, rewards = env.reset(), None, np.ones(64, bool), []
    for _ in range(4 * (DELAY + 1)):
        actions, state = model.predict(seen, state, starts, deterministic=True)
        seen, paid, starts, _ = env.step(actions)
        rewards += paid[starts].tolist()
    return float(np.mean(np.array(rewards) > 0))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [*KINDS, None])
def test_a_cue_is_remembered_for_ten_ticks(kind: str | None, seed: int) -> None:
    own = {"kind": kind, "size": 32}
    share = right_answers(own if kind else None, seed)
    assert share >= 0.95 if kind else 0.3 < share < 0.7


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_batch_is_judged_as_it_was_played(kind: str) -> None:
    model = rollouts(remembering_model(kind, batch_size=64, n_epochs=0), 2)
    samples, update = (
        read_buffer(model.rollout_buffer),
        PpoUpdate(model.policy, 64, 0.2, None, True, 0.0, 0.5, 0.5, 1, None),
    )
    length = min(KINDS[kind].get("length", 128), model.n_steps)
    assert samples.states is not None and len(samples.states) == model.n_steps // length
    # All ratios are 1: a state at the start, or a border, that was wrong, would show here.
    log = update.run(samples, 1)
    terms = log.terms[0]
    np.testing.assert_allclose(terms[4:6], 0.0, atol=1e-6)
    batches = samples.batches(64)
    assert sorted(th.cat([*batches]).tolist()) == [*range(len(samples))]
    steps = batches[0].reshape(length, -1)
    assert (steps.diff(dim=0) == samples.n_envs).all()  # whole sequences, one step after the other
    starts = samples.starts
    assert starts is not None and starts.any() and not starts.all()


def test_the_critic_sees_what_is_remembered() -> None:
    model = rollouts(remembering_model("gru", n_epochs=0), 2)
    samples, policy = read_buffer(model.rollout_buffer), model.policy
    with th.no_grad():
        features = policy.features(samples.observations)
        seen = policy.remembering(features, samples.states[0], samples.starts)
        np.testing.assert_allclose(policy.values_of(seen).flatten(), samples.old_values, atol=1e-6)
        other = policy.values_of(th.cat([features, th.ones_like(seen[:, features.shape[1] :])], 1))
    assert not np.allclose(other.flatten(), samples.old_values, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_runs_resume_exactly_with_what_was_remembered(kind: str, tmp_path: Path) -> None:
    model = rollouts(remembering_model(kind), 2)
    model.save(tmp_path / "half")
    rollouts(model, 2)
    env = NhVecEnv(8, opponent="self", seed=9, max_episode_ticks=20)
    resumed = rollouts(PvpPPO.load(tmp_path / "half", env), 2)
    assert same_weights(model, resumed)
    assert th.equal(model._last_memory, resumed._last_memory)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_actors_play_the_same_rollouts(kind: str, tmp_path: Path) -> None:
    alone = rollouts(remembering_model(kind), 3)
    model = rollouts(remembering_model(kind, actors=2, synchronous=True), 2)
    model.save(tmp_path / "half")
    assert model.env is not None
    rollouts(model, 1)
    model.env.close()
    assert same_weights(alone, model)
    env = NhVecEnv(8, opponent="self", seed=9, max_episode_ticks=20)
    resumed = rollouts(PvpPPO.load(tmp_path / "half", env), 1)
    assert resumed.env is not None
    resumed.env.close()
    assert same_weights(alone, resumed)
    ahead = rollouts(remembering_model(kind, actors=2), 3)  # learns from what older weights have played
    assert ahead.env is not None
    ahead.env.close()
    assert not same_weights(alone, ahead)


def test_uniform_magnets_and_averages_work_with_memory() -> None:
    model = rollouts(remembering_model("attention", magnet="uniform", magnet_coef=0.1, ema_decay=0.9), 3)
    assert model.logger.name_to_value["train/magnet_kl"] > 0
    assert isinstance(model.action_space, spaces.MultiDiscrete)
