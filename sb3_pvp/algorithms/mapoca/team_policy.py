"""`MAPOCAPolicy`: the networks of MA-POCA as a policy of SB3, which acts for all agents of a team at once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule

from sb3_pvp.algorithms.mapoca.team_networks import AgentActions, TeamNetworks
from sb3_pvp.common.arguments import check_mask
from sb3_pvp.game.contract import Agent, Contract, load_contract
from sb3_pvp.policies.features import ACTION_MASK, NormalizedFeatures, complete_observation
from sb3_pvp.policies.heads import DependencyRules


class MAPOCAPolicy(MaskableActorCriticPolicy):
    """One actor for every agent of a team, on its own observation, and a critic that sees all of them.

    It needs a game whose contract has agents of equal sizes; others play as one large agent, with a warning.

    Args:
        contract: name, file or `Contract` of the game; `MAPOCA` takes that of its environments.
        net_arch: sizes of the hidden layers, all equal, of actor and critic.
        optimizer_class: as in SB3.
        optimizer_kwargs: as in SB3; the default is Adam with ``eps=1e-8``.

    Raises `ValueError` if an argument is not supported, or the contract does not fit the spaces.
    """

    networks: TeamNetworks
    optimizer: th.optim.Optimizer

    def __init__(
        self,
        observation_space: spaces.Space,  # type: ignore[type-arg]
        action_space: spaces.MultiDiscrete,
        lr_schedule: Schedule,
        *,
        contract: str | Contract,
        net_arch: Sequence[int] = (128, 128),
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        names = MAPOCAPolicy.__init__.__kwdefaults__ or ()
        self._arguments: dict[str, Any] = {name: value for name, value in locals().items() if name in names}
        self.contract = load_contract(contract)
        self.agents = agents_of(self.contract)
        if not net_arch or {*net_arch} != {net_arch[0]} or net_arch[0] % 4:
            raise ValueError(
                f"net_arch of MAPOCAPolicy is a list of equal multiples of 4, such as [128, 128], got {net_arch}"
            )
        self.hidden_layers = net_arch[0], len(net_arch)
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch=[],
            features_extractor_class=NormalizedFeatures,
            features_extractor_kwargs={"normalize": False},
            optimizer_class=optimizer_class,
            optimizer_kwargs={"eps": 1e-8} if optimizer_kwargs is None else optimizer_kwargs,
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        space = {"observation_space": self.observation_space, "action_space": self.action_space}
        return space | {"lr_schedule": self._dummy_schedule} | self._arguments

    def _build(self, lr_schedule: Schedule) -> None:
        """Builds the networks and the optimiser in place of SB3's MLPs."""
        contract, features = self.contract, self.features_extractor
        assert isinstance(features, NormalizedFeatures)
        self.num_frames, seen = features.num_frames, contract.num_observations
        if contract.action_space != self.action_space or features.num_public != self.num_frames * seen:
            raise ValueError(f"the contract {contract.name} does not fit the environment's spaces: pass the game's own")
        self.num_agents = len(self.agents)
        self.team_heads = self.num_agents, contract.num_heads // self.num_agents
        sizes = contract.head_sizes[: self.team_heads[1]]
        self.networks = TeamNetworks(
            features.num_public // self.num_agents, AgentActions(branches=sizes), *self.hidden_layers
        )
        self.rules = DependencyRules(contract.head_sizes, contract.dependencies)
        self.has_rules = any(table.any() for table in vars(contract.dependencies).values())
        self.optimizer = self.optimizer_class(self.networks.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]

    def team(self, obs: PyTorchObs) -> tuple[th.Tensor, th.Tensor]:
        """Returns what each agent sees ``(batch, agents, size)`` and who is in the game, bool ``(batch, agents)``."""
        features = self.extract_features(obs, self.features_extractor)
        assert isinstance(features, th.Tensor)
        frames = features[:, : self.num_frames * self.contract.num_observations]
        frames = frames.reshape(len(frames), self.num_frames, self.num_agents, -1)
        columns = [self.contract.observation_index(each.active) if each.active else -1 for each in self.agents]
        newest = frames[:, 0].flatten(1)
        # A column of ones for agents that are never out of the game.
        present = th.cat([newest, newest.new_ones(len(newest), 1)], 1)[:, columns] != 0
        return frames.transpose(1, 2).flatten(2), present

    @th.no_grad()
    def act(
        self, obs: PyTorchObs, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Returns actions, int ``(batch, heads)``, their log-probabilities ``(batch, agents, heads of an agent)``, and
        which entries masks and rules have left, bool ``(batch, agents, entries of an agent)``."""
        observations, _ = self.team(obs)
        masks, actor, batch = self._masks(obs, action_masks), self.networks.actor, len(observations)
        latent, joint = actor.body(observations), th.zeros(batch, *self.team_heads, dtype=th.long, device=self.device)
        # Rules go from earlier heads to later ones: with them, each pass settles one more head of every agent.
        for head in range(self.team_heads[1] if self.has_rules else 1):
            legal = self.rules.legal(masks, joint.flatten(1), compiled=False).reshape(batch, self.num_agents, -1)
            joint[..., head:] = actor.sample(latent, legal, deterministic)[..., head:].long()
        return joint.flatten(1), actor.evaluate(latent, joint, legal)[0], legal

    def forward(
        self, obs: PyTorchObs, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Returns actions ``(batch, heads)``, values ``(batch, 1)`` and log-probabilities of the team ``(batch,)``."""
        actions, log_probs, _ = self.act(obs, deterministic, action_masks)
        return actions, self.predict_values(obs), log_probs.sum((1, 2))

    def predict_values(self, obs: PyTorchObs) -> th.Tensor:
        """Returns V of the team ``(batch, 1)``."""
        value: th.Tensor = self.networks.critic(*self.team(obs))
        return value[:, None]

    def predict(
        self,
        observation: NDArray[Any] | dict[str, NDArray[Any]],
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Returns legal actions of the whole team, as `sb3_pvp.policies.AutoregressivePolicy.predict` does."""
        if isinstance(self.observation_space, spaces.Dict):
            observation = complete_observation(observation, self.observation_space, action_masks is not None)
        seen = observation.get(ACTION_MASK, True) if isinstance(observation, dict) else True
        check_mask(seen if action_masks is None else action_masks)
        return super().predict(observation, state, episode_start, deterministic, action_masks)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False, action_masks: Any = None) -> th.Tensor:
        if self.team(observation)[0].isnan().any():
            raise ValueError("the observation is NaN: no action can be chosen")
        return self.act(observation, deterministic, action_masks)[0]

    def _masks(self, obs: PyTorchObs, action_masks: Any) -> th.Tensor:
        """Returns flat masks, bool ``(batch, A)``: those given, else those in the observation, else all true."""
        if action_masks is None and isinstance(obs, dict):
            action_masks = obs.get(ACTION_MASK)
        batch = len(obs if isinstance(obs, th.Tensor) else next(iter(obs.values())))
        masks = th.as_tensor(True if action_masks is None else action_masks, device=self.device).bool()
        return masks.expand(batch, self.rules.num_flat)


def agents_of(contract: Contract) -> tuple[Agent, ...]:
    """Returns the agents of a contract, or all of it as one; `ValueError` if they cannot share weights."""
    if not contract.agents:
        warnings.warn(f"{contract.name} has no agents: MAPOCA takes each side as one large agent", stacklevel=2)
        return (Agent("team", (0, contract.num_observations), (0, contract.num_heads)),)
    if not contract.shared_weights:
        raise ValueError(f"the agents of {contract.name} do not share weights, but those of MAPOCA do")
    return contract.agents
