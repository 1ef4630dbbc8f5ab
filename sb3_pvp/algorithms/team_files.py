"""MAPOCA in the registry of algorithms: how its models are read, and how frozen ones act in many fights."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.algorithms.mapoca import MAPOCA, MAPOCAPolicy
from sb3_pvp.common.random_words import uniforms, words_from_seeds
from sb3_pvp.common.user_modules import importing_here
from sb3_pvp.policies.acting import Decision, Flags, Frames
from sb3_pvp.policies.files.description import build
from sb3_pvp.policies.files.model_files import INFERENCE_OBJECTS, loading
from sb3_pvp.policies.files.reading import ModelFile
from sb3_pvp.policies.files.registry import Algorithm, objects_to_play


class TeamActing:
    """A frozen `MAPOCAPolicy` as an `sb3_pvp.policies.acting.Opponent`."""

    def __init__(self, policy: MAPOCAPolicy) -> None:
        self._policy = copy.deepcopy(policy).to("cpu")
        self._policy.set_training_mode(False)
        space = policy.action_space
        self._cut = (space.low, space.high) if isinstance(space, spaces.Box) else ()

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.uint64]:
        """Returns random words, uint64 ``(N,)``."""
        return words_from_seeds(seeds, stream=3)

    @th.inference_mode()
    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`; raises `ValueError` if an observation is NaN."""
        numbers, following = uniforms(state, len(self._policy.head_sizes))
        if deterministic:
            numbers[:] = -1.0  # selects the most likely entry
        seen, _ = self._policy.slots.observations(th.from_numpy(observation).flatten(1).float())
        if seen.isnan().any():
            raise ValueError("an observation of an opponent is NaN: no action can be chosen")
        masks = th.from_numpy(np.ascontiguousarray(action_masks, np.bool_))
        actions = self._policy.decide(seen, masks, th.from_numpy(numbers))[0].numpy()
        return (actions.clip(*self._cut) if self._cut else actions), following


class MapocaFiles(Algorithm):
    """`MAPOCA` in the registry."""

    model_class = MAPOCA

    def acting(self, model: Any) -> TeamActing:
        """Implements `Algorithm.acting`."""
        return TeamActing(model.policy)

    def hash_of(self, source: Any, model: Any) -> str:
        """Implements `Algorithm.hash_of`: equal for a model, its zip and its fighter file."""
        digest = hashlib.sha256(repr((model.observation_space, model.policy.describe()[1])).encode())
        for name, part in model.policy.state_dict().items():
            digest.update(name.encode() + part.cpu().numpy().tobytes())
        return digest.hexdigest()

    def load(self, file: ModelFile, device: str = "cpu") -> Any:
        """Implements `Algorithm.load`."""
        with loading(file.name, "MAPOCA"):
            if file.content is None:
                return build(file.description, file.weights(), device, (MAPOCA, MAPOCAPolicy))
            with importing_here():
                objects = objects_to_play(file.values, INFERENCE_OBJECTS)
                return MAPOCA.load(file.content, device=device, custom_objects=objects)


MAPOCA_FILES = MapocaFiles()
