"""Random policies for random contracts: all weights and statistics are random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from hypothesis import strategies as st

from sb3_pvp.game.contract import Contract
from sb3_pvp.policies import AutoregressivePolicy

ACTIVATIONS = st.sampled_from(["relu", "tanh", "gelu"])
GRAMMAR_LAYERS = st.fixed_dictionaries(
    {"size": st.integers(1, 6), "activation": ACTIVATIONS}, optional={"repeat": st.integers(1, 2)}
)
ARCHITECTURES = st.lists(st.integers(1, 6), max_size=2) | st.fixed_dictionaries(
    {"layers": st.lists(GRAMMAR_LAYERS, max_size=2)}
)
#: Architectures of trunks, which may also have an activation without a size anywhere.
TRUNKS = ARCHITECTURES | st.fixed_dictionaries(
    {"layers": st.lists(GRAMMAR_LAYERS | st.fixed_dictionaries({"activation": ACTIVATIONS}), max_size=3)}
)


@dataclass(frozen=True)
class Case:
    """A policy, its contract, the activations of each head's hidden layers, and a batch of observations and masks."""

    policy: AutoregressivePolicy
    contract: Contract
    activations: list[list[str]]
    observations: dict[str, th.Tensor]
    masks: th.Tensor

    def latent(self) -> th.Tensor:
        """Computes the output of the actor's trunk from raw observations (training.md §3.3, §5). Differentiable."""
        x = normalized(self.observations["observation"], self.policy).flatten(1)
        return self.policy.actor(self.policy.extractors[0](x))

    def first(self, rows: int) -> tuple[dict[str, th.Tensor], th.Tensor]:
        """Returns the observations and masks of the first row, repeated."""
        repeated = {key: part[:1].expand(rows, *part.shape[1:]) for key, part in self.observations.items()}
        return repeated, self.masks[:1].expand(rows, -1)


def normalized(frames: th.Tensor, policy: AutoregressivePolicy, start: int = 0) -> th.Tensor:
    """Normalises frames ``(batch, frames, features)`` by the statistics from feature ``start`` on (training.md §4)."""
    part = slice(start, start + frames.shape[-1])
    mean, variance = policy.observation_normalizer.mean[part], policy.observation_normalizer.variance[part]
    return ((frames - mean) / (variance + 1e-8).sqrt()).clamp(-5.0, 5.0)


@st.composite
def cases(draw: st.DrawFn, contracts: st.SearchStrategy[Contract], batch: int = 4) -> Case:
    contract = draw(contracts)
    frames, privileged = draw(st.integers(1, 2)), draw(st.booleans())
    per_head = draw(st.booleans())
    each = [draw(ARCHITECTURES) for _ in range(contract.num_heads if per_head else 1)]
    activation = draw(ACTIVATIONS)
    generator = th.Generator().manual_seed(draw(st.integers(0, 2**31)))
    policy = make_policy(
        contract,
        observation_space(contract, frames, privileged),
        net_arch={"pi": draw(TRUNKS), "vf": draw(TRUNKS)},
        head_arch=each if per_head else each[0],
        features_arch=draw(st.just([]) | ARCHITECTURES),
        activation=activation,
        autoregressive=draw(st.booleans() | st.just(True)),
        normalize_actions=draw(st.booleans() | st.just(True)),
        future_masks=draw(st.booleans()),
        scale_constants=(scale_constants := draw(st.booleans())),
    )
    randomize(policy, generator)
    if scale_constants:
        for normalizer in (policy.heads.normalizer, policy.observation_normalizer):
            normalizer.variance[::3] = 0
    names = [_activations(architecture, activation) for architecture in each]
    observations, masks = random_batch(policy, batch, generator)
    if draw(st.booleans()):  # a row that allows everything, so that there is something to enumerate
        masks[0], observations["action_mask"][0] = True, 1
    return Case(policy, contract, names if per_head else names * contract.num_heads, observations, masks)


def observation_space(contract: Contract, frames: int = 1, privileged: bool = True) -> spaces.Dict:
    """Returns the observation space of an environment with this contract; three features are privileged."""
    parts: dict[str, spaces.Space[Any]] = {
        "observation": spaces.Box(-np.inf, np.inf, (frames, contract.num_observations), np.float32),
        "action_mask": spaces.Box(0, 1, (contract.num_flat_actions,), np.int8),
    }
    if privileged:
        parts["privileged"] = spaces.Box(-np.inf, np.inf, (frames, 3), np.float32)
    return spaces.Dict(parts)


@th.no_grad()
def randomize(policy: AutoregressivePolicy, generator: th.Generator) -> None:
    """Sets weights that give each head clear preferences, and statistics that matter, including clipping."""
    for parameter in policy.parameters():
        num_inputs = parameter.shape[1] if parameter.ndim > 1 else 1
        parameter.normal_(0.0, num_inputs**-0.5, generator=generator)
    for normalizer in (policy.heads.normalizer, policy.observation_normalizer):
        normalizer.mean.uniform_(0.0, 1.0, generator=generator)
        normalizer.variance.uniform_(0.01, 1.0, generator=generator)
        normalizer.count.fill_(100.0)
    policy.set_training_mode(False)


def random_batch(
    policy: AutoregressivePolicy, batch: int, generator: th.Generator
) -> tuple[dict[str, th.Tensor], th.Tensor]:
    """Returns raw observations, and masks of any density, including heads without any legal entry."""
    space = policy.observation_space
    assert isinstance(space, spaces.Dict)
    observations = {
        key: 2 * th.randn(batch, *(part.shape or ()), generator=generator)
        for key, part in space.spaces.items()
        if key != "action_mask"
    }
    density = th.rand(batch, 1, generator=generator)
    masks = th.rand(batch, policy.rules.num_flat, generator=generator) < density
    masks[:, 0] |= ~masks.any(1)  # rows that allow nothing at all are refused
    return observations | {"action_mask": masks.to(th.int8)}, masks


def make_policy(contract: Contract, space: spaces.Dict, **arguments: Any) -> AutoregressivePolicy:
    """Builds a policy for a contract that is not registered."""
    return AutoregressivePolicy(space, contract.action_space, lambda _: 0.0, contract=contract, **arguments)


def _activations(architecture: Any, default: str) -> list[str]:
    """Returns the activation of each hidden layer of one architecture."""
    if isinstance(architecture, list):
        return [default] * len(architecture)
    return [layer["activation"] for layer in architecture["layers"] for _ in range(layer.get("repeat", 1))]
