"""How the fights of an environment are set up: the arguments that all environments share, checked once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import InstanceOf

from sb3_pvp.common.arguments import Flag, Kind, OptionalMapping, PositiveInt, checked
from sb3_pvp.common.checks import check_frame_ages
from sb3_pvp.common.names import require_all_known
from sb3_pvp.contract import Contract
from sb3_pvp.game import Rewards, World, WorldFactory, contract_of, game_and_contract, game_reference, make_world
from sb3_pvp.opponents.opponents import OpponentLike, as_choice, make_opponent
from sb3_pvp.simple_game import OutcomeRewards

DEFAULT_MAX_EPISODE_TICKS = 2000  #: Real fights end far earlier; two fighters that do nothing never end theirs.
_CONTRACT = Kind[Any](str | Path | InstanceOf[Contract] | None, "a Contract, its name or file")


@dataclass(frozen=True)
class FightSettings:
    """How the fights of an environment are set up. Raises `ValueError` for anything unknown or out of range.

    Attributes:
        opponent: ``"baseline"`` (the world's own bot), ``"noop"`` or another script of the game; the path of a model's
            zip file, or a model of MaskablePPO as it is now; ``"league:FOLDER"``: in each episode another player of a
            league; in `PvpVecEnv` also ``"self"``; an `Opponent`; or an `OpponentChoice`, which also says how it plays.
        world: ``"sim"``; another place that the game knows, such as a server's address; or a factory
            (`sb3_pvp.game.make_world`).
        reset_params: how fights start, under the game's own names.
        rewards: changes to the weights of the game's rewards (`sb3_pvp.game.Rewards.weights`), numbers or schedules.
        frame_ages: frames to stack, in ticks before the newest one, e.g. ``(0, 2)``; ``3`` stands for ``(0, 1, 2)``.
        death_match: false: the fight may end in a tie before anybody has lost, in games that know such an end.
        max_episode_ticks: longer fights are truncated (outcome ``"timeout"``); ``None``: never.
        noise: what is added to the learner's own observations (`sb3_pvp.opponents.seat_views.ObservationNoise`), e.g.
            ``{"adders": [{"indices": ["0:9"], "value": {"type": "expression", "expression": "normal(0, 0.1)"}}]}``.
        action_mask_override: what the learner may not do whatever the world says, e.g. ``{"forbid": [id]}``, or a
            schedule of arrays (`sb3_pvp.opponents.seat_views.ActionMaskOverride`).
        contract: another way to say what is played, by the name of the game's contract; or the contract of a factory's
            worlds, if it does not bring its own.
        episode_statistics: at the end of a fight ``info`` has statistics of all its ticks (`EpisodeStatistics`).
        game: what is played: a `sb3_pvp.game.Game`, its name or ``module:object``; here it is the game then.
    """

    opponent: OpponentLike = "baseline"
    world: str | WorldFactory = "sim"
    reset_params: OptionalMapping = None
    rewards: Any = None
    frame_ages: Any = (0,)
    death_match: Flag = True
    max_episode_ticks: PositiveInt | None = DEFAULT_MAX_EPISODE_TICKS
    noise: OptionalMapping = None
    action_mask_override: Any = None
    contract: Annotated[Any, _CONTRACT] = None
    episode_statistics: Flag = False
    game: Any = None

    @classmethod
    def of(cls, home: str | None, *others: str, **arguments: Any) -> FightSettings:
        """Those of an environment, which has ``others`` as well; ``home`` is its game if nobody says another one."""
        require_all_known("argument of an environment", arguments, [*(each.name for each in fields(cls)), *others])
        given = {**arguments, "game": home if arguments.get("game") is None else arguments["game"]}
        if home is None and not (given["game"] or given.get("contract") or callable(given.get("world"))):
            raise ValueError("which game is played? Say game=, a name or module:object")
        return cls(**given)

    def __post_init__(self) -> None:
        if not isinstance(self.game, str | type | None) and not hasattr(self.game, "make_world"):
            raise ValueError(f"game must be a sb3_pvp.game.Game, its name or module:object, got {self.game!r}")
        game, contract = game_and_contract(self.game, self.contract)
        vars(self).update(game=game, contract=contract)  # past the lock of a frozen dataclass
        if not callable(self.world):
            game.check_place(self.world)
        make_opponent(as_choice(self.opponent).opponent, self.played, game)
        rewards, frame_ages = self.scoring.weights(self.rewards), check_frame_ages(self.frame_ages)
        vars(self).update(reset_params=dict(self.reset_params or {}), rewards=rewards, frame_ages=frame_ages)

    @property
    def played(self) -> Contract:
        """The contract of the fights."""
        return contract_of(self.world, self.contract)

    @property
    def scoring(self) -> Rewards:
        """What computes rewards."""
        return self.game.rewards or OutcomeRewards()

    def make_world(self, num_fights: int) -> World:
        """A world for so many fights."""
        return make_world(self.game, self.world, num_fights, reset_params=self.reset_params, contract=self.contract)

    @property
    def kind_of_fights(self) -> dict[str, Any] | None:
        """What is fought, for more of that elsewhere; ``None`` in a world of the user's own, which says too little."""
        known = isinstance(self.world, str)
        return {"game": game_reference(self.game), "reset_params": self.reset_params} if known else None


FightSettings.__init__ = checked(FightSettings.__init__)  # type: ignore[method-assign]
