"""`record_fight`: lets two players fight once, and keeps all that is to see and what they thought."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sb3_pvp.common.checks import check_seed
from sb3_pvp.contract import Contract, load_contract
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.observations import Observation
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import HOME_GAME, NUM_SEATS, World
from sb3_pvp.opponents.opponents import SELF_PLAY, WORLD_BOT, OpponentLike
from sb3_pvp.replay.fighters import Fighter, decisions, game_of, make_fighters, make_models, outlooks
from sb3_pvp.replay.recording import HeadChoices, Moment, Recording, heads_of, viewer_of

#: The agents' random numbers come from other seeds than the fight's.
_AGENT_SEEDS = 1 << 32
_MIRRORED = {"won": "lost", "lost": "won"}


def record_fight(
    first: OpponentLike,
    second: OpponentLike = WORLD_BOT,
    *,
    seed: int = 0,
    deterministic: bool = False,
    world: str | Callable[..., World] = "sim",
    contract: str | Contract | None = None,
    reset_params: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Recording:
    """Lets two players fight; the same arguments give the same recording in the embedded world.

    Args:
        first: the path of a model's file, a model, or the name of a scripted opponent; not the world's bot.
        second: the same; ``"self"``: the first again; or ``"baseline"``: the world's bot, whose choices nobody knows.
        seed: of the fight and of the players' random numbers.
        deterministic: the players take the most likely actions.
        world: ``"sim"``, a server's address or a factory; see `FightSettings`.
        contract: what is played; ``None``: what the first model was trained in, else what environments play.
        reset_params: how the fight starts.
        settings: other `FightSettings`, such as ``rewards`` or ``max_episode_ticks``.

    Raises:
        ValueError: for unknown names, values out of range, models of another game and games that nobody can draw.
        FileNotFoundError: for a model's file that does not exist.
        WorldError: if a server cannot be reached, or breaks its word.
    """
    seed = check_seed(seed) or 0
    second = first if isinstance(second, str) and second == SELF_PLAY else second
    models = make_models((first, second))
    played = contract or game_of(models) or HOME_GAME
    game = load_contract(getattr(world, "contract", played))
    viewer = viewer_of(game.name)
    fighters = make_fighters((first, second), models, game)
    fights = _make_fights(fighters, world=world, contract=played, reset_params=reset_params or {}, **settings)
    agents = [fighter for fighter in fighters if fighter.opponent is not None]
    try:
        names = [fighter.player.name for fighter in fighters]
        build, logs, scenes = _play(fights, viewer, agents, names, seed, deterministic)
        outcome = str(fights.info(0)["outcome"])
    finally:
        fights.close()
    heads = heads_of(game)
    return Recording(
        contract=game.name,
        heads=heads,
        players=(fighters[0].player, fighters[1].player),
        outcomes=(outcome, _MIRRORED.get(outcome, outcome)),
        moments=_moments(scenes, agents, logs, heads),
        seed=seed,
        deterministic=deterministic,
        world=world if isinstance(world, str) else getattr(world, "__name__", type(world).__name__),
        reset_params=dict(reset_params or {}),
        build=build,
        versions={"sb3_pvp": version("sb3-pvp"), "torch": torch.__version__, "python": platform.python_version()},
    )


@dataclass
class _Log:
    """What one agent saw, might do and did in every tick, and what it was rewarded with."""

    observations: list[Observation] = field(default_factory=list)
    masks: list[NDArray[np.bool_]] = field(default_factory=list)
    actions: list[NDArray[np.int64]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


def _make_fights(fighters: tuple[Fighter, Fighter], **settings: Any) -> Fights:
    """One fight: two agents are the two rows of a pair, so that both see and are rewarded like learners."""
    ages = sorted({age for fighter in fighters for age in fighter.frame_ages})
    alone = fighters[1].opponent is None
    opponent = WORLD_BOT if alone else SELF_PLAY
    return Fights(1 if alone else 2, FightSettings(opponent=opponent, frame_ages=ages, **settings))


def _play(
    fights: Fights, viewer: Any, agents: list[Fighter], names: list[str], seed: int, deterministic: bool
) -> tuple[str | None, list[_Log], list[Any]]:
    """Plays to the end: the build, what the agents did, and the scenes, the start first."""
    rows = range(len(agents))
    fights.reset(np.arange(len(agents)), [seed + row for row in rows])
    build = fights.reset_info(0).get("build")
    states = [agent.opponent.initial_state([_AGENT_SEEDS * (row + 1) + seed]) for row, agent in enumerate(agents)]  # type: ignore[union-attr]
    logs = [_Log() for _ in rows]
    scenes = [_scene(fights, viewer, names)]
    while not (fights.terminated[0] or fights.truncated[0]):
        for row, agent in enumerate(agents):
            seen, mask = _seen_by(agent, fights, row), fights.action_masks(row)
            action, states[row] = agent.act(
                seen["observation"], states[row], not logs[row].actions, deterministic, mask
            )
            logs[row].observations.append(seen)
            logs[row].masks.append(mask)
            logs[row].actions.append(action)
        fights.step(np.stack([log.actions[-1] for log in logs]))
        for row, log in enumerate(logs):
            log.rewards.append(float(fights.reward[row]))
        scenes.append(_scene(fights, viewer, names))
    return build, logs, scenes


def _seen_by(agent: Fighter, fights: Fights, row: int) -> Observation:
    """The row's observation with the agent's own frames."""
    stacked = fights.observation(np.array([row]))
    own = [fights.frame_ages.index(age) for age in agent.frame_ages]
    return {key: part[0] if key == "action_mask" else part[0][own] for key, part in stacked.items()}


def _scene(fights: Fights, viewer: Any, names: list[str]) -> Any:
    return viewer.scene(fights.world, 0, names)


def _moments(
    scenes: list[Any], agents: list[Fighter], logs: list[_Log], heads: tuple[HeadChoices, ...]
) -> tuple[Moment, ...]:
    nothing = [None] * len(scenes)
    columns: list[list[Any]] = [[], [], []]
    for agent, log in zip(agents, logs, strict=True):
        observations = {key: np.stack([each[key] for each in log.observations]) for key in log.observations[0]}
        chosen = decisions(agent.model, heads, observations, np.stack(log.actions), np.stack(log.masks))
        columns[0].append([None, *chosen])
        columns[1].append(nothing if agent.model is None else [*outlooks(agent.model, observations), None])
        columns[2].append([None, *log.rewards])
    pairs = [zip(*column, *[nothing] * (NUM_SEATS - len(agents)), strict=True) for column in columns]
    return tuple(Moment(*each) for each in zip(scenes, *pairs, strict=True))
