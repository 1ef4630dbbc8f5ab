"""Hyperparameters that differ: what a run began with, and what it is resumed with."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.algorithms.hyperparameters import RANGES, is_schedule, value_at
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.algorithms.presets import OURS
from sb3_pvp.common.errors import Refusal
from sb3_pvp.common.plain_yaml import parse_ordered_dict
from sb3_pvp.common.schedules import parse_schedule

#: Hyperparameters that a run may be resumed with: all that change neither networks nor environments.
CHANGEABLE = {*RANGES, "callback", "n_timesteps"}
_MISSING = "none"


class Change(NamedTuple):
    """A setting with its values before and now, in words."""

    path: str
    before: str
    now: str

    @property
    def name(self) -> str:
        """The hyperparameter that has the setting."""
        return self.path.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.path}: {self.before} -> {self.now}"


def changes_between(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Returns the settings inside hyperparameters that differ, by path: schedules and lists of numbers are one each."""
    old, new = dict(_settings(before)), dict(_settings(now))
    known = [*dict.fromkeys((*old, *new))]
    words = {path: tuple(f"{each[path]!r:.200}" if path in each else _MISSING for each in (old, new)) for path in known}
    return [
        Change(path, *words[path]) for path in known if path not in old or path not in new or old[path] != new[path]
    ]


def changes_of_config(before: str, now: str) -> list[Change]:
    """Does `changes_between` for texts of rl-zoo3's ``config.yml``; none if they have other than plain values."""
    with suppress(ValueError, TypeError):
        return changes_between(parse_ordered_dict(before), parse_ordered_dict(now))
    return []


def fixed_names(changes: Sequence[Change]) -> list[str]:
    """Returns the hyperparameters among the changed ones that a run cannot be resumed with."""
    return [
        each.name
        for each in changes
        if each.name not in CHANGEABLE or (each.name in RANGES and each.path == each.name and each.now == _MISSING)
    ]


def check_networks(model: BaseAlgorithm, given: Mapping[str, Any]) -> None:
    """Checks that a model to begin with has the ``policy`` and ``policy_kwargs`` given, of which it keeps its own.

    Raises `Refusal` if not: the run would be recorded with networks that it does not have. A `PvpPPO` only warns, as
    fighters with any networks are trained on by any preset.
    """
    wanted = {name: _comparable(value) for name, value in (given.get("policy_kwargs") or {}).items()}
    own = {name: _comparable(model.policy_kwargs.get(name)) for name in wanted}
    differ = changes_between({"policy_kwargs": own}, {"policy_kwargs": wanted})
    policy = given["policy"]
    kind = model._get_policy_from_name(policy) if isinstance(policy, str) else policy
    if not issubclass(model.policy_class, kind):  # DreamerV3 takes one of its own for fights
        differ.insert(0, Change("policy", model.policy_class.__name__, kind.__name__))
    if not differ:
        return
    told = "; ".join(map(str, differ))
    if not isinstance(model, PvpPPO):
        raise Refusal(f"-i keeps the networks of its model: set the same ones ({told}), or begin without -i")
    warnings.warn(f"the model keeps its networks, not those of the hyperparameters ({told})", stacklevel=2)


def _comparable(value: Any) -> Any:
    """Returns a value as a file of a model has it: lists for tuples, and names for classes."""
    return json.loads(json.dumps(value, default=lambda each: getattr(each, "__name__", type(each).__name__)))


def apply_changes(model: Any, hyperparams: Mapping[str, Any], changes: Sequence[Change]) -> None:
    """Sets the changed hyperparameters of a loaded `PvpPPO`; raises `Refusal` for other models, and what cannot change.

    Callbacks get their new arguments, since they are made anew.
    """
    if not isinstance(model, PvpPPO):
        raise Refusal(f"--changed is for --algo {OURS}, not for models of {type(model).__name__}")
    names = [*dict.fromkeys(change.name for change in changes)]
    if fixed := fixed_names(changes):
        raise Refusal(
            f"{fixed[0]} cannot change when a run is resumed, only {', '.join(sorted(CHANGEABLE))}: start a new run "
            "from its model with --initialize-from"
        )
    for change in changes:
        print(f"Changed {change}")
    for name in names:
        if name in RANGES:
            given = hyperparams[name]
            model.schedules.pop(name, None)
            if is_schedule(given):
                model.schedules[name] = parse_schedule(given)
            else:
                setattr(model, name, value_at(name, given))
    model._apply_schedules(model.trained_rollouts)


def start_over(model: Any) -> None:
    """Lets a loaded model begin to count from 0, with its schedules as at the start."""
    model.num_timesteps = 0
    if isinstance(model, PvpPPO):
        model.trained_rollouts = model.num_updates = model._n_updates = 0
        model._apply_schedules(0)


def _settings(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and "type" not in value:
        for key, each in value.items():
            yield from _settings(each, f"{path}.{str(key).removeprefix('sb3_pvp.callbacks.')}".lstrip("."))
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for each in value:
            yield from _settings(each if isinstance(each, Mapping) else {str(each): True}, path)
    else:
        yield path, value
