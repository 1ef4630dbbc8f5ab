"""Inference-only policies choose as the original ones, alone or batched, in any contract."""

from __future__ import annotations

import copy

import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.sampling import AutoregressiveActor, act_batched
from tests.game.contract.random_contracts import contracts
from tests.policies.plain_heads import plain_heads
from tests.policies.random_policies import Case, cases, randomize


@th.no_grad()
def check(case: Case, uniforms: th.Tensor, actions: th.Tensor) -> None:
    """Checks that each head's choice belongs to its random number, by the probabilities of a plain loop over heads."""

    def choose(head: int, probabilities: th.Tensor) -> th.Tensor:
        chosen, number = actions[:, head], uniforms[:, head]
        own = probabilities.gather(1, chosen[:, None]).squeeze(1)
        until = probabilities.cumsum(1).gather(1, chosen[:, None]).squeeze(1)
        drawn = (own > 0) & (until - own <= number + 1e-5) & (number <= until + 1e-5)
        likely = own >= probabilities.amax(1) - 1e-5
        assert th.where(number < 0, likely, drawn).all()
        return chosen

    plain_heads(case.policy, case.contract, case.activations, case.latent(), case.masks, choose)


def actor_of(policy: AutoregressivePolicy) -> AutoregressiveActor:
    space = policy.observation_space["observation"]  # type: ignore[index]
    return AutoregressiveActor(space.shape, policy.head_sizes, policy._arguments, policy.state_dict())


@settings(deadline=None, max_examples=60)
@given(case=cases(contracts()), seed=st.integers(0, 2**31))
def test_an_actor_chooses_as_its_policy(case: Case, seed: int) -> None:
    generator = th.Generator().manual_seed(seed)
    uniforms = th.rand(len(case.masks), len(case.policy.head_sizes), generator=generator)
    uniforms[::3] = -1.0
    actor, seen = actor_of(case.policy), case.observations["observation"]
    check(case, uniforms, act_batched([actor], [seen], case.masks, uniforms))
    greedy, _ = case.policy.action_dist.act(case.latent(), case.masks, deterministic=True)
    assert th.equal(act_batched([actor], [seen], case.masks, th.full_like(uniforms, -1.0)), greedy)


@settings(deadline=None, max_examples=40)
@given(case=cases(contracts(), batch=5), seed=st.integers(0, 2**31))
def test_actors_together_choose_as_each_of_them(case: Case, seed: int) -> None:
    generator = th.Generator().manual_seed(seed)
    policies = [case.policy, copy.deepcopy(case.policy)]
    randomize(policies[1], generator)
    actors = [actor_of(policy) for policy in policies]
    uniforms = th.rand(len(case.masks), len(case.policy.head_sizes), generator=generator)
    seen, counts = case.observations["observation"], [2, 3]
    parts = list(zip(th.split(seen, counts), th.split(case.masks, counts), th.split(uniforms, counts), strict=True))
    together = act_batched(actors, [part[0] for part in parts], case.masks, uniforms)
    apart = [act_batched([actor], [part[0]], *part[1:]) for actor, part in zip(actors, parts, strict=True)]
    assert th.equal(together, th.cat(apart))
