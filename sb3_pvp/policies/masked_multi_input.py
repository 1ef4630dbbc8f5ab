"""The plain fighter: two small towers over normalised observations, legal joint actions, no recurrent state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule

from sb3_pvp.contract import load_contract
from sb3_pvp.policies.distribution import DependencyRules, DependentMultiCategorical
from sb3_pvp.policies.networks import ACTION_MASK, OBSERVATION, ActorCriticTowers, NormalizedObservation

Observation = NDArray[Any] | dict[str, NDArray[Any]]


class MaskedMultiInputPolicy(MaskableMultiInputActorCriticPolicy):
    """A policy for `sb3_contrib.MaskablePPO` on the Dict observations of the environments here.

    - Masks are taken from ``obs["action_mask"]`` wherever none are passed, so `predict` always acts legally.
    - Joint actions obey the dependencies between heads that the contract states.
    - ``privileged`` reaches the critic only; `predict` does without it.
    - Observations are normalised by statistics that are saved with the weights.

    ``contract`` names the contract (or is the path of one), for the dependencies between heads; ``None``: there are
    none. The other arguments are those of SB3's policies. Raises ``ValueError`` if the action space is not the
    contract's.
    """

    _update_statistics = False

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.MultiDiscrete,
        lr_schedule: Schedule,
        *,
        contract: str | None = "NhEnv",
        net_arch: list[int] | dict[str, list[int]] | None = None,
        **kwargs: Any,
    ) -> None:
        _check_spaces(observation_space, action_space)
        self.contract_name = contract
        layers = net_arch if net_arch is not None else [64, 64]
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch={"pi": layers, "vf": layers} if isinstance(layers, list) else layers,
            features_extractor_class=NormalizedObservation,
            **kwargs,
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        parameters = super()._get_constructor_parameters()
        fixed = ("features_extractor_class", "features_extractor_kwargs")
        return {name: value for name, value in parameters.items() if name not in fixed} | {
            "contract": self.contract_name
        }

    def _build(self, lr_schedule: Schedule) -> None:
        contract = load_contract(self.contract_name) if self.contract_name is not None else None
        head_sizes = tuple(int(size) for size in self.action_space.nvec)  # type: ignore[attr-defined]
        if contract is not None and contract.head_sizes != head_sizes:
            raise ValueError(
                f"The action heads of the environment, {head_sizes}, are not those of contract {contract.name}, "
                f"{contract.head_sizes}; pass policy_kwargs=dict(contract=...)"
            )
        self.rules = DependencyRules(head_sizes, contract)
        self.action_dist = DependentMultiCategorical(self.rules)
        super()._build(lr_schedule)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = ActorCriticTowers(  # type: ignore[assignment]
            self.features_extractor.num_public,  # type: ignore[arg-type]
            self.features_dim,
            self.net_arch,  # type: ignore[arg-type]
            self.activation_fn,
        )

    def forward(  # type: ignore[override]
        self, obs: dict[str, th.Tensor], deterministic: bool = False, action_masks: NDArray[Any] | None = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Acts in a roll-out: actions ``(batch, heads)``, values ``(batch, 1)``, log-probabilities ``(batch,)``."""
        self._observe(obs)
        return super().forward(obs, deterministic, _masks(obs, action_masks))  # type: ignore[arg-type]

    def evaluate_actions(  # type: ignore[override]
        self, obs: dict[str, th.Tensor], actions: th.Tensor, action_masks: th.Tensor | None = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor | None]:
        """Values ``(batch, 1)``, log-probabilities ``(batch,)`` and entropies ``(batch,)`` of given actions."""
        return super().evaluate_actions(obs, actions, _masks(obs, action_masks))  # type: ignore[arg-type]

    def get_distribution(self, obs: PyTorchObs, action_masks: NDArray[Any] | None = None) -> DependentMultiCategorical:
        """The distribution of joint actions under the given masks, or under those in the observation."""
        return super().get_distribution(obs, _masks(obs, action_masks))  # type: ignore[return-value]

    def predict(
        self,
        observation: Observation,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Legal actions for one observation or a batch of them, as in SB3.

        ``observation`` is the environment's dict, with or without ``privileged``, or the bare array ``(features,)``,
        ``(frames, features)`` or ``(batch, ...)``, which needs ``action_masks`` ``(flat actions,)`` or ``(batch,
        flat actions)``. Raises ``ValueError`` if there is no mask, or an array does not fit.
        """
        complete = self._complete(observation, action_masks)
        return super().predict(complete, state, episode_start, deterministic, action_masks)

    def set_training_mode(self, mode: bool) -> None:
        """Switches between learning and acting, as SB3 does around every update."""
        super().set_training_mode(mode)
        # The roll-out that follows an update is the next one to act under new statistics.
        self._update_statistics |= mode

    def _observe(self, obs: dict[str, th.Tensor]) -> None:
        extractor = self.features_extractor
        assert isinstance(extractor, NormalizedObservation)
        first = not extractor.normalizer.count
        if self._update_statistics and not first:
            extractor.normalizer.update()
        self._update_statistics = False
        extractor.normalizer.observe(extractor.flatten(obs))
        if first:
            extractor.normalizer.update()

    def _complete(self, observation: Observation, action_masks: NDArray[Any] | None) -> dict[str, NDArray[Any]]:
        """Fills in what a deployed fighter does not have: the privileged part, and a place for the mask."""
        assert isinstance(self.observation_space, spaces.Dict)
        parts = dict(observation) if isinstance(observation, dict) else {OBSERVATION: _array(observation)}
        if ACTION_MASK not in parts and action_masks is None:
            raise ValueError("No action mask: pass action_masks=..., or an observation with the key 'action_mask'")
        public = parts[OBSERVATION] = _shaped(parts[OBSERVATION], self.observation_space[OBSERVATION])
        batch = public.shape[: public.ndim - len(self.observation_space[OBSERVATION].shape or ())]
        for key, space in self.observation_space.spaces.items():
            if key not in parts:
                parts[key] = np.zeros((*batch, *(space.shape or ())), space.dtype)
        return parts


def _check_spaces(observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
    keys = (OBSERVATION, ACTION_MASK)
    if not isinstance(observation_space, spaces.Dict) or any(key not in observation_space.spaces for key in keys):
        raise ValueError(f"MaskedMultiInputPolicy needs a Dict observation space with the keys {keys}")
    if not isinstance(action_space, spaces.MultiDiscrete):
        raise ValueError(f"MaskedMultiInputPolicy needs a MultiDiscrete action space, not {action_space}")


def _masks(obs: PyTorchObs, action_masks: Any) -> Any:
    return obs[ACTION_MASK] if action_masks is None else action_masks  # type: ignore[index]


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
