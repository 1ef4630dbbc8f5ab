"""Frozen policies of model files, which decide for many fights at once; equal ones are shared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.random_words import uniforms, words_from_seeds
from sb3_pvp.game.contract import Contract
from sb3_pvp.game.contract.model import loadable_contracts
from sb3_pvp.policies.files.model_files import PolicyFile
from sb3_pvp.policies.files.shipped import find_model
from sb3_pvp.policies.sampling import Actor, act_batched

CACHED_MODELS = 64  #: Model files that stay in memory while no fight uses them.

Frames = NDArray[np.float32]
Flags = NDArray[np.bool_]
#: Actions, ints ``(N, heads)``, and the next state or ``None``.
Decision = tuple[NDArray[np.int64], NDArray[Any] | None]


class ModelOpponent:
    """A frozen policy as an opponent; equal policies have the same ``content_hash``.

    ``frame_ages`` are the ages of the frames that it sees, in ticks; ``game`` is that of its training, if known.
    """

    def __init__(self, actor: Actor, content_hash: str, frame_ages: tuple[int, ...], game: str | None = None) -> None:
        self.actor, self.content_hash, self.frame_ages, self.game = actor, content_hash, frame_ages, game
        self.initial_state = partial(words_from_seeds, stream=3)  #: Returns random words, uint64 ``(N,)``.

    def check(self, contract: Contract) -> None:
        """Raises `ValueError` if the model has other observations or heads than the contract."""
        own = self.actor.frame_shape[1], self.actor.head_sizes
        wanted = contract.num_observations, contract.head_sizes
        if own != wanted:
            fitting = [each.name for each in loadable_contracts() if (each.num_observations, each.head_sizes) == own]
            game = self.game or " or ".join(fitting) or "which is not installed"
            raise ValueError(
                f"the model was trained in another game, {game}: it sees {own[0]} features and has the heads {own[1]}, "
                f"but {contract.name} has {wanted[0]} and {wanted[1]}"
            )

    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """See `sb3_pvp.players.opponents.Opponent.predict`."""
        flags = np.full(len(observation), deterministic)
        return self.predict_together([self], [observation], state, episode_start, flags, action_masks)

    @staticmethod
    def predict_together(
        opponents: Sequence[ModelOpponent],
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
_models: WeakValueDictionary[str, ModelOpponent] = WeakValueDictionary()


def find_file(path: str | Path) -> Path:
    """Returns the file of a model; raises `FileNotFoundError`. Replaced where the learner's disk is out of reach."""
    return find_model(path)


def load_opponent(path: str | Path, safe: bool = False) -> ModelOpponent:
    """Loads a model file as an opponent, without touching the global random generators; ``safe``: unpickles nothing.

    Files with the same policy share one copy; a file is read again only after it has changed. Raises
    `FileNotFoundError`, and `ValueError` if it is no model of MaskablePPO that sees frames of features.
    """
    path = find_file(path)
    status = path.stat()  # models are saved atomically, so a new version has another inode
    return _read_opponent(path, safe, status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(CACHED_MODELS)
def _read_opponent(path: Path, safe: bool, *version: int) -> ModelOpponent:
    """Reads a model file; ``version`` is only a part of the cache's key."""
    return _opponent_of(PolicyFile(path, safe))


def model_opponent(model: Any) -> ModelOpponent:
    """Returns a frozen copy of a model of MaskablePPO as an opponent."""
    if not isinstance(model, BaseAlgorithm):
        raise ValueError(f"an opponent must be a name, a path, an Opponent or a model of MaskablePPO, got {model!r}")
    return _opponent_of(PolicyFile(model))


def _opponent_of(file: PolicyFile) -> ModelOpponent:
    """Returns the policy of a file as an opponent, shared with all files of equal content."""
    known = _models.get(file.content_hash)
    if known is None:
        try:
            actor = file.actor()
            # Only `PvpPPO` saves the ages of its frames; models of MaskablePPO are assumed to see the newest ones.
            ages = tuple(range(actor.frame_shape[0])) if file.frame_ages is None else file.frame_ages
            if len(ages) != actor.frame_shape[0]:
                raise ValueError(f"the model sees {actor.frame_shape[0]} frames, but its frame_ages are {ages}")
        except ValueError as error:
            raise ValueError(f"{file.name} cannot be an opponent: {error}") from error
        known = _models[file.content_hash] = ModelOpponent(actor, file.content_hash, ages, file.game)
    return known
