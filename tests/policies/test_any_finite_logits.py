"""What is masked or against the rules is never chosen, whatever finite logits a network gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import onnxruntime
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy

from sb3_pvp.game.contract import Contract
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.export.inference import CompiledBackend, TorchBackend
from sb3_pvp.policies.export.onnx_graph import actor_graph
from sb3_pvp.policies.sampling import AutoregressiveActor, PlainActor, act_batched
from tests.game.contract.random_contracts import contracts
from tests.policies.plain_heads import rules_allow
from tests.policies.random_policies import make_policy, observation_space

#: Any float32 that is finite, and those near numbers that implementations like to use for what is forbidden.
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.sampled_from(
    [sign * size for sign in (-1.0, 1.0) for size in (9.9e3, 1e4, 1.1e4, 1e8, 2e8, 1e30, float(2**127))]
)
Chosen = NDArray[np.int64]


@dataclass(frozen=True)
class Given:
    """A contract, logits ``(A,)``, and of some rows masks ``(rows, A)`` and random numbers ``(rows, heads)``."""

    contract: Contract
    logits: th.Tensor
    masks: th.Tensor
    uniforms: th.Tensor

    @property
    def observations(self) -> dict[str, th.Tensor]:
        """Zeros and the masks."""
        seen = th.zeros(len(self.masks), 1, self.contract.num_observations)
        return {"observation": seen, "action_mask": self.masks.float()}

    def own_policy(self, **arguments: Any) -> AutoregressivePolicy:
        """A policy with these logits."""
        policy = make_policy(self.contract, observation_space(self.contract, privileged=False), **arguments)
        for head, logits in enumerate(th.split(self.logits, self.contract.head_sizes)):
            zeros = [(0 * weight, 0 * bias) for weight, bias in policy.heads.layers(head)]
            policy.heads.set_layers(head, [*zeros[:-1], (zeros[-1][0], logits)])
        policy.set_training_mode(False)
        return policy

    def stock_policy(self) -> MaskableMultiInputActorCriticPolicy:
        """A policy of sb3-contrib with these logits."""
        space = observation_space(self.contract, privileged=False)
        policy = MaskableMultiInputActorCriticPolicy(space, self.contract.action_space, lambda _: 0.0)
        policy.action_net.weight.data.zero_()
        policy.action_net.bias.data.copy_(self.logits)
        policy.set_training_mode(False)
        return policy.requires_grad_(False)

    def legal(self, actions: Chosen, rules: bool = True) -> th.Tensor:
        """Which entries were legal ``(rows, A)``, given the choices of earlier heads."""
        chosen, parts = list(th.from_numpy(actions).T), []
        for head, masks in enumerate(th.split(self.masks, self.contract.head_sizes, 1)):
            allowed = masks & rules_allow(self.contract, head, chosen, len(masks)) if rules else masks.clone()
            allowed[:, 0] |= ~allowed.any(1)
            parts.append(allowed)
        return th.cat(parts, 1)

    def check(self, actions: Chosen, rules: bool = True) -> None:
        """All actions must be legal."""
        starts = np.cumsum((0, *self.contract.head_sizes[:-1]))
        assert self.legal(actions, rules).gather(1, th.from_numpy(actions + starts)).all()


@st.composite
def situations(draw: st.DrawFn, rows: int = 6) -> Given:
    contract = draw(contracts())
    size = contract.num_flat_actions
    logits = draw(st.lists(NUMBERS, min_size=size, max_size=size))
    generator = th.Generator().manual_seed(draw(st.integers(0, 2**31)))
    masks = th.rand(rows, size, generator=generator) < th.rand(rows, 1, generator=generator)
    masks[:, 0] |= ~masks.any(1)  # rows that allow nothing at all are refused
    uniforms = th.rand(rows, contract.num_heads, generator=generator)
    uniforms[::2] = -1.0
    return Given(contract, th.tensor(logits), masks, uniforms)


ARCHITECTURES = st.sampled_from([{}, {"head_arch": [3]}, {"autoregressive": False}])
many = settings(deadline=None, max_examples=40)


@many
@given(arguments=ARCHITECTURES, case=situations())
def test_policies_and_actors_choose_what_is_legal(arguments: dict[str, Any], case: Given) -> None:
    policy = case.own_policy(**arguments)
    seen = {key: part.numpy() for key, part in case.observations.items()}
    for greedy in (True, False):
        case.check(policy.predict(seen, deterministic=greedy)[0])
    frame_shape = 1, case.contract.num_observations
    actor = AutoregressiveActor(frame_shape, policy.head_sizes, policy._arguments, policy.state_dict())
    case.check(act_batched([actor], [case.observations["observation"]], case.masks, case.uniforms).numpy())


@many
@given(arguments=ARCHITECTURES, case=situations())
def test_probabilities_are_those_of_legal_entries(arguments: dict[str, Any], case: Given) -> None:
    policy, backends = case.own_policy(**arguments), (TorchBackend, CompiledBackend)
    seen, masks = case.observations["observation"].numpy(), case.masks.numpy()
    for backend in backends:
        decided = backend(policy).decide(seen, masks, case.uniforms.numpy(), details=True)
        case.check(decided.actions)
        assert decided.probabilities is not None and decided.entropies is not None
        assert not decided.probabilities[~case.legal(decided.actions).numpy()].any()
        assert np.isfinite(decided.entropies).all() and np.isfinite(decided.log_probs).all()
        for start, stop in pairwise(policy.rules.offsets.tolist()):
            np.testing.assert_allclose(decided.probabilities[:, start:stop].sum(1), 1, atol=1e-5)


Evaluate = Callable[[th.Tensor, th.Tensor, th.Tensor], tuple[th.Tensor, th.Tensor]]


@many
@given(arguments=ARCHITECTURES, case=situations(), seed=st.integers(0, 2**31))
def test_learning_is_finite_and_the_same_compiled(arguments: dict[str, Any], case: Given, seed: int) -> None:
    heads = case.own_policy(**arguments).heads
    actions = th.as_tensor(case.contract.random_action(case.masks.numpy(), np.random.default_rng(seed)))
    latent = th.zeros(len(actions), heads.num_inputs)

    def evaluate(function: Evaluate) -> tuple[th.Tensor, th.Tensor, list[th.Tensor]]:
        log_probs, entropies = function(latent, case.masks, actions)
        loss = (log_probs.clamp(min=-100) + entropies).sum()
        found = th.autograd.grad(loss, [*heads.parameters()], allow_unused=True)
        return log_probs.detach(), entropies.detach(), [each for each in found if each is not None]

    expected, found = evaluate(heads.reference), evaluate(heads)
    for one, other in zip((*found[:2], *found[2]), (*expected[:2], *expected[2]), strict=True):
        th.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
        assert one.isfinite().all()


@settings(deadline=None, max_examples=10)
@given(arguments=ARCHITECTURES, case=situations())
def test_graphs_choose_what_is_legal(arguments: dict[str, Any], case: Given) -> None:
    policy = case.own_policy(**arguments)
    found = run(actor_graph(policy), case)
    case.check(found["action"])
    assert not found["probability"][~case.legal(found["action"]).numpy()].any()
    assert all(np.isfinite(each).all() for each in found.values())


@settings(deadline=None, max_examples=10)
@given(case=situations())
def test_policies_of_sb3_contrib_choose_what_is_legal(case: Given) -> None:
    policy = case.stock_policy()
    actor = PlainActor(policy, (1, case.contract.num_observations), case.contract.head_sizes)
    chosen = act_batched([actor], [case.observations["observation"]], case.masks, case.uniforms)
    case.check(chosen.numpy(), rules=False)
    case.check(run(actor_graph(policy), case)["action"], rules=False)


def run(graph: bytes, case: Given) -> dict[str, Any]:
    """The outputs of a graph."""
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    seen = {"observation": case.observations["observation"], "action_mask": case.masks, "uniform": case.uniforms}
    wanted = {each.name for each in session.get_inputs()}
    feed = {name: part.numpy() for name, part in seen.items() if name in wanted}
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, feed), strict=True))
