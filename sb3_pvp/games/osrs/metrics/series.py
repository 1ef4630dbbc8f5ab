"""The series of values behind the metrics, each taken from many ticks at once (paths of self-play.md §11.6)."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sb3_pvp.game.metrics import Series, Ticks
from sb3_pvp.games.osrs.meta_fields import OPTIONAL_FIELDS, Style

# A plain integer: NumPy compares arrays with members of an `IntEnum` ten times more slowly.
_NONE = int(Style.NONE)

# The flag that says where an optional field has a value.
_FLAGS = {field: flag for flag, fields in OPTIONAL_FIELDS.items() for field in fields}


def field_of(name: str) -> Series:
    """Returns a field, in the ticks that have it."""
    flag = _FLAGS.get(name)
    return (lambda ticks: ticks.report[name]) if flag is None else lambda ticks: ticks.report[name][ticks.report[flag]]


def equals(series: Series, value: int) -> Series:
    """Returns where a series equals ``value``."""
    return lambda ticks: series(ticks) == value


def differs(series: Series, value: float) -> Series:
    """Returns where a series differs from ``value``."""
    return lambda ticks: series(ticks) != value


def negated(series: Series) -> Series:
    """Returns the negation of a boolean series."""
    return lambda ticks: ~series(ticks)


def prayed(name: str) -> Series:
    """Returns the defender's prayers, of the hits that met one."""
    prayers = field_of(name)
    return lambda ticks: prayers(ticks)[prayers(ticks) != _NONE]


def of_style(damage: str, style_of: str, style: int) -> Series:
    """Returns the damage of one style in every tick: 0 where another style, or nothing, hit (rewards.md §4)."""
    flag = _FLAGS[style_of]
    return lambda ticks: ticks.report[damage] * (ticks.report[flag] & (ticks.report[style_of] == style))


def with_smite(damage: str, smite: str) -> Series:
    """Returns the damage in the ticks in which ``smite`` is present and true."""
    flag = _FLAGS[smite]
    return lambda ticks: ticks.report[damage][ticks.report[flag] & ticks.report[smite]]


def at_outcome(outcome: int, name: str) -> Series:
    """Returns a field in the ticks in which a fight ended with this outcome."""
    return lambda ticks: ticks.report[name][ticks.outcome == outcome]


def hit_off_prior_prayer(ticks: Ticks) -> NDArray[Any]:
    """Returns the condition of rows 15a and b of rewards.md §4; an opponent without a prayer counts as off it."""
    known = ticks.has_previous & ticks.report["hit_present"]  # an episode's first tick has no previous prayer
    off: NDArray[Any] = ticks.report["attack_type_hit"][known] != ticks.previous["current_target_prayer_type"][known]
    return off


def protected_prior_prayer(ticks: Ticks) -> NDArray[Any]:
    """Returns the condition of rows 16a and b of rewards.md §4, for hits that met a prayer."""
    prayers = ticks.report["player_prayer_type"]
    known = ticks.has_previous & ticks.report["received_present"] & (prayers != _NONE)
    protected: NDArray[Any] = prayers[known] == ticks.previous["target_attack_style_type"][known]
    return protected


def at_the_end(name: str) -> Series:
    """Returns a field in the last tick of every decided fight."""
    return lambda ticks: ticks.last[name]


def desync_ticks(ticks: Ticks) -> NDArray[Any]:
    """Returns how many ticks of each decided fight the world played without the learner."""
    missed: NDArray[Any] = ticks.last["episode_ticks"] - ticks.lengths  # ticks of the world less steps of the learner
    return missed
