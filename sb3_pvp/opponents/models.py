"""Trained models as opponents."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.random_words import gumbel
from sb3_pvp.contract import Contract
from sb3_pvp.contract.registry import loadable_contracts
from sb3_pvp.opponents.opponents import RandomOpponent
from sb3_pvp.policies.actors import Actor, act_together
from sb3_pvp.policies.model_files import PolicyFile, find_model, policy_file_of, read_policy_file

#: So many models stay in memory although nobody fights them just now.
CACHED_MODELS = 32


class ModelOpponent(RandomOpponent):
    """A frozen policy that sits in the other seat.

    Args:
        actor: what it decides with.
        content_hash: equal for equal actors.
        frame_ages: the frames that it sees, in ticks before the newest one.
        game: what it was trained to play, if that is known.
    """

    def __init__(self, actor: Actor, content_hash: str, frame_ages: tuple[int, ...], game: str | None = None) -> None:
        super().__init__(3, sum(actor.head_sizes))
        self.actor = actor
        self.content_hash = content_hash
        self.frame_ages = frame_ages
        self.game = game

    def check(self, contract: Contract) -> None:
        """Raises `ValueError` unless the model was trained in that contract's fights."""
        own = self.actor.frame_shape[1], self.actor.head_sizes
        asked = contract.num_observations, contract.head_sizes
        if own != asked:
            known = loadable_contracts()
            fitting = [each.name for each in known if (each.num_observations, each.head_sizes) == own]
            game = self.game or " or ".join(fitting) or "which nobody knows here"
            raise ValueError(
                f"the model was trained in another game, {game}: it sees {own[0]} features and has the heads {own[1]}, "
                f"but {contract.name} has {asked[0]} and {asked[1]}"
            )

    def _choose(
        self, observation: NDArray[np.float32], state: NDArray[Any], deterministic: bool, masks: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        flags = np.full(len(observation), deterministic)
        return self.predict_together([self], [observation], state, None, flags, masks)

    @staticmethod
    def predict_together(
        opponents: Sequence[ModelOpponent],
        observations: Sequence[NDArray[np.float32]],
        state: NDArray[np.uint64],
        episode_start: NDArray[np.bool_] | None,
        deterministic: NDArray[np.bool_],
        action_masks: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """`predict` of several models; observations are listed, the rest has the rows of one after the other."""
        noise, state = gumbel(state, action_masks.shape[1])
        noise[deterministic] = 0.0
        frames = [
            th.from_numpy(np.ascontiguousarray(seen, np.float32).reshape(-1, *opponent.actor.frame_shape))
            for opponent, seen in zip(opponents, observations, strict=True)
        ]
        masks = np.ascontiguousarray(action_masks)
        actors = [opponent.actor for opponent in opponents]
        return act_together(actors, frames, th.from_numpy(masks), th.from_numpy(noise)).numpy(), state


class ModelCache:
    """One `ModelOpponent` for each content, however many fights and files share it.

    Args:
        capacity: how many stay although nobody uses them.
    """

    def __init__(self, capacity: int = CACHED_MODELS) -> None:
        self._recent: deque[ModelOpponent] = deque(maxlen=capacity)
        self._alive: WeakValueDictionary[str, ModelOpponent] = WeakValueDictionary()
        self._contents: dict[tuple[str, int, int, int], str] = {}

    def of_file(self, path: Path) -> ModelOpponent:
        """The opponent in that file, which is read again only if it has changed."""
        status = path.stat()
        version = (str(path.absolute()), status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._alive.get(self._contents.get(version, ""))
        opponent = self._used(known) if known is not None else self.of_policy(read_policy_file(path))
        self._contents[version] = opponent.content_hash
        return opponent

    def of_policy(self, file: PolicyFile) -> ModelOpponent:
        """The opponent with that content; raises `ValueError` if it cannot be one."""
        known = self._alive.get(file.content_hash)
        if known is None:
            try:
                known = self._alive[file.content_hash] = _made_of(file)
            except ValueError as error:
                raise ValueError(f"{file.name} cannot be an opponent: {error}") from error
        return self._used(known)

    def _used(self, opponent: ModelOpponent) -> ModelOpponent:
        if opponent in self._recent:
            self._recent.remove(opponent)
        self._recent.append(opponent)
        return opponent


_CACHE = ModelCache()


def load_opponent(path: str | Path) -> ModelOpponent:
    """The model in that file as an opponent; only its weights are read, and the global random generators left alone.

    Files with the same policy share one copy. A model of `PvpPPO` tells which frames it was trained with; of another
    one it is assumed that it saw the newest ones.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no model of MaskablePPO, or one that sees no frames of features.
    """
    return _CACHE.of_file(find_model(path))


def model_opponent(model: Any) -> ModelOpponent:
    """A model as an opponent, as it is now: what it learns later changes nothing.

    Raises `ValueError` unless it is a model of MaskablePPO that sees frames of features.
    """
    if not isinstance(model, BaseAlgorithm):
        raise ValueError(f"an opponent must be a name, a path, an Opponent or a model of MaskablePPO, got {model!r}")
    return _CACHE.of_policy(policy_file_of(model))


def _made_of(file: PolicyFile) -> ModelOpponent:
    actor = file.actor()
    ages = tuple(range(actor.frame_shape[0])) if file.frame_ages is None else file.frame_ages
    if len(ages) != actor.frame_shape[0]:
        raise ValueError(f"the model sees {actor.frame_shape[0]} frames, but its frame_ages are {ages}")
    return ModelOpponent(actor, file.content_hash, ages, file.game)
