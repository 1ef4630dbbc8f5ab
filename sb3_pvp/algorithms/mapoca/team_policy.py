"""`MAPOCAPolicy`: the networks of MA-POCA as a policy of SB3, which acts for all agents of a team at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule

from sb3_pvp.algorithms.mapoca.team_networks import TeamNetworks
from sb3_pvp.game.contract import Contract, load_contract
from sb3_pvp.policies.agent_slots import AgentActions, AgentSlots, kinds_of, team_of
from sb3_pvp.policies.features import NormalizedFeatures, checked_observation, flat_masks
from sb3_pvp.policies.files.team_description import TeamDescription, team_values
from sb3_pvp.policies.heads import DependencyRules
from sb3_pvp.policies.networks import LEAST_ROWS_OF_LINEAR, filled


class MAPOCAPolicy(MaskableActorCriticPolicy):
    """One actor for every agent of a team, on its own observation, and a critic that sees all of them.

    It needs a game whose contract has agents; others play as one large agent, with a warning.

    Args:
        contract: name, file or `Contract` of the game; `MAPOCA` takes that of its environments.
        shared: whether one actor plays all agents, which then have to be alike; ``False``: each agent has an actor and
            a place in the critic of its own; ``"kinds"``: agents of equal sizes share them.
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
        action_space: spaces.MultiDiscrete | spaces.Box,
        lr_schedule: Schedule,
        *,
        contract: str | Contract,
        shared: bool | Literal["kinds"] = True,
        net_arch: Sequence[int] = (128, 128),
        optimizer_class: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
    ) -> None:
        names = {"contract", *(MAPOCAPolicy.__init__.__kwdefaults__ or ())}
        self._arguments: dict[str, Any] = {name: value for name, value in locals().items() if name in names}
        self.contract = load_contract(contract)
        self.shared = shared
        if not net_arch or {*net_arch} != {net_arch[0]} or net_arch[0] % 4:
            raise ValueError(
                f"net_arch of MAPOCAPolicy is a list of equal multiples of 4, such as [128, 128], got {net_arch}"
            )
        self.hidden_layers, self._given_space = (net_arch[0], len(net_arch)), action_space
        super().__init__(
            observation_space,
            spaces.MultiDiscrete([*self.contract.head_sizes]),  # sb3-contrib has none for numbers
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
        self.num_features = features.num_frames * contract.num_observations
        self.action_space = self._given_space
        if contract.action_space != self.action_space or features.num_public != self.num_features:
            raise ValueError(f"the contract {contract.name} does not fit the environment's spaces: pass the game's own")
        self.team_contract = team_of(contract)
        self.slots = AgentSlots(self.team_contract, features.num_frames, kinds_of(self.team_contract, self.shared))
        actions, kinds = AgentActions(self.slots.continuous, self.slots.branches), self.slots.sizes
        self.networks = TeamNetworks(self.slots.width, actions, *self.hidden_layers, kinds)
        self.rules = DependencyRules(contract.head_sizes, contract.dependencies)
        self.optimizer = self.optimizer_class(self.networks.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)  # type: ignore[call-arg]

    @property
    def head_sizes(self) -> tuple[int, ...]:
        """The number of sub-actions of each head of the seat: `act` takes a random number for each of them."""
        return self.rules.head_sizes

    def team(self, obs: PyTorchObs) -> tuple[th.Tensor, th.Tensor]:
        """Returns what each agent sees ``(batch, agents, size)`` and who is in the game, bool ``(batch, agents)``."""
        features = self.extract_features(obs, self.features_extractor)
        assert isinstance(features, th.Tensor)
        return self.slots.observations(features[:, : self.num_features])

    @th.no_grad()
    def act(
        self, obs: PyTorchObs, deterministic: bool = False, action_masks: Any = None, uniforms: th.Tensor | None = None
    ) -> tuple[th.Tensor, th.Tensor]:
        """Returns legal actions of the seat ``(batch, heads)``, and their log-probabilities ``(batch,)``.

        Each agent's are by what it sees itself. ``uniforms``, float32 ``(batch, heads)``, are used in place of drawn
        numbers from [0, 1); a negative one selects the most likely entry, as ``deterministic`` does for all heads.
        """
        masks = self._masks(obs, action_masks)
        shape = len(masks), len(self.head_sizes)
        if deterministic or uniforms is None:  # the random stream stays where it is if nothing is drawn
            uniforms = th.full(shape, -1.0) if deterministic else th.rand(shape)
        return self.decide(self.team(obs)[0], masks, uniforms)

    @th.no_grad()
    def decide(self, seen: th.Tensor, masks: th.Tensor, uniforms: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Does `act` by what each agent sees, see `team`, flat masks and random numbers."""
        # As many rows at least as make each one's action the same whatever the others are.
        actor, rows = self.networks.actor, filled(seen, LEAST_ROWS_OF_LINEAR)
        outputs = actor.output(actor.body(rows))[: len(seen)]
        return self.slots.decide(outputs, actor.log_std, masks, uniforms, self.rules)

    def describe(self) -> tuple[type[TeamDescription], dict[str, Any]]:
        """Returns what `sb3_pvp.policies.files.description.describe` needs to know of it."""
        return team_values(self)

    def legal(self, obs: PyTorchObs, actions: th.Tensor, action_masks: Any = None) -> th.Tensor:
        """Returns which entries masks and rules allow, given actions, bool ``(batch, agents, entries of an agent)``."""
        masks = self._masks(obs, action_masks).contiguous()
        choices = self.slots.choices(actions)
        return self.slots.masks(self.rules.legal(masks, choices, compiled=masks.device.type == "cpu"))

    def forward(
        self, obs: PyTorchObs, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Returns actions ``(batch, heads)``, values ``(batch, 1)`` and log-probabilities of the team ``(batch,)``."""
        actions, log_probs = self.act(obs, deterministic, action_masks)
        return actions, self.predict_values(obs), log_probs

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
        observation = checked_observation(observation, self.observation_space, action_masks)
        return super().predict(observation, state, episode_start, deterministic, action_masks)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False, action_masks: Any = None) -> th.Tensor:
        if self.team(observation)[0].isnan().any():
            raise ValueError("the observation is NaN: no action can be chosen")
        return self.act(observation, deterministic, action_masks)[0]

    def _masks(self, obs: PyTorchObs, action_masks: Any) -> th.Tensor:
        return flat_masks(obs, action_masks, self.rules.num_flat, self.device)
