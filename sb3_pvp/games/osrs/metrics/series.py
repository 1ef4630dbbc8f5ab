"""The values that metrics of fights are made of, taken from many ticks at once (paths of self-play.md §11.6)."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sb3_pvp.games.osrs.report import OPTIONAL_FIELDS, Style
from sb3_pvp.simple_game import Series, Ticks

# A plain integer: NumPy compares arrays with members of an `IntEnum` ten times more slowly.
_NONE = int(Style.NONE)

_FLAGS = {field: flag for flag, fields in OPTIONAL_FIELDS.items() for field in fields}


def field_of(name: str) -> Series:
    """A field of all ticks that have it."""
    flag = _FLAGS.get(name)
    return (lambda ticks: ticks.report[name]) if flag is None else lambda ticks: ticks.report[name][ticks.report[flag]]


def equals(series: Series, value: int) -> Series:
    """Which values are this one."""
    return lambda ticks: series(ticks) == value


def differs(series: Series, value: float) -> Series:
    """Which values are not this one."""
    return lambda ticks: series(ticks) != value


def negated(series: Series) -> Series:
    """The opposite of truth values."""
    return lambda ticks: ~series(ticks)


def prayed(name: str) -> Series:
    """A defender's prayer, of the hits that met one."""
    prayers = field_of(name)
    return lambda ticks: prayers(ticks)[prayers(ticks) != _NONE]


def of_style(damage: str, style_of: str, style: int) -> Series:
    """Damage of one style in every tick: zero where another style, or nothing, hit (rewards.md §4)."""
    flag = _FLAGS[style_of]
    return lambda ticks: ticks.report[damage] * (ticks.report[flag] & (ticks.report[style_of] == style))


def with_smite(damage: str, smite: str) -> Series:
    """Damage in the ticks in which ``smite`` is present and true."""
    flag = _FLAGS[smite]
    return lambda ticks: ticks.report[damage][ticks.report[flag] & ticks.report[smite]]


def at_outcome(outcome: int, name: str) -> Series:
    """A field in the ticks in which a fight ended so."""
    return lambda ticks: ticks.report[name][ticks.outcome == outcome]


def hit_off_prior_prayer(ticks: Ticks) -> NDArray[Any]:
    """Rows 15a and b of rewards.md §4: an opponent without a prayer was off it, too."""
    known = ticks.has_previous & ticks.report["hit_present"]
    off: NDArray[Any] = ticks.report["attack_type_hit"][known] != ticks.previous["current_target_prayer_type"][known]
    return off


def protected_prior_prayer(ticks: Ticks) -> NDArray[Any]:
    """Rows 16a and b of rewards.md §4: only of hits that met a prayer."""
    prayers = ticks.report["player_prayer_type"]
    known = ticks.has_previous & ticks.report["received_present"] & (prayers != _NONE)
    protected: NDArray[Any] = prayers[known] == ticks.previous["target_attack_style_type"][known]
    return protected


def at_the_end(name: str) -> Series:
    """A field in the last tick of every fight that was decided."""
    return lambda ticks: ticks.last[name]


def desync_ticks(ticks: Ticks) -> NDArray[Any]:
    """How many ticks of a decided fight the world played without the learner."""
    missed: NDArray[Any] = ticks.last["episode_ticks"] - ticks.lengths
    return missed
