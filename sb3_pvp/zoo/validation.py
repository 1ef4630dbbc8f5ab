"""Hyperparameters checked before a run has a folder: what is misspelled is one line with the nearest name.

For environments of this package only; those of others are rl-zoo3's business.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import gymnasium
import torch
from rl_zoo3 import exp_manager
from rl_zoo3.utils import get_class_by_name, get_wrapper_class
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp import callbacks
from sb3_pvp.arguments import arguments_of
from sb3_pvp.contract.errors import unknown_name
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.policy_files import read_policy_file
from sb3_pvp.ppo.hyperparameters import RANGES, read_constant, read_schedule, scheduled_number
from sb3_pvp.zoo.errors import ZooError

if TYPE_CHECKING:
    from sb3_pvp.envs.settings import FightSettings

#: What rl-zoo3 itself reads; everything else must be an argument of the algorithm.
ZOO_KEYS = (
    *("callback", "env_kwargs", "env_wrapper", "frame_stack", "monitor_kwargs", "n_envs", "n_timesteps", "normalize"),
    *("policy", "vec_env_wrapper"),
)
#: What rl-zoo3 cannot do without.
_REQUIRED = ("n_timesteps", "policy")
#: What may change the spaces of an environment.
_WRAPPERS = ("env_wrapper", "vec_env_wrapper", "normalize")
#: Arguments of the algorithm that rl-zoo3 gives itself, from options of its own.
_GIVEN = ("device", "env", "seed", "tensorboard_log", "verbose")
#: A rate of rl-zoo3 that falls to zero.
_LINEAR = re.compile(r"lin_[\d.]+(e[+-]?\d+)?")
#: Arguments of a policy that the algorithm gives.
_SPACES = ("observation_space", "action_space", "lr_schedule")


def check_hyperparams(
    hyperparams: Mapping[str, Any],
    algorithm: type[BaseAlgorithm],
    env_id: str,
    environments: Sequence[Any],
    one_world: bool = False,
    trained_agent: str = "",
) -> None:
    """Checks names, and values as far as they can be checked without training.

    Args:
        hyperparams: what rl-zoo3 has read, with all that the command line says.
        algorithm: the class that will be trained.
        env_id: an environment of this package.
        environments: arguments of the environments for training and evaluation.
        one_world: whether they will be those of an `NhVecEnv`, which cannot have every wrapper.
        trained_agent: file of the model that the training goes on with, if there is one.

    Raises:
        ZooError: for the first thing that is wrong.
    """
    check_names(hyperparams, algorithm)
    for name in _REQUIRED:
        if hyperparams.get(name) is None:
            raise ZooError(f"there is no {name} among the hyperparameters for {env_id}: begin with import: {env_id}")
    if hyperparams.get("frame_stack") is not None:
        raise ZooError(
            'frame_stack would stack masks as well; for frames of observations: -params "env_kwargs.frame_ages:[0, 1]"'
        )
    check_settings(hyperparams)
    for env_kwargs in environments:
        check_env_kwargs(env_kwargs or {}, env_id)
    _check_wrappers(hyperparams, env_id, environments[0] or {}, one_world)
    if not any(hyperparams.get(name) for name in _WRAPPERS):
        _check_model(hyperparams, trained_agent, *_spaces(environments[0] or {}, env_id))


def check_names(hyperparams: Iterable[str], algorithm: type[BaseAlgorithm]) -> None:
    """Raises `ZooError` for a hyperparameter that neither rl-zoo3 nor the algorithm knows."""
    arguments = arguments_of(algorithm, without=_GIVEN)
    _require("hyperparameter", hyperparams, arguments and arguments.union(ZOO_KEYS))


def check_settings(hyperparams: Mapping[str, Any]) -> None:
    """Raises `ZooError` for what is wrong with any algorithm and environment: values, the policy, callbacks."""
    with _one_line():
        _check_values(hyperparams)
    _check_policy(hyperparams.get("policy"), _as_python(hyperparams.get("policy_kwargs")))
    given = hyperparams.get("callback") or []
    for callback in given if isinstance(given, list) else [given]:
        _check_callback(callback)


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:  # OSError: the file of an opponent
        raise ZooError(str(error)) from error


def _check_values(hyperparams: Mapping[str, Any]) -> None:
    for name in RANGES.keys() & hyperparams.keys():
        value = hyperparams[name]
        if name in ("learning_rate", "clip_range") and isinstance(value, str) and _LINEAR.fullmatch(value):
            continue
        schedule = read_schedule(value)
        if schedule is None:
            read_constant(name, value)
        else:
            scheduled_number(name, schedule, 0)
    steps = hyperparams.get("n_timesteps", 1)
    if isinstance(steps, bool) or not isinstance(steps, (int, float)) or not 1 <= steps < float("inf"):
        raise ValueError(f"n_timesteps must be a number of at least 1 (in YAML, !!float 1e6), got {steps!r}")
    for name in {"n_envs", "n_steps"} & hyperparams.keys():
        value = hyperparams[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")


def check_env_kwargs(env_kwargs: Any, env_id: str) -> None:
    """Raises `ZooError` for what is wrong with the arguments of an environment of this package."""
    from sb3_pvp.envs import NhEnv
    from sb3_pvp.envs.checks import require_known
    from sb3_pvp.envs.fights import Fights
    from sb3_pvp.envs.render.viewer import RENDER_MODES

    if not isinstance(env_kwargs, Mapping):
        raise ZooError(f"env_kwargs must map names of arguments of {env_id} to values, got {env_kwargs!r}")
    _require(f"argument of {env_id}", env_kwargs, arguments_of(NhEnv))
    with _one_line():
        if env_kwargs.get("render_mode") is not None:
            require_known("render_mode", env_kwargs["render_mode"], RENDER_MODES)
        settings = _settings(env_kwargs, env_id)
        if settings.world == "sim":  # a server is not asked twice
            Fights(1, settings).close()


def _settings(env_kwargs: Mapping[str, Any], env_id: str) -> FightSettings:
    from sb3_pvp.envs.settings import FightSettings

    arguments = {**gymnasium.spec(env_id).kwargs, **env_kwargs}
    arguments.pop("render_mode", None)
    return FightSettings(**arguments)


def _spaces(env_kwargs: Mapping[str, Any], env_id: str) -> tuple[Any, Any]:
    from sb3_pvp.envs.observations import observation_space
    from sb3_pvp.envs.worlds import contract_of

    settings = _settings(env_kwargs, env_id)
    contract = contract_of(settings.world, settings.contract)
    return observation_space(contract, len(tuple(settings.frame_ages))), contract.action_space


def _check_wrappers(
    hyperparams: Mapping[str, Any], env_id: str, env_kwargs: Mapping[str, Any], one_world: bool
) -> None:
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
        raise ZooError(f"impossible env_wrapper or vec_env_wrapper: {error}") from error


def _check_model(hyperparams: Mapping[str, Any], trained_agent: str, observations: Any, actions: Any) -> None:
    """Whether the policy that the training begins with can be made, and fits the environment."""
    if trained_agent:
        with _one_line():
            file = read_policy_file(trained_agent)
            for name, found, needed in (
                ("Observation", file.observation_space, observations),
                ("Action", file.action_space, actions),
            ):
                if found != needed:
                    raise ValueError(f"{name} spaces do not match: {trained_agent} has {found}, not {needed}")
        return
    policy = hyperparams["policy"]
    policy_class = get_class_by_name(policy) if "." in policy else None
    if not (isinstance(policy_class, type) and issubclass(policy_class, AutoregressivePolicy)):
        return
    try:
        with torch.random.fork_rng(devices=[]):
            policy_class(observations, actions, lambda _: 0.0, **_as_python(hyperparams.get("policy_kwargs")) or {})
    except Exception as error:  # whatever a policy says to arguments of other types
        raise ZooError(f"impossible policy_kwargs: {error}") from error


def _as_python(value: Any) -> Any:
    """What rl-zoo3 makes of a value that may be a text in Python."""
    if not isinstance(value, str):
        return value
    try:
        return eval(value, dict(vars(exp_manager)))
    except Exception as error:  # whatever Python says about it
        raise ZooError(f"{value!r} is no Python: {error}") from error


def _check_policy(policy: Any, policy_kwargs: Any) -> None:
    """Names in ``policy_kwargs``, if the policy is given by its class and not by one of SB3's short names."""
    if not isinstance(policy, str) or "." not in policy:
        return
    try:
        policy_class = get_class_by_name(policy)
    except (ImportError, AttributeError) as error:
        raise ZooError(f"unknown policy {policy!r}: {error}") from error
    if isinstance(policy_kwargs, Mapping):
        _require(f"argument of {policy_class.__name__}", policy_kwargs, arguments_of(policy_class, without=_SPACES))


