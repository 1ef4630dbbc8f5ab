"""`record_fight`: lets two players fight once, and keeps all that is to see, how they acted and what models think."""

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
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.checks import check_seed
from sb3_pvp.contract import Contract
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import HOME_GAME, Game, WorldFactory, game_reference
from sb3_pvp.opponents import opponents
from sb3_pvp.opponents.opponents import SELF_PLAY, WORLD_BOT, OpponentLike, is_path
from sb3_pvp.opponents.seat_views import Observation
from sb3_pvp.policies.autoregressive import probabilities_and_values
from sb3_pvp.policies.model_files import find_model, game_of, load
from sb3_pvp.replay import recording


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
    """Lets two players fight; the same arguments give the same recording in the embedded world.

    Args:
        first: the path of a model's file, a model, or the name of a scripted opponent; not the world's bot.
        second: the same; ``"self"``: the first again; or ``"baseline"``: the world's bot, whose choices nobody knows.
        seed: of the fight and of the players' random numbers.
        deterministic: the players take the most likely actions.
        world: ``"sim"``, a server's address or a factory; see `FightSettings`.
        game: what is played; ``None``: what the first model was trained in, else what environments play.
        settings: other `FightSettings`, such as ``reset_params``, ``rewards`` or ``max_episode_ticks``.

    Raises `ValueError` for what is impossible, `FileNotFoundError`, and `WorldError` if a server breaks its word.
    """
    seed = check_seed(seed) or 0
    players = first, first if isinstance(second, str) and second == SELF_PLAY else second
    models = [_model_of(player) for player in players]
    if game is None and settings.get("contract") is None and isinstance(world, str):
        game = next((game_of(model) for model in models if model is not None), HOME_GAME)
    fought = FightSettings(world=world, game=game, **settings)
    viewer, reference, contract = recording.viewer_of(fought.game), game_reference(fought.game), fought.played
    fighters = _make_fighters(players, models, contract, fought.game)
    agents = [fighter for fighter in fighters if fighter.opponent is not None]
    ages = sorted({age for fighter in fighters for age in fighter.frame_ages})
    fought = replace(fought, opponent=SELF_PLAY if len(agents) > 1 else WORLD_BOT, frame_ages=ages)
    # Two agents are the two rows of a pair, so that both see and are rewarded like learners.
    with closing(Fights(len(agents), fought)) as fights:
        scenes = _play(fights, viewer, agents, [each.player.name for each in fighters], seed, deterministic)
        told, outcome = fights.reset_info(0), str(fights.info(0)["outcome"])
    columns = zip(*(fighter.told(contract, len(scenes) - 1) for fighter in fighters), strict=True)
    pairs = (zip(*column, strict=True) for column in columns)
    return recording.Recording(
        contract=contract.name,
        heads=recording.heads_of(contract),
        players=(fighters[0].player, fighters[1].player),
        outcomes=(outcome, {"won": "lost", "lost": "won"}.get(outcome, outcome)),
        moments=tuple(map(recording.Moment, scenes, *pairs)),
        seed=seed,
        deterministic=deterministic,
        world=world if isinstance(world, str) else getattr(world, "__name__", type(world).__name__),
        reset_params=fought.reset_params,
        build=told.get("build"),
        versions={"sb3_pvp": version("sb3-pvp"), "torch": torch.__version__, "python": platform.python_version()},
        game=None if reference == contract.name else reference,
    )


def _play(
    fights: Fights, viewer: Any, agents: list[Fighter], names: list[str], seed: int, deterministic: bool
) -> list[Any]:
    fights.reset(np.arange(len(agents)), [seed + row for row in range(len(agents))])
    scenes = [viewer.scene(fights.world, 0, names)]
    while not (fights.terminated[0] or fights.truncated[0]):
        actions = []
        for row, agent in enumerate(agents):
            stacked = fights.observation(np.array([row]))
            own = [fights.frame_ages.index(age) for age in agent.frame_ages]
            seen = {key: part[0] if key == "action_mask" else part[0][own] for key, part in stacked.items()}
            own_seed = ((row + 1) << 32) + seed  # other random numbers than those of the fight
            actions.append(agent.act(seen, fights.action_masks(row), deterministic, own_seed))
        fights.step(np.stack(actions))
        for row, agent in enumerate(agents):
            agent.rewards.append(float(fights.reward[row]))
        scenes.append(viewer.scene(fights.world, 0, names))
    return scenes


