"""What a fighter is rewarded for: named components, each a function of a whole batch of fights.

A new component is a function of `RewardWeights` and `Tick` with an entry in `COMPONENTS` (and, if it needs one, a
weight). The sum over the components is the reward of a tick.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.checks import require_known
from sb3_pvp.world import Outcome


@dataclass(frozen=True)
class RewardWeights:
    """How much each event is worth. Damage is counted in health bars (fractions of the victim's maximum hitpoints).

    A fight deals several health bars of damage because both fighters eat, so a quarter of a win for each keeps the
    sum of the damage terms near the size of the win itself.
    """

    win: float = 1.0
    lose: float = -1.0
    tie: float = -0.2
    damage_dealt: float = 0.25
    damage_received: float = -0.25


@dataclass(frozen=True)
class Tick:
    """What happened to one seat of N fights in one tick.

    Attributes:
        meta: `sb3_pvp.world.META_DTYPE` records ``(N,)``.
        outcome: `Outcome` numbers ``(N,)``.
    """

    meta: NDArray[np.void]
    outcome: NDArray[np.uint8]


# Plain integers: NumPy compares arrays with members of an `IntEnum` ten times more slowly.
_WON, _LOST, _TIED, _TARGET_LOST = map(int, (Outcome.WON, Outcome.LOST, Outcome.TIED, Outcome.TARGET_LOST))

Component = Callable[[RewardWeights, Tick], NDArray[Any]]


def _damage_dealt(weights: RewardWeights, tick: Tick) -> NDArray[Any]:
    """Damage of the own attacks, credited when they are rolled, not when they land (rewards.md §4, row 3)."""
    return weights.damage_dealt * tick.meta["damage_generated_on_target_scale"]


def _damage_received(weights: RewardWeights, tick: Tick) -> NDArray[Any]:
    """Damage of the opponent's attacks when they are rolled (row 4)."""
    return weights.damage_received * tick.meta["damage_generated_on_player_scale"]


def _extra_damage_dealt(weights: RewardWeights, tick: Tick) -> NDArray[Any]:
    """Damage outside attacks: recoil, vengeance and the like (row 5)."""
    return weights.damage_dealt * tick.meta["extra_damage_dealt_on_target_scale"]


def _extra_damage_received(weights: RewardWeights, tick: Tick) -> NDArray[Any]:
    """The same from the opponent (row 6)."""
    return weights.damage_received * tick.meta["extra_damage_dealt_on_player_scale"]


def _win(weights: RewardWeights, tick: Tick) -> NDArray[Any]:
    return np.where(tick.outcome == _WON, weights.win, 0.0)


def _lose(weights: RewardWeights, tick: Tick) -> NDArray[Any]:
    return np.where(tick.outcome == _LOST, weights.lose, 0.0)


def _tie(weights: RewardWeights, tick: Tick) -> NDArray[Any]:
    """Ties only exist in fights without ``death_match`` (protocol.md §6.3)."""
    return np.where(tick.outcome == _TIED, weights.tie, 0.0)


COMPONENTS: dict[str, Component] = {
    "damage_dealt": _damage_dealt,
    "damage_received": _damage_received,
    "extra_damage_dealt": _extra_damage_dealt,
    "extra_damage_received": _extra_damage_received,
    "win": _win,
    "lose": _lose,
    "tie": _tie,
}


def reward_weights(weights: Mapping[str, float] | RewardWeights | None = None) -> RewardWeights:
    """The default weights with ``weights`` in place of some; raises `ValueError` for unknown names and odd numbers."""
    if isinstance(weights, RewardWeights):
        return weights
    changes = dict(weights or {})
    for name, value in changes.items():
        require_known("reward", name, [field.name for field in fields(RewardWeights)])
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"the reward {name!r} must be a finite number, got {value!r}")
    return RewardWeights(**{name: float(value) for name, value in changes.items()})


def reward_components(weights: RewardWeights, tick: Tick) -> NDArray[np.float32]:
    """The rewards of one tick, float32 ``(len(COMPONENTS), N)``.

    A fight that broke (`Outcome.TARGET_LOST`, `Outcome.DESYNC`) is worth nothing, whatever happened in that tick
    (rewards.md §5).
    """
    parts = np.empty((len(COMPONENTS), len(tick.outcome)), np.float32)
    for row, component in enumerate(COMPONENTS.values()):
        parts[row] = component(weights, tick)
    broken = tick.outcome >= _TARGET_LOST
    if broken.any():
        parts[:, broken] = 0.0
    parts += 0.0  # -0.0 becomes 0.0
    return parts