def _check_callback(callback: Any) -> None:
    """A callback as it stands in a yaml file: a name, or a mapping of one name to arguments."""
    if isinstance(callback, Mapping):
        if len(callback) != 1:
            raise ZooError(f"a callback is a name, or one name with its arguments indented below; got {dict(callback)}")
        ((name, arguments),) = callback.items()
    else:
        name, arguments = callback, {}
    if not isinstance(name, str):  # the object itself, from a configuration in Python
        return
    if not isinstance(arguments, Mapping):
        raise ZooError(f"the arguments of {name} must be a mapping, got {arguments!r}")
    callback_class = _callback_class(name)
    _require(f"argument of {callback_class.__name__}", arguments, arguments_of(callback_class))


def _callback_class(name: str) -> Any:
    module, _, class_name = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), class_name)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: no module at all
        known = {each: f"{callbacks.__name__}.{each}" for each in callbacks.__all__}
        close = difflib.get_close_matches(class_name, known, n=1) if module in ("", callbacks.__name__) else []
        hint = f" (did you mean {known[close[0]]!r}?)" if close else f" ({error})"
        raise ZooError(f"unknown callback {name!r}{hint}. Known: {', '.join(known.values())}") from error


def _require(kind: str, names: Iterable[str], known: set[str] | None) -> None:
    """Raises unless all names are known; ``None`` knows every name."""
    for name in names:
        if known is not None and name not in known:
            raise ZooError(str(unknown_name(kind, str(name), sorted(known))))
