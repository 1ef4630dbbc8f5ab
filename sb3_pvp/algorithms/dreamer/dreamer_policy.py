"""The policy of DreamerV3: all of its networks, and a state that is carried from step to step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule

from sb3_pvp.algorithms.dreamer.distributions import Draws, mixed_probs
from sb3_pvp.algorithms.dreamer.laprop import LaProp
from sb3_pvp.algorithms.dreamer.losses import ReturnScale
from sb3_pvp.algorithms.dreamer.signals import ActionSignals, ObservedSignals, encode_actions
from sb3_pvp.algorithms.dreamer.sizes import ModelSize, model_size
from sb3_pvp.algorithms.dreamer.world_model import DreamerNetworks, Latent, Tensors
from sb3_pvp.common.errors import foreign
from sb3_pvp.policies.features import ACTION_MASK, OBSERVATION, PRIVILEGED, complete_observation


class Carried(NamedTuple):
    """What a policy remembers between two steps, ``(n, …)`` each: the state, and its last action as network input."""

    deter: th.Tensor
    stoch: th.Tensor
    action: th.Tensor


class DreamerPolicy(BasePolicy):
    """All networks of DreamerV3, acting with a state that `predict` takes and returns.

    ``size`` is a name of `SIZES` or a `ModelSize`. ``mlp_keys`` and ``cnn_keys`` choose the vectors and images of
    a dictionary observation; by default all but what only a critic may see. ``optimizer_kwargs`` go to `LaProp`. Raises
    `ValueError` for spaces that it does not support, and for keys that match nothing.
    """

    optimizer: LaProp

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        size: str | ModelSize = "size12m",
        mlp_keys: str = f"(?!{PRIVILEGED}$)",
        cnn_keys: str = ".*",
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.size = model_size(size) if isinstance(size, str) else size
        self.observed = ObservedSignals(observation_space, mlp_keys, cnn_keys)
        self.actions = ActionSignals(action_space)
        self.networks = self.make_networks()
        self.return_scale = ReturnScale()
        self.optimizer = LaProp(self.networks.trained(), lr=lr_schedule(1), **(optimizer_kwargs or {}))
        self.draws = Draws()

    def make_networks(self) -> DreamerNetworks:
        """Returns new networks for the signals and the size."""
        return DreamerNetworks(self.observed.signals, self.actions.signals, self.size)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Does as torch does; raises `ValueError` of one line for weights of other networks."""
        with foreign("its networks are of another size than policy_kwargs say, of other spaces or another Dreamer"):
            return super().load_state_dict(*args, **kwargs)

    def start(self, n: int) -> Carried:
        """Returns what ``n`` fighters remember before their first step."""
        width = sum(signal.width for signal in self.actions.signals.values())
        shapes = ((self.size.deter,), (self.size.stoch, self.size.classes), (width,))
        return Carried(*(th.zeros(n, *shape, device=self.device) for shape in shapes))

    @th.no_grad()
    def step(
        self, observations: Tensors, carried: Carried, is_first: th.Tensor, draws: Draws, masks: th.Tensor | None = None
    ) -> tuple[Tensors, Carried]:
        """Returns the action ``(n, size)`` of each key, and what is remembered then.

        ``is_first`` bool ``(n,)`` forgets. ``masks`` are flat ones, bool ``(n, A)``, by default those observed.
        """
        masks = observations.get(ACTION_MASK) if masks is None else masks
        goes_on = (~is_first).float().unsqueeze(-1)
        recurrent = self.networks.recurrent
        before = Latent(carried.deter * goes_on, carried.stoch * goes_on.unsqueeze(-1))
        deter = recurrent.core(before, carried.action * goes_on)
        tokens = self.networks.encoder({key: values.unsqueeze(1) for key, values in observations.items()}).squeeze(1)
        stoch = draws.latent(mixed_probs(recurrent.posterior(th.cat([deter, tokens], -1))))
        chosen = self.networks.choose(Latent(deter, stoch).features(), draws, None if masks is None else masks > 0)
        actions = {key: chosen[key] for key in self.actions.signals}
        return actions, Carried(deter, stoch, encode_actions(self.actions.signals, actions))

    def predict(
        self,
        observation: NDArray[Any] | dict[str, NDArray[Any]],
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...]]:
        """Returns actions and what is remembered, to be given with the next observations; None remembers nothing.

        ``action_masks`` are by default those in the observation.
        """
        if isinstance(self.observation_space, spaces.Dict) and OBSERVATION in self.observation_space.spaces:
            observation = complete_observation(observation, self.observation_space, action_masks is not None)
        tensors, vectorized = self.obs_to_tensor(observation)
        observations = self.observed.tensors(tensors)
        n = len(next(iter(observations.values())))
        before = self.start(n) if state is None else state
        carried = Carried(*(th.as_tensor(part, device=self.device) for part in before))
        first = False if episode_start is None else episode_start
        is_first = th.as_tensor(first, dtype=th.bool, device=self.device).expand(n)
        masks = None if action_masks is None else th.as_tensor(action_masks, device=self.device).reshape(n, -1)
        # The original always draws both state and action.
        draws = Draws(likeliest=True) if deterministic else self.draws
        actions, carried = self.step(observations, carried, is_first, draws, masks)
        chosen = self.actions.to_env(actions)
        return chosen if vectorized else chosen[0], tuple(part.cpu().numpy() for part in carried)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        observations, is_first = self.observed.tensors(observation), th.ones(1, dtype=th.bool, device=self.device)
        actions, _ = self.step(observations, self.start(1), is_first, Draws(deterministic))
        return th.as_tensor(self.actions.to_env(actions))
