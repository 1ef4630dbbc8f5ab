"""The policy of DreamerV3: all of its networks, and a state that is carried from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch.nn import functional as F

from sb3_pvp.algorithms.dreamer.distributions import ActionDistribution, Choices, Draws, mixed_probs
from sb3_pvp.algorithms.dreamer.laprop import LaProp
from sb3_pvp.algorithms.dreamer.losses import ReturnScale
from sb3_pvp.algorithms.dreamer.signals import ActionSignals, ObservedSignals, encode_actions
from sb3_pvp.algorithms.dreamer.sizes import ModelSize, model_size
from sb3_pvp.algorithms.dreamer.world_model import DreamerNetworks, Latent, Tensors
from sb3_pvp.common.errors import one_line
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
        self.networks = DreamerNetworks(self.observed.signals, self.actions.signals, self.size)
        self.return_scale = ReturnScale()
        self.optimizer = LaProp(self.networks.trained(), lr=lr_schedule(1), **(optimizer_kwargs or {}))
        self.draws = Draws()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Does as torch does; raises `ValueError` of one line for weights of other networks."""
        try:
            return super().load_state_dict(state_dict, strict, assign)
        except RuntimeError as error:  # its message has a line per weight
            text = "its networks are of another size, see the size in policy_kwargs, of other spaces or another Dreamer"
            raise ValueError(f"{text}: {one_line(error):.200}") from None

    def start(self, n: int) -> Carried:
        """Returns what ``n`` fighters remember before their first step."""
        width = sum(signal.width for signal in self.actions.signals.values())
        shapes = ((self.size.deter,), (self.size.stoch, self.size.classes), (width,))
        return Carried(*(th.zeros(n, *shape, device=self.device) for shape in shapes))

    @th.no_grad()
    def step(
        self,
        observations: Tensors,
        carried: Carried,
        is_first: th.Tensor,
        deterministic: bool = False,
        masks: th.Tensor | None = None,
        draws: Draws | None = None,
    ) -> tuple[Tensors, Carried]:
        """Returns the action ``(n, size)`` of each key, and what is remembered then.

        ``is_first`` bool ``(n,)`` forgets. The original always draws both state and action; ``deterministic`` takes
        the likeliest ones. ``masks`` are flat ones, bool ``(n, A)``, by default those among the observations.
        """
        draws = draws or self.draws
        masks = observations.get(ACTION_MASK) if masks is None else masks
        goes_on = (~is_first).float().unsqueeze(-1)
        recurrent = self.networks.recurrent
        before = Latent(carried.deter * goes_on, carried.stoch * goes_on.unsqueeze(-1))
        deter = recurrent.core(before, carried.action * goes_on)
        tokens = self.networks.encoder({key: values.unsqueeze(1) for key, values in observations.items()}).squeeze(1)
        probs = mixed_probs(recurrent.seen(deter, tokens))
        stoch = F.one_hot(probs.argmax(-1), probs.shape[-1]).float() if deterministic else draws.latent(probs)
        distributions = self.networks.actor(Latent(deter, stoch).features())
        if masks is not None:
            distributions = masked(distributions, masks > 0)
        if deterministic:
            actions = {key: distribution.mode() for key, distribution in distributions.items()}
        else:
            actions = draws.actions(distributions)
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
        carried = (
            self.start(n) if state is None else Carried(*(th.as_tensor(part, device=self.device) for part in state))
        )
        first = np.zeros(n, bool) if episode_start is None else np.asarray(episode_start, bool)
        is_first = th.as_tensor(first, device=self.device).expand(n)
        masks = None if action_masks is None else th.as_tensor(action_masks, device=self.device).reshape(n, -1)
        actions, carried = self.step(observations, carried, is_first, deterministic, masks)
        chosen = self.actions.to_env(actions)
        return chosen if vectorized else chosen[0], tuple(part.cpu().numpy() for part in carried)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        observations, is_first = self.observed.tensors(observation), th.ones(1, dtype=th.bool, device=self.device)
        actions, _ = self.step(observations, self.start(1), is_first, deterministic)
        return th.as_tensor(self.actions.to_env(actions))


def masked(distributions: Mapping[str, ActionDistribution], masks: th.Tensor) -> dict[str, ActionDistribution]:
    """Returns choices of legal classes only, by flat masks ``(n, A)``; where none is legal, of the first.

    Raises `ValueError` for masks of another width, and for actions that are numbers.
    """
    logits = {key: each.logits for key, each in sorted(distributions.items()) if isinstance(each, Choices)}
    widths = [each.shape[1:].numel() for each in logits.values()]
    if len(logits) < len(distributions) or masks.shape[1] != sum(widths):
        raise ValueError(f"masks of {masks.shape[1]} entries do not fit actions of {sum(widths)} choices")
    allowed: dict[str, ActionDistribution] = {}
    for part, (key, each) in zip(th.split(masks, widths, 1), logits.items(), strict=True):
        legal = part.reshape(each.shape).clone()
        legal[..., 0] |= ~legal.any(-1)
        allowed[key] = Choices(each.masked_fill(~legal, -1e9))
    return allowed
