"""The settings that `NhEnv` and `NhVecEnv` share, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sb3_pvp.common.checks import check_frame_ages
from sb3_pvp.contract import Contract
from sb3_pvp.game import Rewards, World, WorldFactory, contract_of, game_and_contract, make_world
from sb3_pvp.opponents.opponents import OpponentChoice, OpponentLike, as_choice, make_opponent
from sb3_pvp.simple_game import OutcomeRewards

#: Twenty minutes of game time. Real fights end far earlier; two fighters that do nothing never end theirs.
DEFAULT_MAX_EPISODE_TICKS = 2000


def told_game(game: Any, contract: Any, world: Any, home: str | None) -> Any:
    """The game that was asked for, ``home`` if none was; raises `ValueError` if that is none as well.

    A factory of worlds may be all that is told: its worlds are those of the first edition.
    """
    if game is None and contract is None and home is None and not callable(world):
        raise ValueError("which game is played? Say game=, a name or module:object, such as game='NhEnv'")
    return home if game is None else game


@dataclass(frozen=True)
class FightSettings:
    """How the fights of an environment are set up. Raises `ValueError` for anything unknown or out of range.

    Attributes:
        opponent: see `sb3_pvp.opponents.opponents.OpponentLike`; or an `OpponentChoice`.
        world: ``"sim"``, an address ``"rsps://host:port"`` or a factory (`sb3_pvp.game.make_world`).
        reset_params: how fights start, under the names of the wire (protocol.md §3).
        rewards: the weights of the game's rewards; a mapping changes some of its defaults.
        frame_ages: which frames are stacked, in ticks before the newest; or how many, from the newest on.
        death_match: false: a fight ends in a tie as soon as one side has no food (protocol.md §6.3).
        max_episode_ticks: a longer fight is truncated; ``None``: never.
        noise: what is added to the learner's own observations, see `sb3_pvp.opponents.sight.ObservationNoise`.
        action_mask_override: what the learner may never do, see `sb3_pvp.opponents.sight.ActionMaskOverride`.
        game: what is played: a `sb3_pvp.game.Game`, its name or ``module:object``; here it is the game then.
        contract: another way to say that, by the name of the game's contract; or the contract of a factory's worlds,
            if it does not bring its own.
        episode_statistics: whether the end of a fight tells statistics of all its ticks (`EpisodeStatistics`).
    """

    opponent: OpponentLike | OpponentChoice = "baseline"
    world: str | WorldFactory = "sim"
    reset_params: Mapping[str, Any] = field(default_factory=dict)
    rewards: Any = None
    frame_ages: int | Iterable[int] = (0,)
    death_match: bool = True
    max_episode_ticks: int | None = DEFAULT_MAX_EPISODE_TICKS
    noise: Mapping[str, Any] | None = None
    action_mask_override: Any = None
    contract: Any = None
    episode_statistics: bool = False
    game: Any = None

    def __post_init__(self) -> None:
        game, contract = game_and_contract(self.game, self.contract)
        object.__setattr__(self, "game", game)
        object.__setattr__(self, "contract", contract)
        if not callable(self.world):
            game.check_place(self.world)
        make_opponent(as_choice(self.opponent).opponent, self.played, game)
        limit = self.max_episode_ticks
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise ValueError(f"max_episode_ticks must be a positive integer or None, got {limit!r}")
        for name in ("death_match", "episode_statistics"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.reset_params is not None and not isinstance(self.reset_params, Mapping):
            raise ValueError(f"reset_params must be a mapping, got {self.reset_params!r}")
        object.__setattr__(self, "reset_params", dict(self.reset_params or {}))
        object.__setattr__(self, "rewards", self.scoring.weights(self.rewards))
        object.__setattr__(self, "frame_ages", check_frame_ages(self.frame_ages))

    @property
    def played(self) -> Contract:
        """The contract of the fights."""
        return contract_of(self.world, self.contract)

    @property
    def scoring(self) -> Rewards:
        """What computes rewards."""
        rewards: Rewards | None = self.game.rewards
        return rewards or OutcomeRewards()

    def make_world(self, num_fights: int) -> World:
        """A world for so many fights."""
        return make_world(self.game, self.world, num_fights, reset_params=self.reset_params, contract=self.contract)

    @property
    def kind_of_fights(self) -> dict[str, Any] | None:
        """The ``contract``'s name and ``reset_params``, for fights of this kind elsewhere; ``None`` if the world is the
        user's own, of which that says too little."""
        if not isinstance(self.world, str):
            return None
        return {"contract": self.played.name, "reset_params": self.reset_params}
