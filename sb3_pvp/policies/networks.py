"""The parts of a policy's network: what it sees, and separate towers for actor and critic."""

from __future__ import annotations

import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, create_mlp
from torch import nn

from sb3_pvp.policies.normalization import RunningNormalizer

OBSERVATION, PRIVILEGED, ACTION_MASK = "observation", "privileged", "action_mask"


class NormalizedObservation(BaseFeaturesExtractor):
    """Flattens and normalises ``observation``, followed by ``privileged`` if there is one; the mask is no feature."""

    def __init__(self, observation_space: spaces.Dict) -> None:
        self.keys = [key for key in (OBSERVATION, PRIVILEGED) if key in observation_space.spaces]
        sizes = [spaces.flatdim(observation_space[key]) for key in self.keys]
        super().__init__(observation_space, sum(sizes))
        self.num_public = sizes[0]
        self.normalizer = RunningNormalizer(sum(sizes))

    def flatten(self, observations: dict[str, th.Tensor]) -> th.Tensor:
        """Raw features ``(batch, features_dim)``, public ones first."""
        return th.cat([observations[key].flatten(1).float() for key in self.keys], 1)

    def forward(self, observations: dict[str, th.Tensor]) -> th.Tensor:
        """Normalised features ``(batch, features_dim)``."""
        normalized: th.Tensor = self.normalizer(self.flatten(observations))
        return normalized


class ActorCriticTowers(nn.Module):
    """Separate networks: the actor sees the first ``num_public`` features, the critic sees all of them."""

    def __init__(
        self, num_public: int, num_features: int, net_arch: dict[str, list[int]], activation: type[nn.Module]
    ) -> None:
        super().__init__()
        self.num_public = num_public
        self.actor = nn.Sequential(*create_mlp(num_public, -1, net_arch["pi"], activation))
        self.critic = nn.Sequential(*create_mlp(num_features, -1, net_arch["vf"], activation))
        self.latent_dim_pi = (num_public, *net_arch["pi"])[-1]
        self.latent_dim_vf = (num_features, *net_arch["vf"])[-1]

    def forward(self, features: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Latents of actor and critic."""
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: th.Tensor) -> th.Tensor:
        """The actor's latent ``(batch, latent_dim_pi)``."""
        latent: th.Tensor = self.actor(features[:, : self.num_public])
        return latent

    def forward_critic(self, features: th.Tensor) -> th.Tensor:
        """The critic's latent ``(batch, latent_dim_vf)``."""
        latent: th.Tensor = self.critic(features)
        return latent
