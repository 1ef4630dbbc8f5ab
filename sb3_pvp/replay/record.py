"""`record_fight`: lets two players fight once, and keeps all that is to see and what they thought."""

from __future__ import annotations

import platform
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from sb3_pvp.common.checks import check_seed
from sb3_pvp.envs.fights import Fights
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import HOME_GAME, Game, WorldFactory, game_reference
from sb3_pvp.opponents.opponents import SELF_PLAY, WORLD_BOT, OpponentLike
from sb3_pvp.policies.model_files import game_of
from sb3_pvp.replay.fighters import Fighter, make_fighters, model_of
from sb3_pvp.replay.recording import Moment, Recording, heads_of, viewer_of

#: The agents' random numbers come from other seeds than the fight's.
_AGENT_SEEDS = 1 << 32
_MIRRORED = {"won": "lost", "lost": "won"}


def record_fight(
    first: OpponentLike,
    second: OpponentLike = WORLD_BOT,
    *,
    seed: int = 0,
    deterministic: bool = False,
    world: str | WorldFactory = "sim",
    game: str | Game | None = None,
    **settings: Any,
) -> Recording:
    """Lets two players fight; the same arguments give the same recording in the embedded world.

    Args:
        first: the path of a model's file, a model, or the name of a scripted opponent; not the world's bot.
        second: the same; ``"self"``: the first again; or ``"baseline"``: the world's bot, whose choices nobody knows.
        seed: of the fight and of the players' random numbers.
        deterministic: the players take the most likely actions.
        world: ``"sim"``, a server's address or a factory; see `FightSettings`.
        game: what is played; ``None``: what the first model was trained in, else what environments play.
        settings: other `FightSettings`, such as ``reset_params``, ``rewards`` or ``max_episode_ticks``.

    Raises:
        ValueError: for unknown names, values out of range, models of another game and games that nobody can draw.
        FileNotFoundError: for a model's file that does not exist.
        WorldError: if a server cannot be reached, or breaks its word.
    """
    seed = check_seed(seed) or 0
    players = first, first if isinstance(second, str) and second == SELF_PLAY else second
    models = [model_of(player) for player in players]
    if game is None and settings.get("contract") is None and isinstance(world, str):
        game = next((game_of(model) for model in models if model is not None), HOME_GAME)
    fought = FightSettings(world=world, game=game, **settings)
    viewer, reference, contract = viewer_of(fought.game), game_reference(fought.game), fought.played
    fighters = make_fighters(players, models, contract, fought.game)
    fought = replace(
        fought,
        opponent=WORLD_BOT if fighters[1].opponent is None else SELF_PLAY,
        frame_ages=sorted({age for fighter in fighters for age in fighter.frame_ages}),
    )
    agents = [fighter for fighter in fighters if fighter.opponent is not None]
    # Two agents are the two rows of a pair, so that both see and are rewarded like learners.
    with closing(Fights(len(agents), fought)) as fights:
        names = [fighter.player.name for fighter in fighters]
        scenes = _play(fights, viewer, agents, names, seed, deterministic)
        told, outcome = fights.reset_info(0), str(fights.info(0)["outcome"])
    heads = heads_of(contract)
    columns = zip(*(fighter.told(heads, len(scenes) - 1) for fighter in fighters), strict=True)
    pairs = (zip(*column, strict=True) for column in columns)
    return Recording(
        contract=contract.name,
        heads=heads,
        players=(fighters[0].player, fighters[1].player),
        outcomes=(outcome, _MIRRORED.get(outcome, outcome)),
        moments=tuple(map(Moment, scenes, *pairs)),
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
    """Plays to the end: the scenes, the start first."""
    fights.reset(np.arange(len(agents)), [seed + row for row in range(len(agents))])
    scenes = [viewer.scene(fights.world, 0, names)]
    while not (fights.terminated[0] or fights.truncated[0]):
        actions = []
        for row, agent in enumerate(agents):
            stacked = fights.observation(np.array([row]))
            own = [fights.frame_ages.index(age) for age in agent.frame_ages]
            seen = {key: part[0] if key == "action_mask" else part[0][own] for key, part in stacked.items()}
            actions.append(agent.act(seen, fights.action_masks(row), deterministic, _AGENT_SEEDS * (row + 1) + seed))
        fights.step(np.stack(actions))
        for row, agent in enumerate(agents):
            agent.rewards.append(float(fights.reward[row]))
        scenes.append(viewer.scene(fights.world, 0, names))
    return scenes
