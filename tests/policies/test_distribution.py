"""The joint distribution against a plain loop over heads, and against sb3-contrib's where heads are independent."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib.common.maskable.distributions import MaskableMultiCategoricalDistribution

from sb3_pvp.contract import Contract, Head, Observation, SubAction, load_contract
from sb3_pvp.policies.distribution import DependencyRules, DependentMultiCategorical

NH = load_contract("NhEnv")
SEEDS = st.integers(0, 2**31 - 1)


def chain_contract() -> Contract:
    """Three heads, each of which depends on the one before, with every kind of rule."""
    heads = (
        Head("a", "", (SubAction("a0", ""), SubAction("a1", ""), SubAction("a2", ""))),
        Head("b", "", (SubAction("b0", "", require_none=("a0",)), SubAction("b1", "", require_any=("a0", "a1")))),
        Head("c", "", (SubAction("c0", "", require_all=("a1", "b1")), SubAction("c1", "", require_none=("b1", "a0")))),
    )
    return Contract("chain", heads, (Observation("x", ""),))


CONTRACTS = [NH, chain_contract()]


def distribution_of(contract: Contract, seed: int, batch: int = 16) -> tuple[DependentMultiCategorical, th.Tensor]:
    th.manual_seed(seed)
    distribution = DependentMultiCategorical(DependencyRules(contract.head_sizes, contract))
    logits = 3 * th.randn(batch, contract.num_flat_actions)
    distribution.proba_distribution(logits)
    masks = th.rand(batch, contract.num_flat_actions) < 0.5
    distribution.apply_masking(masks.numpy())
    return distribution, masks


def loop(
    contract: Contract, logits: np.ndarray, mask: np.ndarray, action: np.ndarray | None
) -> tuple[list[int], float]:
    """Chooses greedily (or takes ``action``) head by head with the contract's own masks; adds up log-probabilities."""
    chosen: list[int] = []
    total = 0.0
    for head, part in enumerate(np.split(logits, contract.head_offsets[1:-1])):
        allowed = contract.conditional_mask(mask, np.array(chosen, np.int64))
        exponentials = np.where(allowed, np.exp(part.astype(np.float64)), 0.0)
        best = int(np.where(allowed, part, -np.inf).argmax())
        chosen.append(best if action is None else int(action[head]))
        total += float(np.log(exponentials[chosen[-1]] / exponentials.sum()))
    return chosen, total


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_samples_are_legal_and_log_prob_equals_a_loop_over_heads(contract: Contract, seed: int) -> None:
    distribution, masks = distribution_of(contract, seed)
    actions = distribution.sample()
    log_probs = distribution.log_prob(actions)
    flat = np.concatenate([distribution.logits[:, h, :n].numpy() for h, n in enumerate(contract.head_sizes)], 1)
    for row in range(len(actions)):
        _, expected = loop(contract, flat[row], masks[row].numpy(), actions[row].numpy())
        assert np.isfinite(expected), "an illegal action was sampled"
        assert log_probs[row].item() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_mode_equals_a_greedy_loop_over_heads(contract: Contract, seed: int) -> None:
    distribution, masks = distribution_of(contract, seed)
    flat = np.concatenate([distribution.logits[:, h, :n].numpy() for h, n in enumerate(contract.head_sizes)], 1)
    greedy = [loop(contract, flat[row], masks[row].numpy(), None)[0] for row in range(len(masks))]
    assert distribution.mode().tolist() == greedy


def test_equals_the_distribution_of_sb3_contrib_where_heads_are_independent() -> None:
    sizes = NH.head_sizes
    ours = DependentMultiCategorical(DependencyRules(sizes))
    theirs = MaskableMultiCategoricalDistribution(list(sizes))
    th.manual_seed(0)
    logits = th.randn(64, sum(sizes))
    masks = th.rand(64, sum(sizes)) < 0.6
    masks[:, list(np.cumsum((0, *sizes[:-1])))] = True
    for distribution in (ours, theirs):
        distribution.proba_distribution(logits)
        distribution.apply_masking(masks)
    actions = ours.sample()
    th.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions), atol=1e-6, rtol=1e-6)
    th.testing.assert_close(ours.entropy(), theirs.entropy(), atol=1e-6, rtol=1e-6)
    assert ours.mode().tolist() == theirs.mode().tolist()


def test_samples_follow_the_probabilities() -> None:
    contract = chain_contract()
    distribution = DependentMultiCategorical(DependencyRules(contract.head_sizes, contract))
    th.manual_seed(1)
    distribution.proba_distribution(th.randn(1, contract.num_flat_actions).repeat(20_000, 1))
    actions = distribution.sample()
    expected = distribution.log_prob(actions).exp()
    for action in actions.unique(dim=0):
        rows = (actions == action).all(1)
        assert rows.double().mean().item() == pytest.approx(expected[rows][0].item(), abs=0.015)


def test_masks_can_be_taken_back() -> None:
    distribution, _ = distribution_of(NH, seed=0)
    actions = distribution.mode()
    free = DependentMultiCategorical(DependencyRules(NH.head_sizes, NH))
    free.proba_distribution(th.cat([distribution.logits[:, h, :n] for h, n in enumerate(NH.head_sizes)], 1))
    distribution.apply_masking(None)
    assert distribution.mode().tolist() == free.mode().tolist() != actions.tolist()
