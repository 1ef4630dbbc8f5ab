"""Copies of a policy are complete and independent: acting follows their weights, however those were changed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch as th

from sb3_pvp.policies import AutoregressivePolicy
from tests.policies.guessing_game import NH, SPACE


@pytest.fixture
def policy() -> AutoregressivePolicy:
    th.manual_seed(0)
    made = AutoregressivePolicy(SPACE, NH.action_space, lambda _: 0.1, net_arch=[16], head_arch=[8])
    made.set_training_mode(False)
    return made


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copy_acts_by_its_own_weights(
    policy: AutoregressivePolicy, duplicate: Callable[[AutoregressivePolicy], AutoregressivePolicy]
) -> None:
    th.manual_seed(1)
    observations = {key: th.rand(32, *(space.shape or ())) for key, space in SPACE.spaces.items()}
    observations["action_mask"] = th.ones(32, NH.num_flat_actions)
    before = policy._predict(observations, True)
    other = duplicate(policy)
    assert other._predict(observations, True).tolist() == before.tolist()
    # A fused optimiser leaves no trace in the tensors that it changes.
    log_prob = other.evaluate_actions(observations, before)[1]
    log_prob.sum().backward()
    other.optimizer.step()
    changed = other._predict(observations, True)
    assert changed.tolist() == other.get_distribution(observations).mode().tolist() != before.tolist()
    fresh = AutoregressivePolicy(SPACE, NH.action_space, lambda _: 0.1, net_arch=[16], head_arch=[8])
    fresh.load_state_dict(other.state_dict())
    assert fresh._predict(observations, True).tolist() == changed.tolist()
    assert policy._predict(observations, True).tolist() == before.tolist()
