"""The settings that `NhEnv` and `NhVecEnv` share, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sb3_pvp.contract import Contract
from sb3_pvp.envs.checks import check_frame_ages
from sb3_pvp.envs.opponent_choice import OpponentChoice, as_choice
from sb3_pvp.envs.opponents import OpponentLike, check_opponent
from sb3_pvp.envs.rewards import RewardWeights, reward_weights
from sb3_pvp.envs.worlds import WorldFactory, check_world_name, contract_of

#: Twenty minutes of game time. Real fights end far earlier; two fighters that do nothing never end theirs.
DEFAULT_MAX_EPISODE_TICKS = 2000


@dataclass(frozen=True)
class FightSettings:
    """How the fights of an environment are set up. Raises `ValueError` for anything unknown or out of range.

    Attributes:
        opponent: see `sb3_pvp.envs.opponents.OpponentLike`; or an `OpponentChoice`.
        world: ``"sim"``, an address ``"rsps://host:port"`` or a factory (`sb3_pvp.envs.worlds.make_world`).
        reset_params: how fights start, under the names of the wire (protocol.md §3).
        rewards: see `RewardWeights`; a mapping changes some of its defaults.
        frame_ages: which frames are stacked, in ticks before the newest; or how many, from the newest on.
        death_match: false: a fight ends in a tie as soon as one side has no food (protocol.md §6.3).
        max_episode_ticks: a longer fight is truncated; ``None``: never.
        noise: what is added to the learner's own observations, see `sb3_pvp.envs.noise.ObservationNoise`.
        action_mask_override: what the learner may never do, see `sb3_pvp.envs.mask_override.ActionMaskOverride`.
        contract: what is played, a contract or the name of a registered one; a factory may bring its own.
        episode_statistics: whether the end of a fight tells statistics of all its ticks (`EpisodeStatistics`).
    """

    opponent: OpponentLike | OpponentChoice = "baseline"
    world: str | WorldFactory = "sim"
    reset_params: Mapping[str, Any] = field(default_factory=dict)
    rewards: Mapping[str, Any] | RewardWeights | None = None
    frame_ages: int | Iterable[int] = (0,)
    death_match: bool = True
    max_episode_ticks: int | None = DEFAULT_MAX_EPISODE_TICKS
    noise: Mapping[str, Any] | None = None
    action_mask_override: Any = None
    contract: str | Contract = "NhEnv"
    episode_statistics: bool = False

    def __post_init__(self) -> None:
        check_world_name(self.world)
        check_opponent(as_choice(self.opponent).opponent, contract_of(self.world, self.contract))
        limit = self.max_episode_ticks
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise ValueError(f"max_episode_ticks must be a positive integer or None, got {limit!r}")
        for name in ("death_match", "episode_statistics"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.reset_params is not None and not isinstance(self.reset_params, Mapping):
            raise ValueError(f"reset_params must be a mapping, got {self.reset_params!r}")
        object.__setattr__(self, "reset_params", dict(self.reset_params or {}))
        object.__setattr__(self, "rewards", reward_weights(self.rewards))
        object.__setattr__(self, "frame_ages", check_frame_ages(self.frame_ages))

    @property
    def kind_of_fights(self) -> dict[str, Any] | None:
        """The ``contract``'s name and ``reset_params``, for fights of this kind elsewhere; ``None`` if the world is the
        user's own, of which that says too little."""
        if not isinstance(self.world, str):
            return None
        return {"contract": contract_of(self.world, self.contract).name, "reset_params": self.reset_params}
