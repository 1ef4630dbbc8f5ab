"""PPO, A2C, DQN and QR-DQN in the registry. Their zips name no algorithm, and their policies know no masks."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch as th
from gymnasium import Space, spaces
from numpy.typing import NDArray
from sb3_contrib import QRDQN
from sb3_contrib.qrdqn.policies import QRDQNPolicy
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.dqn.policies import DQNPolicy

from sb3_pvp.common.random_words import uniforms, words_from_seeds
from sb3_pvp.common.user_modules import importing_here
from sb3_pvp.policies.acting import Decision, Flags, Frames
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED, head_sizes_of, part_of
from sb3_pvp.policies.files.model_files import INFERENCE_OBJECTS, loading
from sb3_pvp.policies.files.reading import ModelFile
from sb3_pvp.policies.files.registry import Algorithm, objects_to_play
from sb3_pvp.policies.networks import LEAST_ROWS_OF_LINEAR, filled
from sb3_pvp.policies.sampling import sample_independently


def _scores(policy: Any, seen: Any) -> th.Tensor:
    """Returns logits or values of all entries, float32 ``(batch, A)``, for observations as the policy has them."""
    if isinstance(policy, QRDQNPolicy):
        return policy.quantile_net(seen).mean(1)  # type: ignore[no-any-return]
    if isinstance(policy, DQNPolicy):
        return policy.q_net(seen)  # type: ignore[no-any-return]
    heads = policy.get_distribution(seen).distribution  # of a Discrete space one, else a list
    return th.cat([head.logits for head in (heads if isinstance(heads, list) else [heads])], 1)


class StockActing:
    """A frozen policy without masks, as an `sb3_pvp.policies.acting.Opponent`.

    Those that learn values always take the legal entry with the highest one; a head without a legal entry takes entry
    0. Raises `ValueError` if the policy sees more than frames of features and their mask.
    """

    def __init__(self, policy: BasePolicy) -> None:
        self._space, self._is_greedy = policy.observation_space, isinstance(policy, DQNPolicy | QRDQNPolicy)
        self._head_sizes = head_sizes_of(policy.action_space)
        _check_seen(self._space)
        self._policy = copy.deepcopy(policy).to("cpu")
        self._policy.set_training_mode(False)

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.uint64]:
        """Returns random words, uint64 ``(N,)``."""
        return words_from_seeds(seeds, stream=3)

    @th.inference_mode()
    def predict(
        self, observation: Frames, state: NDArray[Any], episode_start: Flags, deterministic: bool, action_masks: Flags
    ) -> Decision:
        """Implements `Opponent.predict`; raises `ValueError` if an observation is NaN."""
        count, masks = len(observation), np.ascontiguousarray(action_masks, np.bool_)
        numbers, following = uniforms(state, len(self._head_sizes))
        if deterministic or self._is_greedy:
            numbers[:] = -1.0  # selects the entry with the highest score
        # As many rows at least as make each row's result the same whatever the others are.
        own, legal = (filled(th.from_numpy(part), LEAST_ROWS_OF_LINEAR) for part in (observation, masks))
        seen: Any = own
        if isinstance(self._space, spaces.Dict):
            parts = {OBSERVATION: own, ACTION_MASK: legal.float()}
            seen = {key: parts[key].reshape(-1, *(part.shape or ())) for key, part in self._space.spaces.items()}
        scores = _scores(self._policy, seen)[:count]
        if scores.isnan().any():
            raise ValueError("an observation or a weight of an opponent is NaN: no action can be chosen")
        return sample_independently(scores.numpy(), masks, numbers, self._head_sizes), following


def _check_seen(space: Space[Any]) -> None:
    parts = space.spaces if isinstance(space, spaces.Dict) else {OBSERVATION: space}
    if PRIVILEGED in parts:
        raise ValueError(
            f"the model needs the part {PRIVILEGED!r} to act, which nobody sees in a fight: train it without this part"
        )
    if {*parts} - {ACTION_MASK} != {OBSERVATION} or not isinstance(part_of(space), spaces.Box):
        raise ValueError(f"the model sees {space}, not a Box of features, or one under {OBSERVATION!r}")


class _NoReplays:
    """Stands for SB3's replay buffer, which takes much memory, and asks how much there is, as no sandbox allows."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...


class StockFiles(Algorithm):
    """A stock algorithm in the registry.

    Args:
        model_class: the class of its models.
        has: attributes in all its files.
        lacks: attributes of similar algorithms.
        modules: where its policies or buffers come from, one of them at least; empty if that does not matter.
    """

    def __init__(
        self, model_class: type[BaseAlgorithm], has: set[str], lacks: set[str], modules: tuple[str, ...] = ()
    ) -> None:
        self.model_class, self._has, self._lacks, self._modules = model_class, has, lacks, modules

    def recognises(self, source: ModelFile | BaseAlgorithm) -> bool:
        """Implements `Algorithm.recognises`, by the attributes and names of classes that SB3 writes beside pickles."""
        if not isinstance(source, ModelFile):
            return super().recognises(source)
        names, classes = source.values.keys(), map(source.values.get, ("policy_class", "rollout_buffer_class"))
        found = [each.get("__module__") for each in classes if isinstance(each, dict)]
        is_from = not self._modules or any(module in self._modules for module in found)
        return is_from and self._has <= names and not self._lacks & names

    def acting(self, model: Any) -> StockActing:
        """Implements `Algorithm.acting`."""
        return StockActing(model.policy)

    def build(self, data: Mapping[str, Any], weights: Mapping[str, th.Tensor], device: str) -> BaseAlgorithm:
        """Refuses any file: its spaces and the shape of its network are pickled."""
        raise ValueError(
            f"it is a {self.model_class.__name__} of stock SB3, pickled: load it without safe if you trust it"
        )

    def load(self, file: ModelFile, device: str = "cpu") -> BaseAlgorithm:
        """Implements `Algorithm.load`, without the memory for replays."""
        if file.content is None:
            return super().load(file, device)
        with loading(file.name, self.model_class.__name__), importing_here():
            objects = objects_to_play(file.values, _REPLACED)
            model = self.model_class.load(file.content, device=device, custom_objects=objects)
        if isinstance(model, OffPolicyAlgorithm):
            model.replay_buffer = model.replay_buffer_class = None
        return model


_REPLACED = INFERENCE_OBJECTS | {"replay_buffer_class": _NoReplays, "replay_buffer_kwargs": {}}
_ON_POLICY = ("stable_baselines3.common.policies", "stable_baselines3.common.buffers")
PPO_FILES = StockFiles(PPO, {"clip_range", "n_steps"}, {"exploration_rate"}, _ON_POLICY)
# TRPO, too, has no clip range.
A2C_FILES = StockFiles(A2C, {"gae_lambda"}, {"clip_range", "cg_max_steps"}, _ON_POLICY)
DQN_FILES = StockFiles(DQN, {"exploration_rate"}, {"n_quantiles"})
QRDQN_FILES = StockFiles(QRDQN, {"exploration_rate", "n_quantiles"}, set())
