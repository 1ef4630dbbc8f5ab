"""`record_fight`: plays one fight, and records scenes, actions, rewards, and the models' probabilities and values."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.arguments import check_seed
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import HOME_GAME, Game, WorldFactory, as_other_sees, find_game, game_reference
from sb3_pvp.game.contract import Contract
from sb3_pvp.matches.replay import recording
from sb3_pvp.players import opponents
from sb3_pvp.players.opponents import SELF_PLAY, WORLD_BOT, OpponentLike, is_path
from sb3_pvp.players.seats import Observation
from sb3_pvp.policies.acting import Opponent
from sb3_pvp.policies.autoregressive import probabilities_and_values
from sb3_pvp.policies.files.model_files import game_of, load
from sb3_pvp.policies.files.registry import DEFAULT, name_of
from sb3_pvp.policies.files.shipped import GRAPH, find_model


def record_fight(
    first: OpponentLike,
    second: OpponentLike = WORLD_BOT,
    *,
    seed: int = 0,
    deterministic: bool = False,
    world: str | WorldFactory = "sim",
    game: str | Game | None = None,
    **settings: Any,
) -> recording.Recording:
    """Plays one fight and returns its recording. In the embedded world the same arguments give the same recording.

    Args:
        first: a model, the path or name of one, or the name of a scripted opponent; not the world's bot.
        second: the same, or ``"self"``: the first again, or ``"baseline"``: the world's bot, whose choices are unknown.
        seed: of the fight and of the players' random numbers.
        deterministic: whether models take the most likely actions instead of sampling.
        world: ``"sim"``, the address of a server, or a factory; see `FightSettings`.
        game: by default the game that the first model was trained in, without models `HOME_GAME`.
        settings: other `FightSettings`, such as ``reset_params``, ``rewards`` or ``max_episode_ticks``.

    Raises `ValueError` for invalid arguments and games without a viewer for recordings, `FileNotFoundError` for a
    missing model, and `WorldError` if a server fails.
    """
    seed = check_seed(seed) or 0
    players = first, first if isinstance(second, str) and second == SELF_PLAY else second
    named = None if game is None else find_game(game)
    models = [_model_of(player, named) for player in players]
    if game is None and settings.get("contract") is None and isinstance(world, str):
        game = next((game_of(model) for model in models if model is not None), HOME_GAME)
    match = FightSettings(world=world, game=game, **settings)
    viewer, reference, contract = recording.viewer_of(match.game), game_reference(match.game), match.world_contract
    fighters = _make_fighters(players, models, contract, match.game)
    agents = [fighter for fighter in fighters if fighter.opponent is not None]
    # The environment stacks all frames that any player needs; each gets its own in `_play_fight`.
    ages = sorted({age for fighter in fighters for age in fighter.frame_ages})
    # Two agents play as in self-play, so that both have observations and rewards like learners.
    match = replace(match, opponent=SELF_PLAY if len(agents) > 1 else WORLD_BOT, frame_ages=ages)
    with closing(Fights(len(agents), match)) as fights:
        scenes = _play_fight(fights, viewer, agents, [each.player.name for each in fighters], seed, deterministic)
        reset_info, outcome = fights.reset_info(0), str(fights.info(0)["outcome"])
    columns = zip(*(fighter.columns(contract, len(scenes) - 1) for fighter in fighters), strict=True)
    pairs = (zip(*column, strict=True) for column in columns)
    return recording.Recording(
        contract=contract.name,
        heads=recording.heads_of(contract),
        players=(fighters[0].player, fighters[1].player),
        outcomes=(outcome, as_other_sees(outcome)),
        moments=tuple(map(recording.Moment, scenes, *pairs)),
        seed=seed,
        deterministic=deterministic,
        world=world if isinstance(world, str) else getattr(world, "__name__", type(world).__name__),
        reset_params=match.reset_params,
        build=reset_info.get("build"),
        versions={"sb3_pvp": version("sb3-pvp"), "torch": torch.__version__, "python": platform.python_version()},
        game=None if reference == contract.name else reference,
    )


def _play_fight(
    fights: Fights, viewer: Any, agents: list[RecordedFighter], names: list[str], seed: int, deterministic: bool
) -> list[Any]:
    """Plays fight 0 to its end; returns its scenes, and adds actions and rewards to the agents."""
    fights.reset(np.arange(len(agents)), [seed + row for row in range(len(agents))])
    scenes = [viewer.scene(fights.world, 0, names)]
    while not (fights.terminated[0] or fights.truncated[0]):
        actions, ages = [], fights.settings.frame_ages
        for row, agent in enumerate(agents):
            stacked = fights.observation(np.array([row]))
            own = [ages.index(age) for age in agent.frame_ages]
            frames = {key: part[0].reshape(len(ages), -1)[own] for key, part in stacked.items() if key != "action_mask"}
            seen = {**frames, "action_mask": stacked["action_mask"][0]}
            own_seed = ((row + 1) << 32) + seed  # different from the seed of the fight, and for each player
            actions.append(agent.act(seen, fights.action_masks(row), deterministic, own_seed))
        fights.step(np.stack(actions))
        for row, agent in enumerate(agents):
            agent.rewards.append(float(fights.reward[row]))
        scenes.append(viewer.scene(fights.world, 0, names))
    return scenes


@dataclass
class RecordedFighter:
    """A player, and its observations, masks, actions and rewards in every tick."""

    player: recording.RecordedPlayer  #: As the recording describes it.
    opponent: Opponent | None  #: What acts; ``None`` for the world's bot.
    model: BaseAlgorithm | None  #: Of MaskablePPO it computes probabilities and values, too.
    rewards: list[float] = field(default_factory=list)  #: Of every tick.
    _state: Any = None
    _ticks: list[tuple[Observation, NDArray[np.bool_], NDArray[np.int64]]] = field(default_factory=list)

    @property
    def frame_ages(self) -> tuple[int, ...]:
        """The ages of the frames that it needs, 0 for the newest."""
        return tuple(getattr(self.opponent, "frame_ages", (0,)))

    def act(self, seen: Observation, mask: NDArray[np.bool_], deterministic: bool, seed: int) -> NDArray[np.int64]:
        """Returns its actions ``(heads,)`` for an observation in its own frames; ``seed`` is for its first action."""
        assert self.opponent is not None
        if not self._ticks:
            self._state = self.opponent.initial_state([seed])
        # Only models have frame ages; scripts take one frame without the leading axis.
        frames = seen["observation"] if hasattr(self.opponent, "frame_ages") else seen["observation"][0]
        actions, self._state = self.opponent.predict(
            frames[np.newaxis], self._state, np.array([not self._ticks]), deterministic, mask[np.newaxis]
        )
        self._ticks.append((seen, mask, actions[0]))
        return self._ticks[-1][-1]

    def columns(self, contract: Contract, ticks: int) -> tuple[Sequence[Any], ...]:
        """Returns its decisions, outlooks and rewards for each `Moment`, from the start (0) to ``ticks``."""
        unknown: list[Any] = [None] * (ticks + 1)
        probabilities = outlooks = unknown
        if self.opponent is None:
            return unknown, unknown, unknown
        seen, masks, actions = zip(*self._ticks, strict=True)
        if self.model is not None and name_of(self.model) == DEFAULT:
            # Afterwards, and in one batch: much faster than tick by tick while the fight runs.
            observations = {key: np.stack([each[key] for each in seen]) for key in seen[0]}
            chosen = np.stack(actions), np.stack(masks)
            policy: Any = self.model.policy
            flat, values = probabilities_and_values(policy, observations, *chosen)
            probabilities = [_by_head(contract, row) for row in flat]
            predictor = getattr(self.model, "outcome_predictor", None)
            wins = unknown if predictor is None else predictor.predict(observations)["WIN"].tolist()
            # Moment t follows tick t: it has the decision of tick t, and the outlook from which tick t + 1 is decided.
            outlooks = [*map(recording.Outlook, values.tolist(), wins), None]
        decisions = map(recording.decision_of, repeat(contract), actions, masks, probabilities)
        return [None, *decisions], outlooks, [None, *self.rewards]


def _model_of(player: OpponentLike, game: Game | None) -> BaseAlgorithm | None:
    if isinstance(player, BaseAlgorithm):
        return player
    has_model = is_path(player, game) and Path(player).suffix != GRAPH
    return load(find_model(player)) if has_model else None


def _make_fighters(
    players: Sequence[OpponentLike], models: Sequence[BaseAlgorithm | None], contract: Contract, game: Game
) -> list[RecordedFighter]:
    acting = [opponents.make_opponent(player, contract, game) for player in players]
    if acting[0] is None:
        raise ValueError("the world's bot can only play the second seat: make it the opponent")
    names = [_name_of(player, game) for player in players]
    if names[0] == names[1]:  # they are unique in a recording
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    fighters = []
    for name, opponent, model in zip(names, acting, models, strict=True):
        kind: Any = "bot" if opponent is None else "model" if hasattr(opponent, "content_hash") else "script"
        player = recording.RecordedPlayer(name, kind, getattr(opponent, "content_hash", ""))
        fighters.append(RecordedFighter(player, opponent, model))
    return fighters


def _by_head(contract: Contract, probabilities: NDArray[np.float32]) -> tuple[dict[str, float], ...]:
    """Returns the flat probabilities by head and id, without negligible ones."""
    parts = zip(contract.heads, np.split(probabilities, contract.head_offsets[1:-1]), strict=True)
    pairs = (zip(head.actions, own.tolist(), strict=True) for head, own in parts)
    return tuple({entry.id: share for entry, share in part if share >= recording.MIN_PROBABILITY} for part in pairs)


def _name_of(player: OpponentLike, game: Game) -> str:
    if isinstance(player, BaseAlgorithm):
        return type(player).__name__
    name = opponents.opponent_name(player)
    # rl-zoo3 names the last model of every run after the environment; the folder of the run says more.
    return Path(str(player)).absolute().parent.name if is_path(player) and name == game.name else name
