"""What a policy's heads chose from, and what its critic expects: for those who look at its decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs

from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.features import OBSERVATION

Observations = Mapping[str, NDArray[Any]]


@th.no_grad()
def head_probabilities(
    policy: MaskableActorCriticPolicy, observations: Observations, actions: NDArray[np.int64], masks: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """The distributions that the heads of these actions were drawn from, float32 ``(batch, A)``; 1 for each head.

    Heads of an `AutoregressivePolicy` are conditional on the actions of the heads before them.

    Args:
        policy: of MaskablePPO, on MultiDiscrete actions.
        observations: as environments give them, ``(batch, ...)`` each; parts that the policy does not know are ignored.
        actions: ints ``(batch, heads)``.
        masks: bool ``(batch, A)``.
    """
    seen = _tensors(policy, observations)
    if isinstance(policy, AutoregressivePolicy):
        joint = policy.head_probabilities(seen, th.as_tensor(actions, device=policy.device), masks)
    else:
        heads = policy.get_distribution(seen, masks).distributions  # type: ignore[attr-defined]
        joint = th.cat([head.probs for head in heads], 1)
    return joint.cpu().numpy()


@th.no_grad()
def state_values(policy: MaskableActorCriticPolicy, observations: Observations) -> NDArray[np.float32]:
    """What the critic expects from here on, float32 ``(batch,)``; see `head_probabilities` for the arguments."""
    return policy.predict_values(_tensors(policy, observations)).flatten().cpu().numpy()


def _tensors(policy: MaskableActorCriticPolicy, observations: Observations) -> PyTorchObs:
    space = policy.observation_space
    parts = space.spaces if isinstance(space, spaces.Dict) else {OBSERVATION: space}
    seen: Any = {key: observations[key].reshape(-1, *(part.shape or ())) for key, part in parts.items()}
    return policy.obs_to_tensor(seen if isinstance(space, spaces.Dict) else seen[OBSERVATION])[0]
