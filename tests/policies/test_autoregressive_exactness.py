"""The fused heads against a plain loop over heads, on random contracts, masks, architectures and weights."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.temperature import set_temperature
from tests.game.contract.random_contracts import contracts
from tests.policies.guessing_game import NH, breaks_a_rule
from tests.policies.plain_heads import Outcome, plain_heads
from tests.policies.random_policies import (
    Case,
    cases,
    make_policy,
    normalized,
    observation_space,
    random_batch,
    randomize,
)

CASES = cases(contracts())
close = th.testing.assert_close
TINY = {"atol": 1e-5, "rtol": 1e-5}


def plain(case: Case, actions: th.Tensor) -> Outcome:
    """Runs the plain loop on the case's batch, with given actions."""
    latent = case.latent()
    return plain_heads(case.policy, case.contract, case.activations, latent, case.masks, lambda h, _: actions[:, h])


def random_actions(case: Case, seed: int) -> th.Tensor:
    rng = np.random.default_rng(seed)
    return th.as_tensor(case.contract.random_action(case.masks.numpy(), rng))


@settings(max_examples=60, deadline=None)
@given(case=CASES)
def test_probabilities_of_all_legal_joint_actions_sum_to_one_and_the_others_have_none(case: Case) -> None:
    everything = th.tensor(list(product(*map(range, case.contract.head_sizes))))
    observations, masks = case.first(len(everything))
    _, log_probs, _ = case.policy.evaluate_actions(observations, everything, masks)
    legal = th.as_tensor(is_legal(case.contract, masks.numpy(), everything.numpy()))
    assert log_probs[legal].exp().sum().item() == pytest.approx(1.0, abs=1e-5)
    assert log_probs[~legal].exp().sum().item() < 1e-6


