"""PvpPPO learns from sequences: right states, right borders, exact resume, and answers that need memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

from benchmarks.dreamer_proofs.games import Cue
from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.actors.actor_env import ActorVecEnv
from sb3_pvp.algorithms.ppo.update import PpoUpdate, Samples, read_buffer
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.memory import Remembered
from tests.algorithms.actors.inline_actors import InlineActors
from tests.policies.remembering import KINDS, ONE_KIND, remembering_model, rollouts

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
@pytest.mark.slow
def test_a_cue_is_remembered_for_ten_ticks(kind: str | None, seed: int) -> None:
    own = {"kind": kind, "size": 32}
    share = right_answers(own if kind else None, seed)
    assert share >= 0.95 if kind else 0.3 < share < 0.7


def played(model: PvpPPO) -> Samples:
    """Returns a rollout of a model that has learned, before it learns from it."""
    _, callback = rollouts(model, 3)._setup_learn(10**9, reset_num_timesteps=False)
    callback.on_training_start({}, {})
    assert model.env is not None
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    return read_buffer(model.rollout_buffer)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_batch_is_judged_as_it_was_played(kind: str) -> None:
    model = remembering_model(kind, learning_rate=0.02)
    samples, update = played(model), PpoUpdate(model.policy, 64, 0.2, None, True, 0.0, 0.5, 0.5, 1, None)
    length = min(KINDS[kind].get("length", 32), model.n_steps)
    assert samples.states is not None and len(samples.states) == model.n_steps // length
    # All ratios are 1: a state at the start, or a border, that was wrong, would show here.
    terms = update.run(samples, 1).terms[0]
    np.testing.assert_allclose(terms[4:6], 0.0, atol=1e-6)
    wrong = replace(samples, states=th.randn_like(samples.states).clamp(-1, 1))
    assert PpoUpdate(model.policy, 64, 0.2, None, True, 0.0, 0.5, 0.5, 1, None).run(wrong, 1).terms[0][5] > 1e-4
    batches = samples.batches(64)
    assert sorted(th.cat([*batches]).tolist()) == [*range(len(samples))]
    steps = batches[0].reshape(length, -1)
    assert (steps.diff(dim=0) == samples.n_envs).all()  # whole sequences, one step after the other
    assert samples.starts is not None and samples.starts.any() and not samples.starts.all()


@pytest.mark.parametrize("kind", KINDS)
def test_old_log_probabilities_are_renewed_in_sequences(kind: str) -> None:
    model = remembering_model(kind, learning_rate=0.02)
    samples = played(model)
    update = PpoUpdate(model.policy, 64, 0.2, None, True, 0.0, 0.5, 0.5, 1, None)
    stale = replace(
        samples, old_log_probs=samples.old_log_probs - 1.0, observations=model.policy.features(samples.observations)
    )
    update._renew_log_probs(stale, stale.batches(64))
    np.testing.assert_allclose(stale.old_log_probs, samples.old_log_probs, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_critic_sees_what_is_remembered(kind: str) -> None:
    model = remembering_model(kind, n_epochs=1, learning_rate=0.02)
    samples, policy = played(model), model.policy
    assert samples.states is not None and samples.starts is not None
    with th.no_grad():
        features, found, sequences = policy.features(samples.observations), [], len(samples.states)
        for number, (own, starts) in enumerate(
            zip(features.chunk(sequences), samples.starts.chunk(sequences), strict=True)
        ):
            found.append(policy.values_of(policy.remembering(own, samples.states[number], starts)))
        np.testing.assert_allclose(th.cat(found).flatten(), samples.old_values, atol=1e-5)
        nothing = policy.values_of(nn.functional.pad(features, (0, 16))).flatten()
    assert not np.allclose(nothing, samples.old_values, atol=1e-3)


def test_the_value_after_an_episode_that_is_cut_off_is_that_of_what_was_remembered() -> None:
    """A game that pays at its end what its first tick has shown, but is cut off before."""
    env = DummyVecEnv([lambda: TimeLimit(Cue(DELAY), 3)] * 4)
    memory = {"kind": "gru", "size": 16, "critic": True}
    settings: dict[str, Any] = {"n_steps": 6, "batch_size": 24, "n_epochs": 0, "gamma": 1.0, "gae_lambda": 1.0}
    model = PvpPPO(
        AutoregressivePolicy, env, policy_kwargs={"memory": memory, "normalize_observations": False}, seed=0, **settings
    )
    nn.init.normal_(model.policy.value_net.weight)
    model.learn(24, use_masking=False)
    buffer, policy = model.rollout_buffer, model.policy
    seen = th.as_tensor(buffer.observations[:3])
    state = policy.memory.initial(4)
    for tick in range(3):
        own = Remembered(state, th.full((4,), tick == 0))
        policy.predict_values(seen[tick], own)
        state = own.state
    expected = policy.predict_values(th.zeros(4, 2), Remembered(state, th.zeros(4, dtype=th.bool))).flatten()
    np.testing.assert_allclose(buffer.rewards[2], expected.detach(), atol=1e-4)
    assert not np.allclose(expected.detach(), policy.predict_values(th.zeros(4, 2)).flatten().detach(), atol=1e-2)


@pytest.mark.parametrize("kind", ONE_KIND)
def test_runs_resume_exactly_with_what_was_remembered(kind: str, tmp_path: Path) -> None:
    model = rollouts(remembering_model(kind), 2)
    model.save(tmp_path / "half")
    rollouts(model, 2)
    env = NhVecEnv(8, opponent="self", seed=9, max_episode_ticks=20)
    resumed = rollouts(PvpPPO.load(tmp_path / "half", env), 2)
    assert same_weights(model, resumed)
    assert th.equal(model._last_memory, resumed._last_memory)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_actors_play_the_same_rollouts(kind: str, tmp_path: Path) -> None:
    def acted(model: PvpPPO, number: int) -> PvpPPO:
        model.fleet_factory = InlineActors
        return rollouts(model, number)

    alone = rollouts(remembering_model(kind), 3)
    model = acted(remembering_model(kind, actors=2, synchronous=True), 2)
    model.save(tmp_path / "half")
    assert same_weights(alone, acted(model, 1))
    env = NhVecEnv(8, opponent="self", seed=9, max_episode_ticks=20)
    assert same_weights(alone, acted(PvpPPO.load(tmp_path / "half", env), 1))
    ahead = acted(remembering_model(kind, actors=2), 3)  # learns from what older weights have played
    assert not same_weights(alone, ahead)


@pytest.mark.slow
def test_processes_play_the_same_rollouts_too() -> None:
    alone, model = rollouts(remembering_model("lstm"), 2), remembering_model("lstm", actors=2, synchronous=True)
    assert same_weights(alone, rollouts(model, 2))
    assert model.env is not None
    model.env.close()


def test_the_rows_of_a_lost_actor_begin_anew() -> None:
    model = remembering_model("gru", actors=2, synchronous=True)
    model.fleet_factory = InlineActors
    rollouts(model, 1)
    assert isinstance(model.env, ActorVecEnv)
    fleet: Any = model.env._fleet
    fleet.lost = {1}
    rollouts(model, 1)
    assert model.rollout_buffer.memory.shape[1] == model.rollout_buffer.n_envs == 4  # type: ignore[union-attr]
    fleet.lost = set()
    rollouts(model, 1)
    memory = model.rollout_buffer.memory  # type: ignore[union-attr]
    assert memory[0, :4].any() and not memory[0, 4:].any() and memory[-1].any(1).all()


def test_uniform_magnets_and_averages_work_with_memory() -> None:
    model = rollouts(remembering_model("attention", magnet="uniform", magnet_coef=0.1, ema_decay=0.9), 3)
    assert model.logger.name_to_value["train/magnet_kl"] > 0
    assert isinstance(model.action_space, spaces.MultiDiscrete)
