"""Validation of hyperparameters before a run has a folder: one line per error, with the nearest name for a typo.

Only for environments of this package; rl-zoo3 handles all others on its own.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import gymnasium
import torch
from rl_zoo3 import exp_manager
from rl_zoo3.utils import get_class_by_name, get_wrapper_class
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.common.arguments import AT_LEAST_1, MAPPING, POSITIVE
from sb3_pvp.common.names import arguments_of, require_all_known, require_known
from sb3_pvp.envs.renderer import RENDER_MODES
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.envs.vec_env import read_env_functions
from sb3_pvp.opponents.seat_views import observation_space
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.model_files import PolicyFile
from sb3_pvp.ppo.hyperparameters import RANGES, value_at

#: Hyperparameters that can change an environment's spaces.
_WRAPPERS = ("env_wrapper", "vec_env_wrapper", "normalize")
#: Hyperparameters that rl-zoo3 reads; all others must be arguments of the algorithm, except those that rl-zoo3 passes.
_ZOO = ("callback", "env_kwargs", "frame_stack", "monitor_kwargs", "n_envs", "n_timesteps", "policy", *_WRAPPERS)
_PASSED_BY_ZOO = ("device", "env", "seed", "tensorboard_log", "verbose")
#: rl-zoo3's notation for a linear schedule, such as ``lin_3e-4``.
_LINEAR = re.compile(r"lin_[\d.]+(e[+-]?\d+)?")
#: The packages with our callbacks: as names, because presets may not import packages that build on them.
_CALLBACKS = ("sb3_pvp.callbacks", "sb3_pvp.exploiters")


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
    check_settings(hyperparams)
    (settings, env), *others = [checked_env(env_id, env_kwargs or {}) for env_kwargs in environments]
    _check_wrappers(hyperparams, env, one_world)
    if not any(hyperparams.get(name) for name in _WRAPPERS):
        _check_model(hyperparams, algorithm, trained_agent, settings)
    return [env, *(other for _, other in others)]


def check_names(hyperparams: Iterable[str], algorithm: type[BaseAlgorithm]) -> None:
    """Raises `ValueError` for a hyperparameter that neither rl-zoo3 nor the algorithm knows."""
    arguments = arguments_of(algorithm, without=_PASSED_BY_ZOO)
    require_all_known("hyperparameter", hyperparams, arguments and arguments.union(_ZOO))


def check_settings(hyperparams: Mapping[str, Any]) -> None:
    """Checks what does not depend on algorithm or environment: values, the policy and callbacks (`ValueError`)."""
    for name in RANGES.keys() & hyperparams.keys():
        value = hyperparams[name]
        if name in ("learning_rate", "clip_range") and isinstance(value, str) and _LINEAR.fullmatch(value):
            continue
        value_at(name, value)
    AT_LEAST_1.read("n_timesteps", hyperparams.get("n_timesteps", 1), " (in YAML, !!float 1e6)")
    POSITIVE.check(**{name: hyperparams[name] for name in ("n_envs", "n_steps") if name in hyperparams})
    policy_class, policy_kwargs = _policy_class(hyperparams.get("policy")), policy_kwargs_in(hyperparams)
    if policy_class is not None:
        known = arguments_of(policy_class, without=("observation_space", "action_space", "lr_schedule"))
        require_all_known(f"argument of {policy_class.__name__}", policy_kwargs, known)
    given = hyperparams.get("callback") or []
    for callback in given if isinstance(given, list) else [given]:
        _check_callback(callback)


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


def _check_wrappers(hyperparams: Mapping[str, Any], env: gymnasium.Env[Any, Any] | None, one_world: bool) -> None:
    try:
        get_wrapper_class({**hyperparams}, "vec_env_wrapper")
        wrap = get_wrapper_class({**hyperparams})
        wrapped = wrap(env) if wrap and env is not None else None
        if wrapped is not None and one_world:
            read_env_functions([lambda: wrapped])
    except (ImportError, AttributeError, AssertionError, TypeError, ValueError) as error:
        raise ValueError(f"impossible env_wrapper or vec_env_wrapper: {error}") from error


def _policy_class(policy: Any) -> Any:
    """Returns the class of a policy, ``None`` for an alias of SB3 such as ``"MlpPolicy"``."""
    if not isinstance(policy, str) or "." not in policy:
        return None
    try:
        return get_class_by_name(policy)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"unknown policy {policy!r}: {error}") from error


def policy_kwargs_in(hyperparams: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns ``policy_kwargs``, a mapping or a Python expression for one; `ValueError` for anything else."""
    given = hyperparams.get("policy_kwargs") or {}
    try:
        # rl-zoo3 evaluates the text in its own module too, so names such as ``nn`` work.
        value = eval(given, dict(vars(exp_manager))) if isinstance(given, str) else given
        return dict(value)
    except Exception as error:  # the expression may raise anything
        raise ValueError(f"policy_kwargs must be a mapping, or Python for one, got {given!r}: {error}") from error


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
    policy_class = _policy_class(hyperparams["policy"])
    if policy_class is None:
        known = {*algorithm.policy_aliases} - {"MlpPolicy", "CnnPolicy"}  # these cannot read Dict observations
        require_known("policy", hyperparams["policy"], known)
    elif isinstance(policy_class, type) and issubclass(policy_class, AutoregressivePolicy):
        try:
            with torch.random.fork_rng(devices=[]):  # the trial's initial weights must not change those of the run
                policy_class(observations, actions, lambda _: 0.0, **policy_kwargs_in(hyperparams))
        except Exception as error:  # a policy may raise anything for arguments of the wrong type
            raise ValueError(f"impossible policy_kwargs: {error}") from error


def _check_callback(callback: Any) -> None:
    """Checks an entry of ``callback`` in a YAML file: a name, or a mapping of one name to its arguments."""
    if isinstance(callback, Mapping) and len(callback) != 1:
        raise ValueError(f"a callback is a name, or one name with its arguments indented below; got {dict(callback)}")
    ((name, arguments),) = callback.items() if isinstance(callback, Mapping) else ((callback, {}),)
    if not isinstance(name, str):  # a Python configuration may have the object itself
        return
    if not isinstance(arguments, Mapping):
        raise ValueError(f"the arguments of {name} must be a mapping, got {arguments!r}")
    try:
        callback_class = get_class_by_name(name)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: a name without a module
        known = {each: f"{ours}.{each}" for ours in _CALLBACKS for each in importlib.import_module(ours).__all__}
        module, _, class_name = name.rpartition(".")
        close = difflib.get_close_matches(class_name, known, n=1) if module in ("", *_CALLBACKS) else []
        hint = f" (did you mean {known[close[0]]!r}?)" if close else f" ({error})"
        raise ValueError(f"unknown callback {name!r}{hint}. Known: {', '.join(known.values())}") from error
    require_all_known(f"argument of {callback_class.__name__}", arguments, arguments_of(callback_class))
