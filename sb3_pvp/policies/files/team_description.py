"""Plain descriptions of policies whose agents act on their own, as those of MAPOCA, see `Description`."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any, ClassVar, Literal

from gymnasium import spaces
from pydantic import BaseModel, ConfigDict, Field
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from sb3_pvp.common.arguments import NonNegativeInt
from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction
from sb3_pvp.policies.agent_slots import filled_up, kinds_of
from sb3_pvp.policies.features import OBSERVATION
from sb3_pvp.policies.files.description import Description
from sb3_pvp.policies.networks import Layer, Layers

_MAX_SEEN = 1 << 18  #: Numbers that all agents see together, each filled up to the largest.


class DescribedAgent(BaseModel):
    """An agent by half-open ranges of positions, see `sb3_pvp.game.contract.Agent`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    observations: tuple[NonNegativeInt, NonNegativeInt]
    heads: tuple[NonNegativeInt, NonNegativeInt]
    active: NonNegativeInt | None = None  #: The position of that observation which is 0 while it is out of the game.


class TeamDescription(Description):
    """A policy of MAPOCA in plain values; ``actor`` and ``critic`` are the hidden layers of both."""

    algorithm: ClassVar[str] = "MAPOCA"
    policy: Literal["MAPOCAPolicy"]  # type: ignore[assignment]
    agents: Annotated[tuple[DescribedAgent, ...], Field(min_length=1)]
    numbers: tuple[NonNegativeInt, ...] = ()  #: The positions of the heads that are numbers.
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

    @property
    def action_space(self) -> spaces.MultiDiscrete | spaces.Box:
        """A new action space."""
        return self._made_up().action_space

    def arguments(self) -> dict[str, Any]:
        """Implements `Description.arguments`; without the game its contract has made-up names, and no rules."""
        contract = None if self.contract is None else self.contract.find()
        sizes = [layer.size for layer in self.actor]
        return {"net_arch": sizes, "shared": self.shared, "contract": contract or self._made_up()}

    def check(self, weight_bytes: int) -> None:
        """Implements `Description.check`."""
        ends = [each.observations[1] for each in self.agents]
        if max(ends) > _MAX_SEEN or len(ends) * self._widest() > _MAX_SEEN:
            raise ValueError(f"its description is too large: its agents see more than {_MAX_SEEN} numbers")
        if any(each.active is not None and each.active >= max(ends) for each in self.agents):
            raise ValueError("its description is wrong: an agent is active by a number that nobody sees")
        if any(self.head_sizes[head : head + 1] != (1,) for head in self.numbers):
            raise ValueError("its description is wrong: a head that is a number has one entry")
        if not self.actor or {*self.actor} != {Layer(size=self.actor[0].size)}:
            raise ValueError("its description is wrong: the hidden layers of a team's networks are all of one size")
        super().check(weight_bytes)

    def _frames(self) -> int:
        total = prod(self.observation[OBSERVATION].shape) if OBSERVATION in self.observation else 0
        return max(total // max(self.agents[-1].observations[1], 1), 1)

    def _widest(self) -> int:
        """Returns what each agent sees in all frames, filled up to the largest."""
        return self._frames() * max(end - begin for begin, end in (agent.observations for agent in self.agents))

    def _made_up(self) -> Contract:
        heads = tuple(
            Head(f"head_{head}", "", number=True)
            if head in self.numbers
            else Head(f"head_{head}", "", tuple(SubAction(f"{head}_{entry}", "") for entry in range(size)))
            for head, size in enumerate(self.head_sizes)
        )
        ids = [f"seen_{number}" for number in range(self.agents[-1].observations[1])]
        agents = [
            Agent(f"agent_{number}", each.observations, each.heads, None if each.active is None else ids[each.active])
            for number, each in enumerate(self.agents)
        ]
        return Contract("team", heads, tuple(Observation(each, "") for each in ids), tuple(agents), self.shared is True)

    def _num_weights(self, sizes: Mapping[str, int], flat: int) -> int:
        contract = self._made_up()
        kinds = kinds_of(contract, self.shared)  # raises if the agents do not divide the seat
        seen_by = (end - begin for begin, end in (each.observations for each in self.agents))
        by_kind = dict(zip(kinds, seen_by, strict=True))
        entries = sum(filled_up(contract)[1])
        hidden, seen, count = self.actor[0].size, self._frames() * sum(by_kind.values()), len(by_kind)
        # Of each kind an actor and two embeddings, of which one sees actions, filled up; then the rest of the critic.
        embedded = 2 * seen + count * (self._widest() + 2 * entries)
        layers = (count * (len(self.actor) - 1) + len(self.actor) + 4) * hidden
        return (embedded + layers) * hidden + (2 * flat**2 if len(self.head_sizes) > 1 else 0)


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
    return TeamDescription, {
        "policy": "MAPOCAPolicy",
        "agents": agents,
        "shared": policy.shared,
        "numbers": contract.numbers.tolist(),
        **layers_of,
    }
