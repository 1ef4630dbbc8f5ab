"""Hyperparameters in rl-zoo3's format: their names, values, policies and callbacks; which can be schedules."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from pydantic import Field, FiniteFloat
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.utils import LinearSchedule
from torch import nn

from sb3_pvp.common.arguments import AT_LEAST_0, AT_LEAST_1, MAPPING, POSITIVE, Kind
from sb3_pvp.common.errors import arguments_of, require_all_known, require_known
from sb3_pvp.common.schedules import Schedule, parse_schedule
from sb3_pvp.common.user_modules import importing_here

#: Hyperparameters that can change an environment's spaces.
WRAPPERS = ("env_wrapper", "vec_env_wrapper", "normalize")
#: What is wrong with a normalisation of observations outside of the model, whose file lacks its statistics.
RAW_OBSERVATIONS = (
    " would show this model other observations than evaluations, opponents, snapshots and exports do: leave it out, or "
    "take norm_obs=False; AutoregressivePolicy normalises observations itself, and PvpPPO rewards (normalize_reward)"
)
#: Hyperparameters that rl-zoo3 reads; all others must be arguments of the algorithm, except those that rl-zoo3 passes.
_ZOO = ("callback", "env_kwargs", "frame_stack", "monitor_kwargs", "n_envs", "n_timesteps", "policy", *WRAPPERS)
_PASSED_BY_ZOO = ("device", "env", "seed", "tensorboard_log", "verbose")
#: rl-zoo3's notation for a linear schedule, such as ``lin_3e-4``.
_LINEAR = re.compile(r"lin_[\d.]+(e[+-]?\d+)?")
#: Names in a text of ``policy_kwargs``: rl-zoo3 evaluates it in its module ``exp_manager``, which has these and others.
NAMES_IN_TEXTS = {"gym": gym, "np": np, "nn": nn, "th": th, "spaces": spaces, "RMSpropTFLike": RMSpropTFLike}
#: The package with our callbacks: as a name, because it builds on this one.
_CALLBACKS = "sb3_pvp.callbacks"


def _kind(hint: Any, words: str, low: int, high: int | None = None) -> Kind[Any]:
    """Returns the kind of numbers from ``low`` to ``high``, called ``words`` in messages."""
    bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
    return Kind(Annotated[hint, Field(ge=low, le=high)], f"{words} {bounds}, or a schedule {{'type': ...}} of such")


_AT_LEAST_0, _SHARE = _kind(FiniteFloat, "a number", 0), _kind(FiniteFloat, "a number", 0, 1)
_COUNT, _POSITIVE = _kind(int, "an integer", 0), _kind(int, "an integer", 1)
#: Hyperparameters that can be schedules over finished rollouts, by SB3's name, with their range.
RANGES: dict[str, Kind[Any]] = {
    "learning_rate": _AT_LEAST_0,
    "clip_range": _AT_LEAST_0,
    "ent_coef": _AT_LEAST_0,
    "vf_coef": _AT_LEAST_0,
    "gamma": _SHARE,
    "gae_lambda": _SHARE,
    "n_epochs": _COUNT,
    "batch_size": _POSITIVE,
    "gradient_accumulation_steps": _POSITIVE,
    "max_grad_norm": _AT_LEAST_0,
    "eps_greedy": _SHARE,
    "magnet_coef": _AT_LEAST_0,
}
#: Of these, what SB3 calls with the remaining progress may be a function, in YAML ``lin_0.1``.
_OF_PROGRESS = ("learning_rate", "clip_range", "magnet_coef")


def is_schedule(value: Any) -> bool:
    """Whether a hyperparameter is a schedule or the config of one.

    A function is not: SB3 calls one given as ``learning_rate`` or ``clip_range`` with the remaining progress, and so is
    that of ``magnet_coef`` called.
    """
    return isinstance(value, (dict, Schedule))


def value_at(name: str, given: Any, trained_rollouts: int = 0) -> Any:
    """Returns the value of a hyperparameter after ``trained_rollouts``; schedules of integers are rounded.

    SB3's functions of the remaining progress, and ``batch_size=None``, are returned as they are. Raises `ValueError`
    for a value out of range, or an invalid config of a schedule.
    """
    kind, value = RANGES[name], given
    if is_schedule(given):
        schedule = given if isinstance(given, Schedule) else parse_schedule(given)
        value = schedule(trained_rollouts)
        if kind in (_COUNT, _POSITIVE) and isfinite(value):
            value = round(value)
    elif name == "magnet_coef" and isinstance(given, str) and _LINEAR.fullmatch(given):
        return LinearSchedule(float(given.removeprefix("lin_")), 0.0, 1.0)  # as rl-zoo3 does for its own
    elif given is None if name == "batch_size" else name in _OF_PROGRESS and callable(given):
        return given
    return kind.read(name, value)


def check_hyperparams(
    hyperparams: Mapping[str, Any], algorithm: type[BaseAlgorithm], env_id: str, env_arguments: Iterable[str]
) -> None:
    """Checks those of a run in a game of this package, as far as that needs no environment.

    ``env_arguments`` are known names of ``env_kwargs``. Raises `ValueError` for the first error.
    """
    check_names(hyperparams, algorithm)
    for name in ("n_timesteps", "policy"):
        if hyperparams.get(name) is None:
            raise ValueError(f"the hyperparameters for {env_id} have no {name}: begin with import: {env_id}")
    if hyperparams.get("frame_stack") is not None:
        raise ValueError(
            'frame_stack would stack masks too; to stack observations, use -params "env_kwargs.frame_ages:[0, 1]"'
        )
    normalize = hyperparams.get("normalize")  # true, or arguments of VecNormalize
    try:
        normalize = eval(normalize, {}) if isinstance(normalize, str) else normalize
    except Exception as error:  # the expression may raise anything
        raise ValueError(f"normalize must be arguments of VecNormalize, or Python for them: {error}") from error
    if normalize and (not isinstance(normalize, Mapping) or normalize.get("norm_obs", True)):
        raise ValueError(f"normalize{RAW_OBSERVATIONS}")
    MAPPING.check(env_kwargs=(env_kwargs := hyperparams.get("env_kwargs")))
    require_all_known(f"argument of {env_id}", env_kwargs or (), env_arguments)
    check_settings(hyperparams)
    # A wrapper may make another space of the Dict of our observations, which these two policies cannot read.
    if policy_class_in(hyperparams["policy"]) is None and not any(hyperparams.get(name) for name in WRAPPERS):
        require_known("policy", hyperparams["policy"], {*algorithm.policy_aliases} - {"MlpPolicy", "CnnPolicy"})


def check_names(hyperparams: Iterable[str], algorithm: type[BaseAlgorithm]) -> None:
    """Raises `ValueError` for a hyperparameter that neither rl-zoo3 nor the algorithm knows."""
    arguments = arguments_of(algorithm, without=_PASSED_BY_ZOO)
    require_all_known("hyperparameter", hyperparams, arguments and arguments.union(_ZOO))


def check_settings(hyperparams: Mapping[str, Any]) -> None:
    """Checks what does not depend on algorithm or environment: values, the policy and callbacks (`ValueError`)."""
    for name in RANGES.keys() & hyperparams.keys():
        value = hyperparams[name]
        if name in _OF_PROGRESS and isinstance(value, str) and _LINEAR.fullmatch(value):
            continue
        value_at(name, value)
    AT_LEAST_1.read("n_timesteps", hyperparams.get("n_timesteps", 1), " (in YAML, !!float 1e6)")
    POSITIVE.check(**{name: hyperparams[name] for name in ("n_envs", "n_steps") if name in hyperparams})
    policy_class, policy_kwargs = policy_class_in(hyperparams.get("policy")), policy_kwargs_in(hyperparams)
    if policy_class is not None:
        known = arguments_of(policy_class, without=("observation_space", "action_space", "lr_schedule"))
        require_all_known(f"argument of {policy_class.__name__}", policy_kwargs, known)
    given = hyperparams.get("callback") or []
    for callback in given if isinstance(given, list) else [given]:
        _check_callback(callback)


def _named(name: str) -> Any:
    """Returns what has this dotted name; raises `ImportError`, `AttributeError`, or `ValueError` without a module."""
    module, _, attribute = name.rpartition(".")
    with importing_here():
        return getattr(importlib.import_module(module), attribute)


def policy_class_in(policy: Any) -> Any:
    """Returns the class of a policy, ``None`` for an alias of SB3 such as ``"MlpPolicy"``."""
    if not isinstance(policy, str) or "." not in policy:
        return None
    try:
        return _named(policy)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"unknown policy {policy!r}: {error}") from error


def policy_kwargs_in(hyperparams: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns ``policy_kwargs``, a mapping or a Python expression for one; `ValueError` for anything else."""
    given = hyperparams.get("policy_kwargs") or {}
    try:
        value = eval(given, dict(NAMES_IN_TEXTS)) if isinstance(given, str) else given
        return dict(value)
    except Exception as error:  # the expression may raise anything
        raise ValueError(f"policy_kwargs must be a mapping, or Python for one, got {given!r}: {error}") from error


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
        callback_class = _named(name)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: a name without a module
        known = {each: f"{_CALLBACKS}.{each}" for each in importlib.import_module(_CALLBACKS).__all__}
        module, _, class_name = name.rpartition(".")
        close = difflib.get_close_matches(class_name, known, n=1) if module in ("", _CALLBACKS) else []
        hint = f" (did you mean {known[close[0]]!r}?)" if close else f" ({error})"
        raise ValueError(f"unknown callback {name!r}{hint}. Known: {', '.join(known.values())}") from error
    require_all_known(f"argument of {callback_class.__name__}", arguments, arguments_of(callback_class))


def check_head_weights(given: Mapping[str, float] | None, policy: Any) -> None:
    """Raises `ValueError` unless these are weights of heads that the policy has, numbers of at least 0."""
    if given is None:
        return
    heads = getattr(policy, "head_ids", None)
    if heads is None:
        raise ValueError(f"ent_weights needs an AutoregressivePolicy, which has heads, not {type(policy).__name__}")
    require_all_known("head in ent_weights", MAPPING.read("ent_weights", given), heads)
    for head, weight in given.items():
        AT_LEAST_0.read(f"the weight of {head} in ent_weights", weight)