@dataclass
class Fighter:
    """A player with all that it stands for, and what it saw, might do and did in every tick."""

    player: recording.Player  #: What the recording says of it.
    opponent: opponents.Opponent | None  #: Who acts; ``None`` for the world's bot, of whom nothing is known.
    model: MaskablePPO | None  #: Who thinks, if it is a model.
    rewards: list[float] = field(default_factory=list)  #: Of every tick.
    _state: Any = None
    _ticks: list[tuple[Observation, NDArray[np.bool_], NDArray[np.int64]]] = field(default_factory=list)

    @property
    def frame_ages(self) -> tuple[int, ...]:
        return tuple(getattr(self.opponent, "frame_ages", (0,)))

    def act(self, seen: Observation, mask: NDArray[np.bool_], deterministic: bool, seed: int) -> NDArray[np.int64]:
        """Its actions ``(heads,)`` for what it sees in its own frames; ``seed`` is that of its random numbers."""
        assert self.opponent is not None
        if not self._ticks:
            self._state = self.opponent.initial_state([seed])
        frames = seen["observation"] if hasattr(self.opponent, "frame_ages") else seen["observation"][0]
        actions, self._state = self.opponent.predict(
            frames[np.newaxis], self._state, np.array([not self._ticks]), deterministic, mask[np.newaxis]
        )
        self._ticks.append((seen, mask, actions[0]))
        return self._ticks[-1][-1]

    def told(self, contract: Contract, ticks: int) -> tuple[Sequence[Any], ...]:
        """The `Moment`'s decisions, outlooks and rewards of this player, from the start to tick ``ticks``."""
        nothing: list[Any] = [None] * (ticks + 1)
        likely = outlooks = nothing
        if self.opponent is None:
            return nothing, nothing, nothing
        seen, masks, actions = zip(*self._ticks, strict=True)
        if self.model is not None:
            observations = {key: np.stack([each[key] for each in seen]) for key in seen[0]}
            chosen = np.stack(actions), np.stack(masks)
            drawn, values = probabilities_and_values(self.model.policy, observations, *chosen)
            likely = [_likely(contract, row) for row in drawn]
            predictor = getattr(self.model, "outcome_predictor", None)
            wins = nothing if predictor is None else predictor.predict(observations)["WIN"].tolist()
            outlooks = [*map(recording.Outlook, values.tolist(), wins), None]
        decisions = map(recording.decision_of, repeat(contract), actions, masks, likely)
        return [None, *decisions], outlooks, [None, *self.rewards]


def _model_of(player: OpponentLike) -> MaskablePPO | None:
    if isinstance(player, BaseAlgorithm):
        return player  # type: ignore[return-value]
    return load(find_model(player)) if is_path(player) else None


def _make_fighters(
    players: Sequence[OpponentLike], models: Sequence[MaskablePPO | None], contract: Contract, game: Game
) -> list[Fighter]:
    acting = [opponents.make_opponent(player, contract, game) for player in players]
    if acting[0] is None:
        raise ValueError("the world's bot can only sit in the second seat: let it be the opponent")
    names = [_name_of(player, game) for player in players]
    if names[0] == names[1]:
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    fighters = []
    for name, opponent, model in zip(names, acting, models, strict=True):
        kind: Any = "model" if model is not None else "bot" if opponent is None else "script"
        fighters.append(Fighter(recording.Player(name, kind, getattr(opponent, "content_hash", "")), opponent, model))
    return fighters


def _likely(contract: Contract, probabilities: NDArray[np.float32]) -> tuple[dict[str, float], ...]:
    """By head and entry, without what is next to impossible."""
    parts = zip(contract.heads, np.split(probabilities, contract.head_offsets[1:-1]), strict=True)
    pairs = (zip(head.actions, own.tolist(), strict=True) for head, own in parts)
    return tuple({entry.id: share for entry, share in part if share >= 5e-5} for part in pairs)


def _name_of(player: OpponentLike, game: Game) -> str:
    if isinstance(player, BaseAlgorithm):
        return type(player).__name__
    name = opponents.opponent_name(player)
    # rl-zoo3 calls the last model of every run like the game; its folder says more.
    return Path(str(player)).absolute().parent.name if is_path(player) and name == game.name else name
