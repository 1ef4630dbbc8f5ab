"""Arguments and wrappers of environments of this package, checked before anything is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium import spaces
from rl_zoo3.utils import get_wrapper_class

from sb3_pvp.common.names import require_all_known, require_known

if TYPE_CHECKING:
    from sb3_pvp.envs.settings import FightSettings


def check_env_kwargs(env_kwargs: Any, env_id: str) -> FightSettings:
    """The settings that these arguments of an environment stand for; raises `ValueError` for what is wrong in them."""
    from sb3_pvp.envs.fights import Fights
    from sb3_pvp.envs.settings import FightSettings
    from sb3_pvp.envs.viewer import RENDER_MODES

    if not isinstance(env_kwargs, Mapping):
        raise ValueError(f"env_kwargs must map names of arguments of {env_id} to values, got {env_kwargs!r}")
    known = [*(field.name for field in fields(FightSettings)), "render_mode"]
    require_all_known(f"argument of {env_id}", env_kwargs, known)
    arguments = {**gymnasium.spec(env_id).kwargs, **env_kwargs}
    render_mode = arguments.pop("render_mode", None)
    if render_mode is not None:
        require_known("render_mode", render_mode, RENDER_MODES)
    settings = FightSettings(**arguments)
    if settings.world == "sim":  # a server is not asked twice
        Fights(1, settings).close()
    return settings


def spaces_of(settings: FightSettings) -> tuple[spaces.Dict, spaces.MultiDiscrete]:
    """Observations and actions of an environment with these settings."""
    from sb3_pvp.common.checks import check_frame_ages
    from sb3_pvp.envs.observations import observation_space

    contract = settings.played
    return observation_space(contract, len(check_frame_ages(settings.frame_ages))), contract.action_space


def check_wrappers(hyperparams: Mapping[str, Any], env_id: str, env_kwargs: Mapping[str, Any], one_world: bool) -> None:
    """Raises `ValueError` for wrappers that do not exist, or cannot be put around an environment.

    Those of a server are not made for that. ``one_world``: environments will be those of an `NhVecEnv`.
    """
    from sb3_pvp.envs.env_functions import read_env_functions

    try:
        get_wrapper_class({**hyperparams}, "vec_env_wrapper")
        wrap = get_wrapper_class({**hyperparams})
        if wrap and env_kwargs.get("world", "sim") == "sim":
            env = wrap(gymnasium.make(env_id, **env_kwargs))
            if one_world:
                read_env_functions([lambda: env])
            env.close()
    except (ImportError, AttributeError, AssertionError, TypeError, ValueError) as error:
        raise ValueError(f"impossible env_wrapper or vec_env_wrapper: {error}") from error
