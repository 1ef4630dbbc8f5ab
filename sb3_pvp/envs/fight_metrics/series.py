"""The values that metrics of fights are made of, taken from many ticks at once (paths of self-play.md §11.6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.world import OPTIONAL_FIELDS, Style

#: What an episode's row in `Ticks.episodes` tells: seconds are of the environment's ticks, which its fights share.
DURATIONS = ("process_step_times", "time_between_steps")
DURATION_STATISTICS = ("min", "max", "mean", "std")
EPISODE_ROWS = ("remaining_food", "desync_ticks", *(f"{name}/{of}" for name in DURATIONS for of in DURATION_STATISTICS))


@dataclass(frozen=True)
class Ticks:
    """Ticks of learners, those of all fights in one row; M of them are intact, and E fights ended in them.

    Attributes:
        meta: `META_DTYPE` records ``(M,)`` of the ticks in which the fight did not break off.
        prior: the prayer and the style of the opponent one tick before each of them, see `PRIOR_DTYPE`.
        has_prior: bool ``(M,)``, false at the start of an episode.
        outcome: `Outcome` numbers ``(M,)``.
        endings: `Outcome` numbers ``(E,)`` of the fights that ended, `Outcome.RUNNING` for a timeout.
        reasons: `DesyncReason` numbers ``(E,)``.
        episodes: float64 ``(len(EPISODE_ROWS), K)`` of the K fights that were decided.
    """

    meta: NDArray[np.void]
    prior: NDArray[np.void]
    has_prior: NDArray[np.bool_]
    outcome: NDArray[np.uint8]
    endings: NDArray[np.uint8]
    reasons: NDArray[np.uint8]
    episodes: NDArray[np.float64]


#: What `Ticks.prior` keeps of the tick before, under the names in `META_DTYPE`.
PRIOR_DTYPE = np.dtype([("current_target_prayer_type", "i1"), ("target_attack_style_type", "i1")])

#: The values that a metric is made of; where there is nothing to tell, there is no value.
Series = Callable[[Ticks], NDArray[Any]]

# A plain integer: NumPy compares arrays with members of an `IntEnum` ten times more slowly.
_NONE = int(Style.NONE)

_FLAGS = {field: flag for flag, fields in OPTIONAL_FIELDS.items() for field in fields}


def field_of(name: str) -> Series:
    """A field of all ticks that have it."""
    flag = _FLAGS.get(name)
    return (lambda ticks: ticks.meta[name]) if flag is None else lambda ticks: ticks.meta[name][ticks.meta[flag]]


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
    return lambda ticks: ticks.meta[damage] * (ticks.meta[flag] & (ticks.meta[style_of] == style))


def with_smite(damage: str, smite: str) -> Series:
    """Damage in the ticks in which ``smite`` is present and true."""
    flag = _FLAGS[smite]
    return lambda ticks: ticks.meta[damage][ticks.meta[flag] & ticks.meta[smite]]


def at_outcome(outcome: int, name: str) -> Series:
    """A field in the ticks in which a fight ended so."""
    return lambda ticks: ticks.meta[name][ticks.outcome == outcome]


def hit_off_prior_prayer(ticks: Ticks) -> NDArray[Any]:
    """Rows 15a and b of rewards.md §4: an opponent without a prayer was off it, too."""
    known = ticks.has_prior & ticks.meta["hit_present"]
    off: NDArray[Any] = ticks.meta["attack_type_hit"][known] != ticks.prior["current_target_prayer_type"][known]
    return off


def protected_prior_prayer(ticks: Ticks) -> NDArray[Any]:
    """Rows 16a and b of rewards.md §4: only of hits that met a prayer."""
    prayers = ticks.meta["player_prayer_type"]
    known = ticks.has_prior & ticks.meta["received_present"] & (prayers != _NONE)
    protected: NDArray[Any] = prayers[known] == ticks.prior["target_attack_style_type"][known]
    return protected


def ended_by(first: int, last: int) -> Series:
    """Which endings are one of these outcomes, or between them."""
    return lambda ticks: (ticks.endings >= first) & (ticks.endings <= last)


def broken_by(reason: int) -> Series:
    """Which endings have this `DesyncReason`."""
    return lambda ticks: ticks.reasons == reason


def of_episodes(row: str) -> Series:
    """One of `EPISODE_ROWS`."""
    position = EPISODE_ROWS.index(row)
    return lambda ticks: ticks.episodes[position]
