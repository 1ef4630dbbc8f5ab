"""Frozen policies of model files, which decide for many fights at once; equal ones are shared."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch as th
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.random_words import uniforms, words_from_seeds
from sb3_pvp.policies.acting import Decision, Flags, Frames
from sb3_pvp.policies.files.model_files import PolicyFile, load_maskable_ppo
from sb3_pvp.policies.files.registry import Algorithm, ModelOpponent, algorithm_of
from sb3_pvp.policies.files.shipped import find_model
from sb3_pvp.policies.sampling import act_batched

CACHED_MODELS = 64  #: Model files that stay in memory while no fight uses them.


class MaskableOpponent(ModelOpponent):
    """A frozen policy of MaskablePPO as an opponent: no more than its actor, and equal ones share a copy.

    Raises `ValueError` if it is none that maps frames of features to MultiDiscrete actions.
    """

    def __init__(self, file: PolicyFile) -> None:
        super().__init__((file.observation_space, file.action_space), file.content_hash, file.frame_ages, file.game)
        self.actor = file.actor()

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.uint64]:
        """Returns random words, uint64 ``(N,)``."""
        return words_from_seeds(seeds, stream=3)

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Does `predict_together` for this model alone."""
        flags = np.full(len(observation), deterministic)
        return self.predict_together([self], [observation], state, episode_start, flags, action_masks)

    @staticmethod
    def predict_together(
        opponents: Sequence[MaskableOpponent],
        observations: Sequence[Frames],
        state: NDArray[np.uint64],
        episode_start: Flags,
        deterministic: Flags,
        action_masks: Flags,
    ) -> Decision:
        """Does `predict` for several models: one array of observations each, other rows one model after the other."""
        actors = [opponent.actor for opponent in opponents]
        numbers, state = uniforms(state, len(actors[0].head_sizes))
        numbers[deterministic] = -1.0  # selects the most likely entry
        frames = [
            th.from_numpy(np.ascontiguousarray(seen, np.float32).reshape(-1, *actor.frame_shape))
            for actor, seen in zip(actors, observations, strict=True)
        ]
        masks = th.from_numpy(np.ascontiguousarray(action_masks))
        return act_batched(actors, frames, masks, th.from_numpy(numbers)).numpy(), state


#: Models in use, by content hash: fights and files with the same policy share one copy.
_models: WeakValueDictionary[str, MaskableOpponent] = WeakValueDictionary()


def find_file(path: str | Path) -> Path:
    """Returns the file of a model; raises `FileNotFoundError`. Replaced where the learner's disk is out of reach."""
    return find_model(path)


def load_opponent(path: str | Path, safe: bool = False) -> ModelOpponent:
    """Loads a model file as an opponent, without touching the global random generators; ``safe``: unpickles nothing.

    Files with the same policy share one copy; a file is read again only after it has changed. Raises
    `FileNotFoundError`, and `ValueError` if its algorithm is not in the registry, or it cannot act in fights.
    """
    path = find_file(path)
    status = path.stat()  # models are saved atomically, so a new version has another inode
    return _read_opponent(path, safe, status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(CACHED_MODELS)
def _read_opponent(path: Path, safe: bool, *version: int) -> ModelOpponent:
    """Reads a model file; ``version`` is only a part of the cache's key."""
    return _opponent_of(path, safe)


def model_opponent(model: Any) -> ModelOpponent:
    """Returns a frozen copy of a model as an opponent."""
    if not isinstance(model, BaseAlgorithm):
        raise ValueError(f"an opponent must be a name, a path, an Opponent or a model, got {model!r}")
    return _opponent_of(model)


def _opponent_of(source: Path | BaseAlgorithm, safe: bool = False) -> ModelOpponent:
    algorithm = algorithm_of(source)
    try:
        return algorithm.opponent(source, safe)
    except ValueError as error:
        name = source if isinstance(source, Path) else type(source).__name__
        raise ValueError(f"{name} cannot be an opponent: {error}") from error


class MaskablePPOFiles(Algorithm):
    """`MaskablePPO` and `PvpPPO` in the registry."""

    model_class = MaskablePPO

    def load(self, file: Path | io.BytesIO, device: str = "cpu", safe: bool = False) -> MaskablePPO:
        """Implements `Algorithm.load`."""
        return load_maskable_ppo(file, device, safe)

    def opponent(self, source: Path | BaseAlgorithm, safe: bool = False) -> MaskableOpponent:
        """Implements `Algorithm.opponent`: of equal policies, always the same object."""
        file = PolicyFile(source, safe)
        known = _models.get(file.content_hash)
        if known is None:
            known = _models[file.content_hash] = MaskableOpponent(file)
        return known


MASKABLE_PPO = MaskablePPOFiles()
