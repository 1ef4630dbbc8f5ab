"""Observations as a deployed fighter has them: without what only training knows, or as a bare array."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION


def complete_observation(
    observation: NDArray[Any] | dict[str, NDArray[Any]], space: spaces.Dict, masks_given: bool
) -> dict[str, NDArray[Any]]:
    """Fills in zeros for the parts that are missing, so that the observation fits the space.

    A bare array ``(features,)``, ``(frames, features)`` or ``(batch, ...)`` is the part ``"observation"``. Raises
    ``ValueError`` if there is no mask though the space has one, or if the array does not fit.
    """
    parts = dict(observation) if isinstance(observation, dict) else {OBSERVATION: _array(observation)}
    if ACTION_MASK in space.spaces and ACTION_MASK not in parts and not masks_given:
        raise ValueError("No action mask: pass action_masks=..., or an observation with the key 'action_mask'")
    key = OBSERVATION if OBSERVATION in parts else next(iter(parts))
    if key not in space.spaces:
        raise ValueError(f"The observation has a part {key!r}, the policy knows {sorted(space.spaces)}")
    parts[key] = _shaped(np.asarray(parts[key]), space[key])
    batch = parts[key].shape[: parts[key].ndim - len(space[key].shape or ())]
    for name, part in space.spaces.items():
        if name not in parts:
            parts[name] = np.zeros((*batch, *(part.shape or ())), part.dtype)
    return parts


def _array(observation: Any) -> NDArray[Any]:
    if isinstance(observation, tuple):
        raise ValueError("predict() got a tuple; env.reset() of Gymnasium returns (observation, info): pass the first")
    return np.asarray(observation)


def _shaped(array: NDArray[Any], space: spaces.Space[Any]) -> NDArray[Any]:
    shape = space.shape or ()
    if array.shape[-len(shape) :] == shape:
        return array
    # One frame is the common case: its axis may be left out.
    if shape[:1] == (1,) and array.shape[-1:] == shape[-1:] and array.ndim in (1, 2):
        return array.reshape(*array.shape[:-1], *shape)
    raise ValueError(f"An observation of shape {array.shape} does not fit {shape} or a batch of it")
