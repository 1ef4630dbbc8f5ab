"""Hyperparameters checked before a run has a folder: what is misspelled is one line with the nearest name.

For environments of this package only; those of others are rl-zoo3's business.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
from rl_zoo3.utils import get_class_by_name
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp import callbacks
from sb3_pvp.contract.errors import unknown_name
from sb3_pvp.ppo.hyperparameters import RANGES, read_constant, read_schedule, scheduled_number
from sb3_pvp.zoo.errors import ZooError

#: What rl-zoo3 itself reads; everything else must be an argument of the algorithm.
ZOO_KEYS = (
    *("callback", "env_kwargs", "env_wrapper", "frame_stack", "monitor_kwargs", "n_envs", "n_timesteps", "normalize"),
    *("policy", "vec_env_wrapper"),
)
#: Arguments of the algorithm that rl-zoo3 gives itself, from options of its own.
_GIVEN = ("device", "env", "seed", "tensorboard_log", "verbose")
#: A rate of rl-zoo3 that falls to zero.
_LINEAR = re.compile(r"lin_[\d.]+(e[+-]?\d+)?")
#: Arguments of a policy that the algorithm gives.
_SPACES = ("observation_space", "action_space", "lr_schedule")


def check_hyperparams(
    hyperparams: Mapping[str, Any], algorithm: type[BaseAlgorithm], env_id: str, environments: Iterable[Any]
) -> None:
    """Checks names, and values as far as they can be checked without training.

    Args:
        hyperparams: what rl-zoo3 has read, with all that the command line says.
        algorithm: the class that will be trained.
        env_id: an environment of this package.
        environments: arguments of the environments for training and evaluation.

    Raises:
        ZooError: for the first thing that is wrong.
    """
    arguments = _arguments(algorithm, without=_GIVEN)
    _require("hyperparameter", hyperparams, arguments and arguments.union(ZOO_KEYS))
    try:
        _check_values(hyperparams)
        for env_kwargs in environments:
            _check_env_kwargs(env_kwargs or {}, env_id)
    except (ValueError, OSError) as error:  # OSError: the file of an opponent
        raise ZooError(str(error)) from error
    _check_policy(hyperparams.get("policy"), hyperparams.get("policy_kwargs"))
    given = hyperparams.get("callback") or []
    for callback in given if isinstance(given, list) else [given]:
        _check_callback(callback)


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
    for name in {"n_envs", "n_steps"} & hyperparams.keys():
        value = hyperparams[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")


def _check_env_kwargs(env_kwargs: Mapping[str, Any], env_id: str) -> None:
    from sb3_pvp.envs import NhEnv
    from sb3_pvp.envs.fights import Fights
    from sb3_pvp.envs.settings import FightSettings

    if not isinstance(env_kwargs, Mapping):
        raise ValueError(f"env_kwargs must map names of arguments of {env_id} to values, got {env_kwargs!r}")
    _require(f"argument of {env_id}", env_kwargs, _arguments(NhEnv))
    arguments = {**gymnasium.spec(env_id).kwargs, **env_kwargs}
    arguments.pop("render_mode", None)
    settings = FightSettings(**arguments)
    if settings.world == "sim":  # a server is not asked twice
        Fights(1, settings).close()


def _check_policy(policy: Any, policy_kwargs: Any) -> None:
    """Names in ``policy_kwargs``, if the policy is given by its class and not by one of SB3's short names."""
    if not isinstance(policy, str) or "." not in policy:
        return
    try:
        policy_class = get_class_by_name(policy)
    except (ImportError, AttributeError) as error:
        raise ZooError(f"unknown policy {policy!r}: {error}") from error
    if isinstance(policy_kwargs, Mapping):
        _require(f"argument of {policy_class.__name__}", policy_kwargs, _arguments(policy_class, without=_SPACES))


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
    _require(f"argument of {callback_class.__name__}", arguments, _arguments(callback_class))


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


def _arguments(of: type[Any], without: Iterable[str] = ()) -> set[str] | None:
    """What a class may be called with, and its bases where it hands on the rest; ``None``: with any name."""
    names: set[str] = set()
    for base in of.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
        names |= {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
        if all(each.kind != each.VAR_KEYWORD for each in parameters):
            return {name for name in names if name != "self" and not name.startswith("_")} - {*without}
    return None
