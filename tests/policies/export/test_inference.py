"""Inference back-ends give the same decisions and values as the policy, in any contract."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib import MaskablePPO

from sb3_pvp.policies.export.inference import CompiledBackend, TorchBackend
from tests.game.contract.random_contracts import contracts
from tests.policies.random_policies import Case, cases


def rows_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    return case.observations["observation"].numpy(), case.masks.numpy()


@settings(deadline=None, max_examples=60)
@given(case=cases(contracts()), seed=st.integers(0, 2**31), greedy=st.lists(st.booleans(), min_size=1, max_size=5))
def test_back_ends_decide_alike(case: Case, seed: int, greedy: list[bool]) -> None:
    observations, masks = rows_of(case)
    uniforms = np.random.default_rng(seed).random((len(masks), len(case.policy.head_sizes)), np.float32)
    uniforms[:, np.resize(greedy, uniforms.shape[1])] = -1.0
    plain, compiled = TorchBackend(case.policy), CompiledBackend(case.policy)
    expected, decided = (each.decide(observations, masks, uniforms, True) for each in (plain, compiled))
    np.testing.assert_array_equal(decided.actions, expected.actions)
    # The policy itself evaluates these actions with dense PyTorch, the sampling of both back-ends is compiled.
    latent = case.policy.actor_latent(case.observations)
    of_heads, entropies = case.policy.heads.reference(latent, case.masks, th.from_numpy(decided.actions))
    probabilities = case.policy.head_probabilities(case.observations, th.from_numpy(decided.actions), case.masks)
    for result in (expected, decided):
        np.testing.assert_allclose(result.log_probs, of_heads.sum(1).detach(), atol=1e-5)
        np.testing.assert_allclose(result.entropies, entropies.detach(), atol=1e-5)
        np.testing.assert_allclose(result.probabilities, probabilities, atol=1e-5)
    for backend in (plain, compiled):
        short = backend.decide(observations, masks, uniforms, False)
        assert short.entropies is None and short.probabilities is None
        np.testing.assert_array_equal(short.actions, expected.actions)


@settings(deadline=None, max_examples=30)
@given(case=cases(contracts()))
def test_back_ends_value_alike(case: Case) -> None:
    observations, masks = rows_of(case)
    privileged = case.observations["privileged"].numpy() if "privileged" in case.observations else None
    expected = case.policy.predict_values(case.observations).flatten().detach()
    for backend in (TorchBackend(case.policy), CompiledBackend(case.policy)):
        assert backend.num_privileged == (0 if privileged is None else privileged.shape[2])
        np.testing.assert_allclose(backend.values(observations, privileged, masks), expected, atol=1e-5)


@settings(deadline=None, max_examples=20)
@given(case=cases(contracts()))
def test_greedy_decisions_are_those_of_predict(case: Case) -> None:
    observations, masks = rows_of(case)
    uniforms = np.full((len(masks), len(case.policy.head_sizes)), -1.0, np.float32)
    expected, _ = case.policy.predict(observations, action_masks=masks, deterministic=True)
    for backend in (TorchBackend(case.policy), CompiledBackend(case.policy)):
        np.testing.assert_array_equal(backend.decide(observations, masks, uniforms, False).actions, expected)


def test_other_policies_are_refused() -> None:
    model = MaskablePPO("MlpPolicy", "CartPole-v1", device="cpu")
    with pytest.raises(ValueError, match="MaskableActorCriticPolicy, not an AutoregressivePolicy"):
        TorchBackend(model.policy)
