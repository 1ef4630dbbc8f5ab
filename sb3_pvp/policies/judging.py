"""What a policy thinks of observations: how likely it takes each entry, and what it expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from sb3_pvp.policies.autoregressive import AutoregressivePolicy
from sb3_pvp.policies.features import OBSERVATION
from sb3_pvp.policies.memory import Remembered


def shaped(space: spaces.Space[Any], observations: Mapping[str, NDArray[Any]]) -> Any:
    """Returns the parts of observations ``(batch, …)`` that a space has, in its shapes; unknown keys are ignored."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {OBSERVATION: space}
    known = {key: observations[key].reshape(-1, *(part.shape or ())) for key, part in parts.items()}
    return known if isinstance(space, spaces.Dict) else known[OBSERVATION]


@th.no_grad()
def probabilities_and_values(
    policy: MaskableActorCriticPolicy,
    observations: Mapping[str, NDArray[Any]],
    actions: NDArray[np.int64],
    masks: NDArray[np.bool_],
    remembered: Remembered | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns probabilities of all entries (given earlier actions), float32 ``(batch, A)``, and values ``(batch,)``.

    Args:
        policy: a policy of MaskablePPO with MultiDiscrete actions.
        observations: parts of the environment's observation, ``(batch, ...)`` each; unknown keys are ignored.
        actions: ints ``(batch, heads)``.
        masks: bool ``(batch, A)``.
        remembered: see `AutoregressivePolicy.act`.
    """
    seen, _ = policy.obs_to_tensor(shaped(policy.observation_space, observations))
    if isinstance(policy, AutoregressivePolicy):
        joint, values = policy.evaluate_entries(seen, th.as_tensor(actions, device=policy.device), masks, remembered)
    else:
        heads = policy.get_distribution(seen, masks).distributions  # type: ignore[attr-defined]
        joint, values = th.cat([head.probs for head in heads], 1), policy.predict_values(seen)
    return joint.cpu().numpy(), values.flatten().cpu().numpy()
