"""Plain descriptions of policies whose agents act on their own, as those of MAPOCA, see `Description`."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction
from sb3_pvp.policies.agent_slots import kinds_of
from sb3_pvp.policies.features import OBSERVATION
from sb3_pvp.policies.files.description import Description
from sb3_pvp.policies.networks import Layer, Layers

_MAX_SEEN = 1 << 18  #: Numbers that all agents see together, each filled up to the largest.


class DescribedAgent(BaseModel):
    """An agent by half-open ranges of positions, see `sb3_pvp.game.contract.Agent`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    observations: tuple[int, int]
    heads: tuple[int, int]
    active: int | None = None  #: The position of the observation of its own that is 0 while it is out of the game.


class TeamDescription(Description):
    """A policy of MAPOCA in plain values; ``actor`` and ``critic`` are the hidden layers of both."""

    policy: Literal["MAPOCAPolicy"]  # type: ignore[assignment]
    agents: Annotated[tuple[DescribedAgent, ...], Field(min_length=1)]
    shared: bool | Literal["kinds"] = True  #: See `sb3_pvp.algorithms.mapoca.MAPOCAPolicy`.
    features: Layers = ()
    share_features_extractor: bool = False
    autoregressive: bool = False
    normalize_actions: bool = False
    normalize_observations: bool = False
    future_masks: bool = False

    @property
    def policy_class(self) -> type[MaskableActorCriticPolicy]:
        """A base of the policy's class."""
        return MaskableActorCriticPolicy

    def arguments(self) -> dict[str, Any]:
        """Implements `Description.arguments`; without the game its contract has made-up names, and no rules."""
        contract = None if self.contract is None else self.contract.find()
        sizes = [layer.size for layer in self.actor]
        return {"net_arch": sizes, "shared": self.shared, "contract": contract or self._made_up()}

    def check(self, weight_bytes: int) -> None:
        """Implements `Description.check`."""
        seen, total = [end - begin for begin, end in (agent.observations for agent in self.agents)], self._numbers()
        if len(seen) * max(seen) * max(total // max(sum(seen), 1), 1) > _MAX_SEEN:
            raise ValueError(f"its description is too large: its agents see more than {_MAX_SEEN} numbers")
        if not self.actor or {*self.actor} != {Layer(size=self.actor[0].size)}:
            raise ValueError("its description is wrong: the hidden layers of a team's networks are all of one size")
        super().check(weight_bytes)

    def _numbers(self) -> int:
        return prod(self.observation[OBSERVATION].shape) if OBSERVATION in self.observation else 0

    def _made_up(self) -> Contract:
        heads = tuple(
            Head(f"head_{head}", "", tuple(SubAction(f"{head}_{entry}", "") for entry in range(size)))
            for head, size in enumerate(self.head_sizes)
        )
        ids = [f"seen_{number}" for number in range(self.agents[-1].observations[1])]
        agents = [
            Agent(f"agent_{number}", each.observations, each.heads, None if each.active is None else ids[each.active])
            for number, each in enumerate(self.agents)
        ]
        return Contract("team", heads, tuple(Observation(each, "") for each in ids), tuple(agents), self.shared is True)

    def _num_weights(self, sizes: Mapping[str, int], flat: int) -> int:
        hidden, kinds = self.actor[0].size, {*kinds_of(self._made_up(), self.shared)}
        seen = min(end - begin for begin, end in (agent.observations for agent in self.agents))
        # Less than there are: of each kind an actor and two embeddings, then attention and layers of the critic.
        layers = len(self.actor) * hidden * hidden
        return len(kinds) * (3 * seen * hidden + layers - hidden * hidden) + 4 * hidden * hidden + layers + 2 * flat**2


def team_values(policy: Any) -> tuple[type[TeamDescription], dict[str, Any]]:
    """Returns what `sb3_pvp.policies.files.description.describe` needs to know of a `MAPOCAPolicy`."""
    size, count = policy.hidden_layers
    layers, contract = [Layer(size=size)] * count, policy.team_contract
    agents = [
        DescribedAgent(
            observations=each.observations,
            heads=each.heads,
            active=None if each.active is None else contract.observation_index(each.active),
        )
        for each in contract.agents
    ]
    layers_of = {"actor": layers, "critic": layers, "heads": [()] * contract.num_heads}
    return TeamDescription, {"policy": "MAPOCAPolicy", "agents": agents, "shared": policy.shared, **layers_of}
