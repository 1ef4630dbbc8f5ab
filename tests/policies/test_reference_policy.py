"""With weights of the original system, the policy gives the same outputs in 50 situations.

``tests/data/reference_policy.npz`` holds three things from one small model that the original system trained for three
rollouts against its own world: ``weights/*`` (its names), ``statistics/*`` of observations, and ``outputs/*``, what it
computed for observations of its last rollout (greedy, sampled, and for given actions).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from sb3_pvp.game.contract import load_contract
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.networks import RunningNormalizer
from tests.paths import DATA
from tests.policies.random_policies import observation_space

NH = load_contract("NhEnv")
NUM_PRIVILEGED = len(NH.partial_indices)
CLOSE = {"atol": 1e-4, "rtol": 1e-4}
Arrays = dict[str, th.Tensor]


@pytest.fixture(scope="module")
def reference() -> Arrays:
    with np.load(DATA / "reference_policy.npz") as file:
        return {name: th.as_tensor(array) for name, array in file.items()}


@pytest.fixture(scope="module")
def policy(reference: Arrays) -> AutoregressivePolicy:
    space = observation_space(NH)
    space.spaces["privileged"] = spaces.Box(-np.inf, np.inf, (1, NUM_PRIVILEGED), np.float32)
    policy = AutoregressivePolicy(
        space, NH.action_space, lambda _: 0.0, net_arch={"pi": [64], "vf": [64, 64]}, head_arch=[64], contract="NhEnv"
    )
    policy.set_training_mode(False)
    load(policy, reference)
    return policy


@th.no_grad()
def load(policy: AutoregressivePolicy, reference: Arrays) -> None:
    def linear(name: str) -> tuple[th.Tensor, th.Tensor]:
        return reference[f"weights/{name}.weight"], reference[f"weights/{name}.bias"]

    layers = {
        "actor.hidden.0": policy.actor[0],
        "critic.hidden.0": policy.critic[0],
        "critic.hidden.2": policy.critic[2],
        "critic.head": policy.value_net,
    }
    for name, layer in layers.items():
        for parameter, values in zip((layer.weight, layer.bias), linear(name), strict=True):
            parameter.copy_(values)
    for head in range(NH.num_heads):
        policy.heads.set_layers(head, [linear(f"actor.heads.{head}.0.0"), linear(f"actor.heads.{head}.1")])
    actions = [reference[f"weights/actor.action_{name}"] for name in ("mean", "var", "count")]
    observations = [reference[f"statistics/{name}"] for name in ("mean", "variance", "count")]
    set_statistics(policy.heads.normalizer, *actions)
    set_statistics(policy.observation_normalizer, *observations)


def set_statistics(normalizer: RunningNormalizer, mean: th.Tensor, variance: th.Tensor, count: th.Tensor) -> None:
    normalizer.mean.copy_(mean)
    # The original divides by next to nothing where a value never changed, and clips; here such a value keeps its unit.
    # At this variance a change of 0.005 is clipped as well.
    normalizer.variance.copy_(variance.clamp(min=1.01e-6))
    normalizer.count.fill_(float(count))


@pytest.fixture(scope="module")
def observations(reference: Arrays) -> Arrays:
    whole = reference["outputs/obs"]
    parts = {"observation": whole[..., : NH.num_observations], "privileged": whole[..., NH.num_observations :]}
    return parts | {"action_mask": reference["outputs/masks"].to(th.int8)}


def test_normalised_observations(policy: AutoregressivePolicy, reference: Arrays, observations: Arrays) -> None:
    th.testing.assert_close(policy.features(observations), reference["outputs/normalized_obs"].flatten(1), **CLOSE)


def test_values(policy: AutoregressivePolicy, reference: Arrays, observations: Arrays) -> None:
    for name in ("values", "given_values"):
        th.testing.assert_close(policy.predict_values(observations)[:, 0], reference[f"outputs/{name}"], **CLOSE)


@pytest.mark.parametrize("kind", ["det", "given", "sampled"])
def test_log_probabilities_entropies_and_probabilities_of_every_entry(
    policy: AutoregressivePolicy, reference: Arrays, observations: Arrays, kind: str
) -> None:
    actions = reference[f"outputs/{kind}_actions"].long()
    values, log_probs, entropies = policy.evaluate_heads(observations, actions)
    th.testing.assert_close(log_probs.sum(1), reference[f"outputs/{kind}_log_probs"], **CLOSE)
    th.testing.assert_close(entropies, reference[f"outputs/{kind}_entropy"], **CLOSE)
    th.testing.assert_close(values[:, 0], reference["outputs/values"], **CLOSE)
    th.testing.assert_close(probabilities(policy, observations, actions), reference[f"outputs/{kind}_probs"], **CLOSE)


def probabilities(policy: AutoregressivePolicy, observations: Arrays, actions: th.Tensor) -> th.Tensor:
    """Returns the probability of each entry ``(batch, A)``, given the actions of earlier heads."""
    columns = []
    for head, size in enumerate(NH.head_sizes):
        for entry in range(size):
            other = actions.clone()
            other[:, head] = entry
            columns.append(policy.evaluate_heads(observations, other)[1][:, head].exp())
    return th.stack(columns, 1)


def test_greedy_actions(policy: AutoregressivePolicy, reference: Arrays, observations: Arrays) -> None:
    expected = reference["outputs/det_actions"].tolist()
    actions, _, log_probs = policy(observations, deterministic=True)
    assert actions.tolist() == expected
    th.testing.assert_close(log_probs, reference["outputs/det_log_probs"], **CLOSE)
    arrays: dict[str, Any] = {key: part.numpy() for key, part in observations.items()}
    assert policy.predict(arrays, deterministic=True)[0].tolist() == expected
    bare, masks = arrays["observation"], arrays["action_mask"]
    assert policy.predict(bare, deterministic=True, action_masks=masks)[0].tolist() == expected


def test_samples_are_as_likely_as_the_original_says(
    policy: AutoregressivePolicy, reference: Arrays, observations: Arrays
) -> None:
    """Returns the first head's frequencies in many samples, for each situation."""
    th.manual_seed(0)
    many = {key: part.repeat_interleave(1000, 0) for key, part in observations.items()}
    first = policy.get_distribution(many).sample()[:, 0].reshape(-1, 1000)
    frequencies = th.stack([(first == entry).float().mean(1) for entry in range(NH.head_sizes[0])], 1)
    expected = reference["outputs/given_probs"][:, : NH.head_sizes[0]]
    assert (frequencies - expected).abs().max() < 0.08  # five standard errors
