"""Validation of hyperparameters before a run has a folder: one line per error, with the nearest name for a typo.

Only for environments of this package; rl-zoo3 handles all others on its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import gymnasium
import torch
from rl_zoo3.utils import get_wrapper_class
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.algorithms.hyperparameters import (
    RAW_OBSERVATIONS,
    WRAPPERS,
    check_names,
    check_settings,
    policy_class_in,
    policy_kwargs_in,
)
from sb3_pvp.common.arguments import MAPPING
from sb3_pvp.common.names import require_all_known, require_known
from sb3_pvp.envs.renderer import RENDER_MODES
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.envs.vec_env import read_env_functions
from sb3_pvp.players.seats import observation_space
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.model_files import PolicyFile


def check_hyperparams(
    hyperparams: Mapping[str, Any],
    algorithm: type[BaseAlgorithm],
    env_id: str,
    environments: Sequence[Any],
    one_world: bool = False,
    trained_agent: str = "",
) -> list[gymnasium.Env[Any, Any] | None]:
    """Checks names, and values as far as that is possible without training; raises `ValueError` for the first error.

    Args:
        environments: ``env_kwargs`` of the environment for training, then of that for evaluation if they differ.
        one_world: whether they will be in a `PvpVecEnv`, which cannot apply all wrappers.
        trained_agent: the file of the model to continue training, if any.

    Returns:
        The environments that were made for the checks, see `checked_env`.
    """
    check_names(hyperparams, algorithm)
    for name in ("n_timesteps", "policy"):
        if hyperparams.get(name) is None:
            raise ValueError(f"the hyperparameters for {env_id} have no {name}: begin with import: {env_id}")
    if hyperparams.get("frame_stack") is not None:
        raise ValueError(
            'frame_stack would stack masks too; to stack observations, use -params "env_kwargs.frame_ages:[0, 1]"'
        )
    _check_normalize(hyperparams.get("normalize"))
    check_settings(hyperparams)
    (settings, env), *others = [checked_env(env_id, env_kwargs or {}) for env_kwargs in environments]
    _check_wrappers(hyperparams, env, one_world)
    if not any(hyperparams.get(name) for name in WRAPPERS):
        _check_model(hyperparams, algorithm, trained_agent, settings)
    return [env, *(other for _, other in others)]


def checked_env(env_id: str, env_kwargs: Any) -> tuple[FightSettings, gymnasium.Env[Any, Any] | None]:
    """Checks ``env_kwargs`` (`ValueError`); returns the settings, and an environment that training can use.

    The environment is ``None`` if its fights take place on a server, to connect only once.
    """
    MAPPING.check(env_kwargs=env_kwargs)
    known = [*(field.name for field in fields(FightSettings)), "render_mode"]
    require_all_known(f"argument of {env_id}", env_kwargs, known)
    arguments = {**gymnasium.spec(env_id).kwargs, **env_kwargs}
    if (render_mode := arguments.pop("render_mode", None)) is not None:
        require_known("render_mode", render_mode, RENDER_MODES)
    if arguments.get("world", "sim") != "sim":
        return FightSettings(**arguments), None
    env: Any = gymnasium.make(env_id, **env_kwargs)
    return env.unwrapped.settings, env


def _check_normalize(given: Any) -> None:
    """Raises `ValueError` if rl-zoo3's ``normalize``, true or arguments of VecNormalize, changes observations."""
    try:
        value = eval(given, {}) if isinstance(given, str) else given
    except Exception as error:  # the expression may raise anything
        raise ValueError(f"normalize must be arguments of VecNormalize, or Python for them: {error}") from error
    if value and (not isinstance(value, Mapping) or value.get("norm_obs", True)):
        raise ValueError(f"normalize{RAW_OBSERVATIONS}")


def _check_wrappers(hyperparams: Mapping[str, Any], env: gymnasium.Env[Any, Any] | None, one_world: bool) -> None:
    try:
        get_wrapper_class({**hyperparams}, "vec_env_wrapper")
        wrap = get_wrapper_class({**hyperparams})
        wrapped = wrap(env) if wrap and env is not None else None
        if wrapped is not None and one_world:
            read_env_functions([lambda: wrapped])
    except (ImportError, AttributeError, AssertionError, TypeError, ValueError) as error:
        raise ValueError(f"impossible env_wrapper or vec_env_wrapper: {error}") from error


def _check_model(
    hyperparams: Mapping[str, Any], algorithm: type[BaseAlgorithm], trained_agent: str, settings: FightSettings
) -> None:
    observations = observation_space(settings.world_contract, len(settings.frame_ages))
    actions = settings.world_contract.action_space
    if trained_agent:
        file = PolicyFile(trained_agent)
        for kind, needed in (("Observation", observations), ("Action", actions)):
            if (found := getattr(file, f"{kind.lower()}_space")) != needed:
                raise ValueError(f"{kind} spaces do not match: {found} in {trained_agent}, {needed} in the environment")
        return
    policy_class = policy_class_in(hyperparams["policy"])
    if policy_class is None:
        known = {*algorithm.policy_aliases} - {"MlpPolicy", "CnnPolicy"}  # these cannot read Dict observations
        require_known("policy", hyperparams["policy"], known)
    elif isinstance(policy_class, type) and issubclass(policy_class, AutoregressivePolicy):
        try:
            with torch.random.fork_rng(devices=[]):  # the trial's initial weights must not change those of the run
                policy_class(observations, actions, lambda _: 0.0, **policy_kwargs_in(hyperparams))
        except Exception as error:  # a policy may raise anything for arguments of the wrong type
            raise ValueError(f"impossible policy_kwargs: {error}") from error
