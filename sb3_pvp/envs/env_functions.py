"""What `PvpVecEnv` takes over from environment functions, as SB3's ``make_vec_env`` and rl-zoo3 hand them in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from stable_baselines3.common.monitor import Monitor

from sb3_pvp.envs.env import PvpEnv
from sb3_pvp.envs.settings import FightSettings

EnvFunction = Callable[[], gym.Env[Any, Any]]


@dataclass(frozen=True)
class EnvTemplate:
    """One environment that an environment function made.

    Attributes:
        settings: of its `PvpEnv`, with the limit of a ``TimeLimit`` wrapper.
        render_mode: of its `PvpEnv`.
        spec: how `gymnasium.make` made it, if it did.
        monitor: the SB3 ``Monitor`` around it, which may write a log.
    """

    settings: FightSettings
    render_mode: str | None
    spec: Any = None
    monitor: Monitor[Any, Any] | None = None


def read_env_functions(functions: Sequence[EnvFunction]) -> list[EnvTemplate]:
    """Calls the functions and reads the environments that they make.

    Raises `ValueError` if there is none, if one makes something else than a `PvpEnv`, if a wrapper changes what the
    environment does, or if the settings of two environments differ: they share one world.
    """
    if not functions:
        raise ValueError("PvpVecEnv needs at least one environment function")
    first, *others = templates = [_read(function()) for function in functions]
    for index, other in enumerate(others, start=1):
        for field in fields(FightSettings):
            expected, found = (getattr(each.settings, field.name) for each in (first, other))
            if expected != found:
                raise ValueError(
                    f"the environments of one PvpVecEnv must agree, but {field.name} is {expected!r} in environment 0 "
                    f"and {found!r} in environment {index}"
                )
    return templates


def _read(env: gym.Env[Any, Any]) -> EnvTemplate:
    monitor, limit, layer = None, None, env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, Monitor):
            monitor = layer
        elif isinstance(layer, TimeLimit):
            limit = layer._max_episode_steps
        elif not isinstance(layer, (OrderEnforcing, PassiveEnvChecker)):  # which only check how it is used
            raise ValueError(
                f"PvpVecEnv cannot apply the wrapper {type(layer).__name__} to fights that share one world; "
                "use DummyVecEnv, or a VecEnv wrapper"
            )
        layer = layer.env
    if not isinstance(layer, PvpEnv):
        raise ValueError(f"PvpVecEnv is made of PvpEnv environments, got {type(layer).__name__}")
    settings = layer.fights.settings
    if limit is not None:
        settings = replace(settings, max_episode_ticks=min(limit, settings.max_episode_ticks or limit))
    return EnvTemplate(settings, layer.render_mode, env.spec, monitor)
