"""`FightSettings`: the arguments that all environments share, validated once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sb3_pvp.common.arguments import FLAG, MAPPING, POSITIVE, check_frame_ages
from sb3_pvp.common.errors import require_all_known
from sb3_pvp.game import Rewards, World, WorldFactory, contract_of, game_and_contract, game_reference, make_world
from sb3_pvp.game.arrays import OutcomeRewards
from sb3_pvp.game.contract import Contract
from sb3_pvp.players.opponents import OpponentLike, as_choice, make_opponent

#: For games without a limit of their own: far more than a fight takes, but two passive fighters would never end theirs.
DEFAULT_MAX_EPISODE_TICKS = 2000
AUTO = "auto"  #: The game's limit, or else the default one.

RENDER_MODES = ("ansi", "human", "rgb_array")


@dataclass(frozen=True)
class FightSettings:
    """How the fights of an environment are set up. Raises `ValueError` for anything unknown or out of range.

    Attributes:
        opponent: ``"baseline"`` (the world's own bot), ``"noop"`` or another script of the game; the name of a fighter
            that ships; the path of a model's zip file, or a MaskablePPO model, which then plays as it currently is;
            ``"league:FOLDER"``: a player of that league, sampled anew for each episode; ``"self"`` (`PvpVecEnv` only);
            ``"team:A,B"``: a team whose agents are played by these opponents; an `Opponent`; or an `OpponentChoice`,
            which also sets how it plays.
        world: ``"sim"``; another place that the game supports, such as a server's address; or a factory
            (`sb3_pvp.game.make_world`).
        reset_params: how fights start; the keys are the game's.
        rewards: changes to the weights of the game's rewards (`sb3_pvp.game.Rewards.weights`), numbers or schedules.
        frame_ages: frames to stack, in ticks before the newest one, e.g. ``(0, 2)``; ``3`` stands for ``(0, 1, 2)``.
        death_match: if false, the fight may end in a tie before either side has lost, in games with such a rule.
        max_episode_ticks: longer fights are truncated (outcome ``"timeout"``); ``None``: no limit; ``"auto"``: the
            game's own limit, or 2000 if it has none.
        noise: noise on the learner's own observations (`sb3_pvp.players.seats.ObservationNoise`), e.g.
            ``{"adders": [{"indices": ["0:9"], "value": {"type": "expression", "expression": "normal(0, 0.1)"}}]}``.
        action_mask_override: actions that are always masked for the learner, e.g. ``{"forbid": [id]}``, or a schedule
            of arrays (`sb3_pvp.players.seats.ActionMaskOverride`).
        aversions: actions that the learner avoids in a share of its fights, to degrees drawn for each fight, so
            that self-play learns to see it, e.g. ``{"actions": [id, ...], "share": 0.3}``
            (`sb3_pvp.players.seats.Aversions`).
        contract: the contract of a factory's worlds, if the factory has none; or, instead of ``game``, the name of the
            contract of the game to play.
        episode_statistics: whether the ``info`` of a fight's end has statistics of all its ticks (`EpisodeStatistics`).
        game: the game to play: a `sb3_pvp.game.Game`, its name or ``module:object``; the attribute is always the game.
    """

    opponent: OpponentLike = "baseline"
    world: str | WorldFactory = "sim"
    reset_params: Mapping[str, Any] | None = None
    rewards: Any = None
    frame_ages: Any = (0,)
    death_match: bool = True
    max_episode_ticks: Any = AUTO
    noise: Mapping[str, Any] | None = None
    action_mask_override: Any = None
    aversions: Mapping[str, Any] | None = None
    contract: Any = None
    episode_statistics: bool = False
    game: Any = None

    @classmethod
    def from_arguments(cls, home: str | None, *others: str, **arguments: Any) -> FightSettings:
        """Makes settings from the keyword arguments of an environment, whose default game is ``home``.

        ``others`` are the names of its further arguments, for the hint about a misspelled name.
        """
        require_all_known("argument of an environment", arguments, [*(each.name for each in fields(cls)), *others])
        given = {**arguments, "game": home if arguments.get("game") is None else arguments["game"]}
        if home is None and not (given["game"] or given.get("contract") or callable(given.get("world"))):
            raise ValueError("which game is played? Pass game=, a name or module:object")
        return cls(**given)

    def __post_init__(self) -> None:
        MAPPING.check(reset_params=self.reset_params, noise=self.noise, aversions=self.aversions)
        FLAG.check(death_match=self.death_match, episode_statistics=self.episode_statistics)
        game, contract = game_and_contract(self.game, self.contract)
        ticks, ages = self.max_episode_ticks, check_frame_ages(self.frame_ages)
        ticks = (game.max_episode_ticks or DEFAULT_MAX_EPISODE_TICKS) if ticks == AUTO else ticks
        ticks = None if ticks is None else POSITIVE.read("max_episode_ticks", ticks)
        # A frozen dataclass does not allow assignments.
        vars(self).update(game=game, contract=contract, max_episode_ticks=ticks, frame_ages=ages)
        vars(self).update(reset_params=dict(self.reset_params or {}), rewards=self.game_rewards.weights(self.rewards))
        if not callable(self.world):
            game.check_place(self.world)
        # Only to refuse it here if it cannot play.
        make_opponent(as_choice(self.opponent).opponent, self.world_contract, game)

    @property
    def world_contract(self) -> Contract:
        """The contract of the fights."""
        return contract_of(self.world, self.contract)

    @property
    def game_rewards(self) -> Rewards:
        """The rewards of the game; +1, -1 and 0 for won, lost and tied fights if it has none."""
        return self.game.rewards or OutcomeRewards()

    def make_world(self, num_fights: int) -> World:
        """Makes a world that runs ``num_fights`` fights."""
        return make_world(self.game, self.world, num_fights, reset_params=self.reset_params, contract=self.contract)

    @property
    def match_settings(self) -> dict[str, Any] | None:
        """The game and its reset parameters as plain values, which a ``SubprocVecEnv`` can send; ``None`` for a world
        factory, which has no name."""
        known = isinstance(self.world, str)
        return {"game": game_reference(self.game), "reset_params": self.reset_params} if known else None


def check_render_mode(render_mode: str | None) -> str | None:
    """Returns the mode; `TypeError` for others, on which SB3's ``make_vec_env`` tries again without ``"rgb_array"``."""
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise TypeError(f"unknown render_mode {render_mode!r} (known: None, {', '.join(map(repr, RENDER_MODES))})")
    return render_mode
