"""Hyperparameters that differ: what a run began with, and what it is resumed with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

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


def apply_changes(model: Any, hyperparams: Mapping[str, Any], changes: Sequence[Change]) -> None:
    """Sets the changed hyperparameters of a loaded `PvpPPO`; raises `Refusal` for other models, and what cannot change.

    Callbacks get their new arguments, since they are made anew.
    """
    if not isinstance(model, PvpPPO):
        raise Refusal(f"--changed is for --algo {OURS}, not for models of {type(model).__name__}")
    names = [*dict.fromkeys(change.path.partition(".")[0] for change in changes)]
    if fixed := [name for name in names if name not in CHANGEABLE or (name in RANGES and name not in hyperparams)]:
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
