"""Policies that only act choose as they did, alone or together, in any contract."""

from __future__ import annotations

import copy

import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.actors import AutoregressiveActor, act_together
from tests.contract.random_contracts import contracts
from tests.policies.plain_heads import plain_heads
from tests.policies.random_policies import Case, cases, randomize


@th.no_grad()
def expected(case: Case, noise: th.Tensor) -> th.Tensor:
    """What a plain loop over heads chooses."""
    noises = th.split(noise, case.policy.head_sizes, 1)
    arguments = case.policy, case.contract, case.activations, case.latent(), case.masks
    return plain_heads(*arguments, lambda head, p: (p.log() + noises[head]).argmax(1)).actions


def actor_of(policy: AutoregressivePolicy) -> AutoregressiveActor:
    space = policy.observation_space["observation"]  # type: ignore[index]
    return AutoregressiveActor(space.shape, policy.head_sizes, policy._arguments, policy.state_dict())


@settings(deadline=None, max_examples=60)
@given(case=cases(contracts()), seed=st.integers(0, 2**31))
def test_an_actor_chooses_as_its_policy(case: Case, seed: int) -> None:
    generator = th.Generator().manual_seed(seed)
    noise = th.empty(case.masks.shape).exponential_(generator=generator).log_().neg_()
    actor, seen = actor_of(case.policy), case.observations["observation"]
    assert th.equal(act_together([actor], [seen], case.masks, noise), expected(case, noise))
    greedy, _ = case.policy.action_dist.act(case.latent(), case.masks, deterministic=True)
    assert th.equal(act_together([actor], [seen], case.masks, th.zeros_like(noise)), greedy)


@settings(deadline=None, max_examples=40)
@given(case=cases(contracts(), batch=5), seed=st.integers(0, 2**31))
def test_actors_together_choose_as_each_of_them(case: Case, seed: int) -> None:
    generator = th.Generator().manual_seed(seed)
    policies = [case.policy, copy.deepcopy(case.policy)]
    randomize(policies[1], generator)
    actors = [actor_of(policy) for policy in policies]
    noise = th.empty(case.masks.shape).exponential_(generator=generator).log_().neg_()
    seen, counts = case.observations["observation"], [2, 3]
    parts = list(zip(th.split(seen, counts), th.split(case.masks, counts), th.split(noise, counts), strict=True))
    together = act_together(actors, [part[0] for part in parts], case.masks, noise)
    apart = [act_together([actor], [part[0]], *part[1:]) for actor, part in zip(actors, parts, strict=True)]
    assert th.equal(together, th.cat(apart))