def is_legal(contract: Contract, masks: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Returns which joint actions ``(batch, heads)`` are legal, by the contract's head-by-head masks."""
    rows, legal = np.arange(len(actions)), np.ones(len(actions), bool)
    for head in range(contract.num_heads):
        legal &= contract.conditional_mask(masks, actions[:, :head])[rows, actions[:, head]]
    return legal


@settings(max_examples=100, deadline=None)
@given(case=CASES, seed=st.integers(0, 2**31))
def test_evaluating_equals_a_plain_loop_over_heads(case: Case, seed: int) -> None:
    actions = random_actions(case, seed)
    expected = plain(case, actions)
    values, log_probs, entropies = case.policy.evaluate_heads(case.observations, actions, case.masks)
    close(log_probs, expected.log_probs, **TINY)
    close(entropies, expected.entropies, **TINY)
    summed = case.policy.evaluate_actions(case.observations, actions, case.masks)
    for one, other in zip(summed, (values, log_probs.sum(1), entropies.sum(1)), strict=True):
        close(one, other, **TINY)
    probabilities = case.policy.head_probabilities(case.observations, actions, case.masks)
    close(probabilities, th.cat(expected.probabilities, 1), **TINY)


@settings(max_examples=60, deadline=None)
@given(case=CASES, seed=st.integers(0, 2**31))
def test_gradients_equal_those_of_the_plain_loop(case: Case, seed: int) -> None:
    actions = random_actions(case, seed)
    weights = th.randn(2, *actions.shape, generator=th.Generator().manual_seed(seed))

    def gradients(log_probs: th.Tensor, entropies: th.Tensor) -> list[th.Tensor]:
        loss = (th.stack([log_probs, entropies]) * weights).sum()
        parameters = list(case.policy.parameters())
        found = th.autograd.grad(loss, parameters, allow_unused=True)
        return [th.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]

    expected = plain(case, actions)
    _, log_probs, entropies = case.policy.evaluate_heads(case.observations, actions, case.masks)
    if not log_probs.requires_grad:
        return  # nothing to learn: one entry in each head
    for found, wanted in zip(
        gradients(log_probs, entropies), gradients(expected.log_probs, expected.entropies), strict=True
    ):
        close(found, wanted, atol=1e-4, rtol=1e-4)


@settings(max_examples=60, deadline=None)
@given(case=CASES, learning=st.booleans())
def test_acting_and_evaluating_give_the_same_log_probability(case: Case, learning: bool) -> None:
    with th.set_grad_enabled(learning):
        actions, values, acted = case.policy(case.observations, action_masks=case.masks)
        again, evaluated, _ = case.policy.evaluate_actions(case.observations, actions, case.masks)
    assert is_legal(case.contract, case.masks.numpy(), actions.numpy()).all()
    close(acted, evaluated, **TINY)
    close(values, again, **TINY)


@settings(max_examples=60, deadline=None)
@given(case=CASES)
def test_deterministic_actions_are_those_of_a_greedy_loop(case: Case) -> None:
    """The same holds for all other methods of the policy, with masks from the observation."""
    loop = plain_heads(
        case.policy, case.contract, case.activations, case.latent(), case.masks, lambda _, p: p.argmax(1)
    )
    for found in (
        case.policy(case.observations, deterministic=True)[0],
        case.policy.get_distribution(case.observations).mode(),
        th.as_tensor(case.policy.predict(as_arrays(case.observations), deterministic=True)[0]),
    ):
        assert found.tolist() == loop.actions.tolist()


def as_arrays(observations: dict[str, th.Tensor]) -> dict[str, Any]:
    return {key: part.numpy() for key, part in observations.items()}


def chain_contract() -> Contract:
    """Three heads, each of which depends on the one before, with every kind of rule."""
    heads = (
        Head("a", "", (SubAction("a0", ""), SubAction("a1", ""), SubAction("a2", ""))),
        Head("b", "", (SubAction("b0", "", require_none=("a0",)), SubAction("b1", "", require_any=("a0", "a1")))),
        Head("c", "", (SubAction("c0", "", require_all=("a1", "b1")), SubAction("c1", "", require_none=("b1", "a0")))),
    )
    return Contract("chain", heads, (Observation("x", ""),))


def random_policy(contract: Contract, seed: int, batch: int, **arguments: Any) -> Case:
    """Returns a random policy with hidden layers in trunk and heads, and a batch for it."""
    generator = th.Generator().manual_seed(seed)
    defaults: dict[str, Any] = {"net_arch": [8], "head_arch": [8]}
    policy = make_policy(contract, observation_space(contract), **(defaults | arguments))
    randomize(policy, generator)
    return Case(policy, contract, [["relu"]] * contract.num_heads, *random_batch(policy, batch, generator))


@pytest.mark.parametrize("arguments", [{}, {"autoregressive": False}, {"future_masks": True}, {"head_arch": []}])
def test_samples_follow_the_probabilities(arguments: dict[str, Any]) -> None:
    case, count = random_policy(chain_contract(), 3, batch=1, **arguments), 100_000
    observations, masks = case.first(count)
    masks = masks | True
    th.manual_seed(0)
    with th.no_grad():
        actions, _, log_probs = case.policy(observations, action_masks=masks)
    _, first, counts = np.unique(actions.numpy(), axis=0, return_index=True, return_counts=True)
    expected = count * log_probs[first].exp().double().numpy()
    assert expected.sum() > 0.999 * count
    # Pearson's statistic of at most 5 free cells is above 25 once in 7,000 times.
    assert ((counts - expected) ** 2 / expected).sum() < 25


@settings(max_examples=60, deadline=None)
@given(case=CASES, seed=st.integers(0, 2**31), temperature=st.floats(0.25, 4), data=st.data())
def test_a_temperature_is_a_power_of_the_probabilities(case: Case, seed: int, temperature: float, data: Any) -> None:
    policy, actions = case.policy, random_actions(case, seed)
    tempered = data.draw(st.sets(st.sampled_from(policy.head_ids)))
    given = case.observations, actions, case.masks
    before = policy.head_probabilities(*given).split(policy.head_sizes, 1)
    set_temperature(policy, dict.fromkeys(tempered, temperature))
    after = policy.head_probabilities(*given).split(policy.head_sizes, 1)
    for name, old, new in zip(policy.head_ids, before, after, strict=True):
        expected = old ** (1 / temperature) if name in tempered else old
        close(new, expected / expected.sum(1, keepdim=True), **TINY)


def test_a_temperature_is_refused_as_a_whole() -> None:
    policy = make_policy(NH, observation_space(NH), net_arch=[4])
    before = [weights.clone() for weights in policy.parameters()]
    for wrong, why in (({"attack": 2, "prayr": 2}, "prayer"), ({"attack": 2, "prayer": 0}, "positive"), ("2", "'2'")):
        with pytest.raises(ValueError, match=why):
            set_temperature(policy, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Linear has no temperature"):
        set_temperature(th.nn.Linear(1, 1), 2)
    close([*policy.parameters()], before, rtol=0, atol=0)


@pytest.mark.parametrize("count", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_very_many_joint_actions_are_legal(count: int) -> None:
    """Masks of any density, rules of NhEnv, extreme preferences among them."""
    th.manual_seed(1)
    broken = total = 0
    for seed in range(10):
        case = random_policy(NH, seed, batch=count // 50)
        with th.no_grad():
            for weight in case.policy.actor.parameters():
                weight.mul_(10.0 ** (seed % 3 - 1))
        distribution = case.policy.get_distribution(case.observations)
        for actions in (distribution.sample() for _ in range(5)):
            total += len(actions)
            broken += np.count_nonzero(breaks_a_rule(case.masks.numpy(), actions.numpy()))
    assert (total, broken) == (count, 0)


def test_a_head_without_a_legal_entry_takes_entry_0_for_certain() -> None:
    case = random_policy(NH, seed=2, batch=64)
    actions, _, log_probs = case.policy(case.observations, action_masks=th.zeros_like(case.masks))
    _, per_head, entropies = case.policy.evaluate_heads(case.observations, actions, th.zeros_like(case.masks))
    assert not actions.any()
    for nothing in (log_probs, per_head, entropies):
        close(nothing, th.zeros_like(nothing), atol=1e-5, rtol=0.0)


def test_each_head_may_be_deterministic_or_not() -> None:
    case = random_policy(NH, seed=4, batch=1)
    observations, masks = case.first(500)
    flags = [head % 2 == 0 for head in range(NH.num_heads)]
    masks = masks | True
    latent = case.latent().expand(500, -1)
    th.manual_seed(0)
    for actions in (
        case.policy(observations, flags, masks)[0],
        case.policy.get_distribution(observations, masks).get_actions(flags),
        th.as_tensor(case.policy.predict(as_arrays(observations), deterministic=flags, action_masks=masks.numpy())[0]),
    ):
        given = plain_heads(case.policy, NH, case.activations, latent, masks, lambda h, _, a=actions: a[:, h])
        for head, (flag, p) in enumerate(zip(flags, given.probabilities, strict=True)):
            if flag:
                assert actions[:, head].equal(p.argmax(1))
            elif NH.heads[head].id in ("potion", "veng"):  # these depend on no rule
                assert len(actions[:, head].unique()) > 1
    with pytest.raises(ValueError, match="12 bools, one per head; got 2"):
        case.policy(observations, [True, False], masks)


def test_future_masks_reach_earlier_heads_and_those_only() -> None:
    case = random_policy(NH, seed=6, batch=32, future_masks=True)
    blind = random_policy(NH, seed=6, batch=32)
    head = NH.head_index("movement")
    masks = th.ones_like(case.masks)
    other = masks.clone()
    other[:, NH.flat_offset(head) + 1] = False
    actions = th.as_tensor(NH.random_action(other.numpy(), np.random.default_rng(0)))
    for policy, expected in ((case.policy, list(range(head + 1))), (blind.policy, [head])):
        one, two = (policy.evaluate_heads(case.observations, actions, m)[1] for m in (masks, other))
        forced = th.nonzero((one.abs() < 1e-6).all(0)).flatten().tolist()  # by the rules: they have no choice
        assert th.nonzero((one != two).any(0)).flatten().tolist() == [h for h in expected if h not in forced]


def test_heads_see_earlier_heads_only_and_none_unless_autoregressive() -> None:
    head = NH.head_index("food")
    everything = np.ones((32, NH.num_flat_actions), bool)
    actions = th.as_tensor(NH.random_action(everything, np.random.default_rng(0)))
    other = actions.clone()
    other[:, head] = 1 - actions[:, head]
    for autoregressive in (True, False):
        case = random_policy(NH, seed=7, batch=32, autoregressive=autoregressive)
        masks = th.ones_like(case.masks)
        one, two = (case.policy.evaluate_heads(case.observations, a, masks)[1] for a in (actions, other))
        # No head depends on the food by a rule.
        expected = list(range(head, NH.num_heads)) if autoregressive else [head]
        changed = th.nonzero((one - two).abs().amax(0) > 1e-6).flatten().tolist()
        # Heads that a rule leaves no choice say the same in any case.
        forced = th.nonzero((one.abs() < 1e-6).all(0)).flatten().tolist()
        assert [h for h in expected if h not in forced] == changed


def test_one_discrete_action_and_plain_observations() -> None:
    generator = th.Generator().manual_seed(8)
    policy = AutoregressivePolicy(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(5), lambda _: 0.0)
    randomize(policy, generator)
    observations, masks = th.randn(64, 3, generator=generator), th.rand(64, 5, generator=generator) < 0.7
    actions, values, log_probs = policy(observations, action_masks=masks)
    assert (actions.shape, values.shape, log_probs.shape) == ((64,), (64, 1), (64,))
    every = th.arange(5).repeat_interleave(64)
    _, evaluated, entropies = policy.evaluate_actions(observations.repeat(5, 1), every, masks.repeat(5, 1))
    p = evaluated.exp().reshape(5, 64)
    close(p.sum(0), th.ones(64), **TINY)
    close(-(p * p.clamp(1e-7).log()).sum(0), entropies[:64], **TINY)
    close(p[actions, th.arange(64)].log(), log_probs, **TINY)
    masks[:, 0] |= ~masks.any(1)
    assert policy.predict(observations.numpy(), action_masks=masks.numpy())[0].shape == (64,)
    action, _ = policy.predict(observations[0].numpy())
    assert int(action) in range(5)


def test_the_critic_sees_everything_and_the_actor_the_public_part_of_every_frame() -> None:
    policy = make_policy(NH, observation_space(NH, frames=2), net_arch=[8], features_arch=[7])
    generator = th.Generator().manual_seed(9)
    randomize(policy, generator)
    observations, masks = random_batch(policy, 16, generator)
    own = normalized(observations["observation"], policy)
    hidden = normalized(observations["privileged"], policy, start=NH.num_observations)
    critic = policy.critic(policy.extractors[1](th.cat([own.flatten(1), hidden.flatten(1)], 1)))
    close(policy.predict_values(observations), policy.value_net(critic), **TINY)
    actions = th.as_tensor(NH.random_action(masks.numpy(), np.random.default_rng(9)))
    for frame, key in product((0, 1), ("observation", "privileged")):
        other = {name: part.clone() for name, part in observations.items()}
        other[key][:, frame, -1] += 0.5
        values, log_probs, _ = policy.evaluate_actions(observations, actions, masks)
        values_2, log_probs_2, _ = policy.evaluate_actions(other, actions, masks)
        assert not values.equal(values_2)
        assert log_probs.equal(log_probs_2) == (key == "privileged")


def test_dropout_is_live_in_learning_only() -> None:
    dropout = {"layers": [{"size": 16, "activation": "relu"}, {"dropout": 0.5}]}
    case = random_policy(NH, seed=10, batch=8, net_arch=dropout, head_arch=dropout)
    actions = random_actions(case, 0)

    def twice() -> tuple[th.Tensor, th.Tensor]:
        one, two = (case.policy.evaluate_actions(case.observations, actions)[1] for _ in range(2))
        return one, two

    case.policy.set_training_mode(True)
    one, two = twice()
    assert not one.equal(two)
    case.policy.set_training_mode(False)
    one, two = twice()
    assert one.equal(two)
    close(plain(case, actions).log_probs.sum(1), one, **TINY)
    acted, _, log_probs = case.policy(case.observations)
    close(case.policy.evaluate_actions(case.observations, acted)[1], log_probs, **TINY)


def test_acting_follows_every_change_of_weights_and_statistics() -> None:
    """Acting caches tables of weights, which must never be stale."""
    case = random_policy(NH, seed=11, batch=512)
    state = random_policy(NH, seed=12, batch=1).policy.state_dict()

    def learn() -> None:
        case.policy.set_training_mode(True)
        optimizer = th.optim.Adam(case.policy.parameters(), lr=0.1, fused=True)  # not the policy's own
        actions = random_actions(case, 0)
        case.policy.evaluate_actions(case.observations, actions)[1].sum().backward()
        optimizer.step()
        case.policy.set_training_mode(False)

    def learn_as_by_default() -> None:
        case.policy.optimizer.param_groups[0]["lr"] = 0.1
        case.policy.set_training_mode(True)
        case.policy.evaluate_actions(case.observations, random_actions(case, 1))[1].sum().backward()
        case.policy.optimizer.step()
        case.policy.set_training_mode(False)

    def observe() -> None:
        case.policy.heads.normalizer.observe(th.rand(1000, NH.num_flat_actions))
        case.policy.heads.normalizer.update()

    def replace() -> None:
        for parameter in case.policy.parameters():
            parameter.data = parameter.data + 0.1

    changes: list[Callable[[], object]] = [
        learn,
        learn_as_by_default,
        observe,
        lambda: case.policy.load_state_dict(state),
        replace,
    ]
    for change in changes:
        before = case.policy.get_distribution(case.observations).mode()
        change()
        after = case.policy.get_distribution(case.observations).mode()
        loop = plain_heads(case.policy, NH, case.activations, case.latent(), case.masks, lambda _, p: p.argmax(1))
        assert after.tolist() == loop.actions.tolist() != before.tolist()
