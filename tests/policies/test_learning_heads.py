"""The heads that learn on the CPU, with compiled loops, do what dense PyTorch does on other devices."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.policies.heads import AutoregressiveHeads, DependencyRules
from tests.game.contract.random_contracts import contracts
from tests.policies.guessing_game import NH
from tests.policies.random_policies import Case, cases, make_policy, observation_space, random_batch, randomize

close = th.testing.assert_close
Evaluate = Callable[[th.Tensor, th.Tensor, th.Tensor], tuple[th.Tensor, th.Tensor]]


def any_actions(case: Case, seed: int) -> th.Tensor:
    """Legal actions in the first half of the batch, any in the rest."""
    rng = np.random.default_rng(seed)
    actions = case.contract.random_action(case.masks.numpy(), rng)
    half = len(actions) // 2
    actions[half:] = rng.integers(0, case.contract.head_sizes, actions[half:].shape)
    return th.as_tensor(actions)


@settings(max_examples=80, deadline=None)
@given(case=cases(contracts(), batch=8), seed=st.integers(0, 2**31))
def test_results_and_gradients_are_those_of_dense_pytorch(case: Case, seed: int) -> None:
    heads, actions = case.policy.heads, any_actions(case, seed)
    case.masks[0] = False  # heads without a legal entry
    latent = case.latent().detach().requires_grad_()
    weights = th.randn(2, *actions.shape, generator=th.Generator().manual_seed(seed))
    inputs = [latent, *heads.parameters()]

    def evaluate(function: Evaluate) -> tuple[th.Tensor, th.Tensor, list[th.Tensor]]:
        log_probs, entropies = function(latent, case.masks, actions)
        loss = (th.stack([log_probs, entropies]) * weights).sum()
        found = th.autograd.grad(loss, inputs, allow_unused=True)
        gradients = [th.zeros_like(p) if g is None else g for p, g in zip(inputs, found, strict=True)]
        return log_probs.detach(), entropies.detach(), gradients

    expected, found = evaluate(heads.reference), evaluate(heads)
    close(found[0], expected[0], atol=2e-6, rtol=1e-6)
    close(found[1], expected[1], atol=2e-6, rtol=1e-6)
    for one, other in zip(found[2], expected[2], strict=True):
        close(one, other, atol=1e-5 * (1 + float(other.abs().max() if other.numel() else 0)), rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(case=cases(contracts(), batch=8), seed=st.integers(0, 2**31))
def test_the_trunk_only_runs_on_rows_with_a_choice(case: Case, seed: int) -> None:
    heads, actions = case.policy.heads, any_actions(case, seed)
    features = th.randn(len(actions), 5, generator=th.Generator().manual_seed(seed))
    layer, rows = th.nn.Linear(5, heads.num_inputs), []

    def trunk(inputs: th.Tensor) -> th.Tensor:
        rows.append(inputs)
        return layer(inputs)  # type: ignore[no-any-return]

    close(
        heads(features, case.masks, actions, trunk), heads(layer(features), case.masks, actions), atol=1e-5, rtol=1e-5
    )
    legal = heads.rules.legal(case.masks, actions, compiled=False)
    assert rows[0].equal(features[(legal.float() @ heads.rules.membership > 1).any(1)])


@settings(max_examples=60, deadline=None)
@given(case=cases(contracts(), batch=8), seed=st.integers(0, 2**31))
def test_legal_entries_are_those_of_dense_pytorch(case: Case, seed: int) -> None:
    rules, actions = case.policy.rules, any_actions(case, seed)
    found = rules.legal(case.masks, actions, compiled=True)
    assert found.equal(rules.legal(case.masks, actions, compiled=False))


def nh_heads(head_arch: list[int] | list[list[int]], seed: int = 0) -> AutoregressiveHeads:
    policy = make_policy(NH, observation_space(NH), net_arch=[16], head_arch=head_arch)
    randomize(policy, th.Generator().manual_seed(seed))
    return policy.heads


ARCHITECTURES: list[list[int] | list[list[int]]] = [[], [8], [[8], []] * 6]


@pytest.mark.parametrize("head_arch", ARCHITECTURES)
def test_certain_heads_have_exact_results_and_no_gradient(head_arch: list[int] | list[list[int]]) -> None:
    heads = nh_heads(head_arch)
    latent = th.randn(3, 16).requires_grad_()
    masks = th.zeros(3, NH.num_flat_actions, dtype=th.bool)  # row 0: nothing is legal
    actions = th.zeros(3, NH.num_heads, dtype=th.int64)
    masks[1, heads.rules.offsets[:-1] + 1] = True  # row 1: one entry per head, which is chosen
    actions[1:] = 1
    masks[2, heads.rules.offsets[:-1]] = True  # row 2: one entry per head, and another is chosen
    for evaluate in (heads, heads.reference):
        log_probs, entropies = evaluate(latent, masks, actions)
        by_rules = heads.rules.legal(masks, actions, compiled=False)[1, heads.rules.offsets[:-1] + 1]
        assert not log_probs[0].any() and not log_probs[1, by_rules].any() and not entropies.any()
        assert (log_probs[2] < -1000).all()
        (gradient,) = th.autograd.grad(log_probs.sum() + entropies.sum(), latent, allow_unused=True)
        assert gradient is None or not gradient.any()


@pytest.mark.parametrize("head_arch", ARCHITECTURES)
def test_masks_and_actions_may_be_views_of_other_tensors(head_arch: list[int] | list[list[int]]) -> None:
    heads = nh_heads(head_arch)
    generator = th.Generator().manual_seed(1)
    latent = th.randn(16, 5, generator=generator).T
    mask = th.rand(NH.num_flat_actions, generator=generator) < 0.7
    actions = th.as_tensor(NH.random_action(np.tile(mask, (5, 1)), np.random.default_rng(2)))
    expected = heads.reference(latent, mask.expand(5, -1), actions)
    found = heads(latent, mask.expand(5, -1), actions.T.contiguous().T)
    close(found, expected, atol=1e-6, rtol=1e-6)
    with th.inference_mode():
        close(heads(latent, mask.expand(5, -1), actions), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("head_arch", ARCHITECTURES)
@pytest.mark.parametrize("batch", [0, 1])
def test_tiny_batches(head_arch: list[int] | list[list[int]], batch: int) -> None:
    heads = nh_heads(head_arch)
    latent, masks = th.randn(batch, 16).requires_grad_(), th.ones(batch, NH.num_flat_actions, dtype=th.bool)
    actions = th.zeros(batch, NH.num_heads, dtype=th.int64)
    log_probs, entropies = heads(latent, masks, actions)
    close((log_probs, entropies), heads.reference(latent, masks, actions), atol=1e-6, rtol=1e-6)
    (log_probs.sum() + entropies.sum()).backward()
    assert all(parameter.grad is not None for parameter in heads.parameters() if parameter.numel())


def test_logits_that_overflow_exp_and_hopeless_entries_are_exact() -> None:
    heads = AutoregressiveHeads(4, DependencyRules((3,)), [()], True, True, False)
    masks, actions = th.ones(3, 3, dtype=th.bool), th.arange(3)[:, None]
    with th.no_grad():
        heads.direct.bias.copy_(th.tensor([300.0, 0.0, -300.0]))
    latent = th.zeros(3, 4)
    log_probs, entropies = heads(latent, masks, actions)
    assert log_probs[:, 0].tolist() == [0.0, -300.0, -600.0] and not entropies.any()
    loss = log_probs.sum() + entropies.sum()
    (found,) = th.autograd.grad(loss, heads.direct.bias)
    assert found.tolist() == [-2.0, 1.0, 1.0]


@pytest.mark.parametrize("head_arch", ARCHITECTURES)
def test_nothing_waits_for_a_device_that_is_not_the_cpu(head_arch: list[int] | list[list[int]]) -> None:
    """Tensors on the device "meta" have no values, so that asking for one raises."""
    heads, size = nh_heads(head_arch).to("meta"), (7, NH.num_heads)
    masks = th.ones(7, NH.num_flat_actions, dtype=th.bool, device="meta")
    log_probs, entropies = heads(th.zeros(7, 16, device="meta"), masks, th.zeros(size, dtype=th.int64, device="meta"))
    assert log_probs.shape == entropies.shape == size
    (log_probs.sum() + entropies.sum()).backward()
    with pytest.raises(RuntimeError, match="meta"):
        masks.nonzero()


def test_the_probabilities_of_every_head_sum_to_one() -> None:
    for seed, head_arch in enumerate(ARCHITECTURES):
        policy = make_policy(NH, observation_space(NH), net_arch=[16], head_arch=head_arch)
        generator = th.Generator().manual_seed(seed)
        randomize(policy, generator)
        observations, masks = random_batch(policy, 32, generator)
        actions = th.as_tensor(NH.random_action(masks.numpy(), np.random.default_rng(seed)))
        probabilities = policy.head_probabilities(observations, actions, masks)
        log_probs = policy.evaluate_heads(observations, actions, masks)[1]
        for head, (start, stop) in enumerate(pairwise(policy.rules.offsets.tolist())):
            own = probabilities[:, start:stop]
            close(own.sum(1), th.ones(32))
            close(own[th.arange(32), actions[:, head]].log(), log_probs[:, head], atol=1e-5, rtol=1e-5)


@settings(max_examples=100, deadline=None)
@given(case=cases(contracts(), batch=8), seed=st.integers(0, 2**31), scale=st.sampled_from([1.0, 30.0, 1e38]))
def test_divergences_from_a_magnet_are_those_of_dense_pytorch(case: Case, seed: int, scale: float) -> None:
    heads, actions = case.policy.heads, any_actions(case, seed)
    case.masks[0] = False  # heads without a legal entry
    random = th.Generator().manual_seed(seed)
    latent = case.latent().detach().requires_grad_()
    magnet = scale * th.randn(case.masks.shape, generator=random).clamp(-3, 3)
    weights = th.randn(actions.shape, generator=random) / scale
    found = [evaluate(latent, case.masks, actions, magnet=magnet)[2] for evaluate in (heads.reference, heads)]
    close(found[1], found[0], atol=1e-5 * scale, rtol=1e-5)
    inputs = [latent, *heads.parameters()]
    gradients = [th.autograd.grad((each * weights).sum(), inputs, allow_unused=True) for each in found]
    for expected, one in zip(*gradients, strict=True):
        assert (one is None) == (expected is None)
        if one is not None and expected is not None:
            close(one, expected, atol=1e-5 * (1 + float(expected.abs().max() if expected.numel() else 0)), rtol=1e-4)


@settings(max_examples=60, deadline=None)
@given(case=cases(contracts(), batch=8), seed=st.integers(0, 2**31))
def test_the_divergence_from_a_uniform_policy_is_what_is_lacking_to_the_largest_entropy(case: Case, seed: int) -> None:
    heads, actions, latent = case.policy.heads, any_actions(case, seed), case.latent()
    log_probs, entropies, divergences = heads(latent, case.masks, actions, magnet=th.zeros(case.masks.shape))
    legal = case.policy.rules.legal(case.masks, actions, compiled=True)
    most = (legal.float() @ case.policy.rules.membership).log()
    close(divergences, most - entropies, atol=1e-5, rtol=1e-5)
    for one, other in zip(heads(latent, case.masks, actions), (log_probs, entropies), strict=True):
        assert one.equal(other)
