"""The part of an observation that comes from memory: statistics and gear seen (entries 63-95 and 145-159)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.state import MAGE_SET, MAGIC, MELEE, MELEE_SET, RANGED, RANGED_SET, Seat
from sb3_pvp.games.osrs.sim.statistics import (
    ACCURACY_COLUMN,
    MAGIC_DEFENCE_COLUMN,
    MELEE_DEFENCE_COLUMN,
    RANGED_DEFENCE_COLUMN,
    REMEMBERED_BONUSES,
    STRENGTH_COLUMN,
    UNSEEN,
    confidence,
    recent_share,
    share,
)

obs = load_contract("NhEnv").observation_numbers

#: Bounds of the ratio of dealt to received damage (mechanics.md §18).
SMALLEST_DAMAGE_SCALE, LARGEST_DAMAGE_SCALE = 0.5, 2.0


@rule
def write_memory(me: Seat, starts: bool, out: NDArray[np.float32]) -> None:
    """Entries 63 to 95 (contract.md §4.2) and 145 to 159.

    Call it in every tick, because most of them only change with a hit; the first time with ``starts`` set.
    """
    scale = (me.sum_dealt + 1.0) / (me.sum_received + 1.0)  # in health bars; the 1 avoids a division by zero
    out[obs.total_damage_dealt_scale] = min(max(scale, SMALLEST_DAMAGE_SCALE), LARGEST_DAMAGE_SCALE)
    out[obs.player_prayer_correct] = me.own_prayer_correct
    out[obs.target_prayer_correct] = me.target_prayer_correct
    if starts or me.was_attacked:
        _write_received(me, out)
        _write_recent_received(me, out)
        _write_remembered_gear(me, out)
    if starts or me.just_attacked:
        _write_dealt(me, out)
        _write_recent_dealt(me, out)


@rule
def _write_received(me: Seat, out: NDArray[np.float32]) -> None:
    hits = me.hits_received
    out[obs.target_attack_confidence] = confidence(hits)
    out[obs.target_melee_hit_percent] = share(me.received_style[MELEE], hits)
    out[obs.target_magic_hit_percent] = share(me.received_style[MAGIC], hits)
    out[obs.target_ranged_hit_percent] = share(me.received_style[RANGED], hits)
    out[obs.target_number_of_hits_off_prayer] = share(me.received_off_prayer, hits)
    out[obs.player_magic_prayer_percent] = share(me.own_prayer[MAGIC], hits)
    out[obs.player_ranged_prayer_percent] = share(me.own_prayer[RANGED], hits)
    out[obs.player_melee_prayer_percent] = share(me.own_prayer[MELEE], hits)


@rule
def _write_dealt(me: Seat, out: NDArray[np.float32]) -> None:
    hits = me.hits_dealt
    out[obs.target_prayer_confidence] = confidence(hits)
    out[obs.player_melee_hit_percent] = share(me.dealt_style[MELEE], hits)
    out[obs.player_magic_hit_percent] = share(me.dealt_style[MAGIC], hits)
    out[obs.player_ranged_hit_percent] = share(me.dealt_style[RANGED], hits)
    out[obs.target_magic_prayer_percent] = share(me.target_prayer[MAGIC], hits)
    out[obs.target_ranged_prayer_percent] = share(me.target_prayer[RANGED], hits)
    out[obs.target_melee_prayer_percent] = share(me.target_prayer[MELEE], hits)
    out[obs.target_correct_pray_percent] = share(me.dealt_on_prayer, hits)


@rule
def _write_recent_received(me: Seat, out: NDArray[np.float32]) -> None:
    out[obs.recent_target_melee_hit_percent] = recent_share(me.recent_received, MELEE)
    out[obs.recent_target_magic_hit_percent] = recent_share(me.recent_received, MAGIC)
    out[obs.recent_target_ranged_hit_percent] = recent_share(me.recent_received, RANGED)
    out[obs.recent_target_number_of_hits_off_prayer] = recent_share(me.recent_received_off, 1)
    out[obs.recent_player_magic_prayer_percent] = recent_share(me.recent_own_prayer, MAGIC)
    out[obs.recent_player_ranged_prayer_percent] = recent_share(me.recent_own_prayer, RANGED)
    out[obs.recent_player_melee_prayer_percent] = recent_share(me.recent_own_prayer, MELEE)


@rule
def _write_recent_dealt(me: Seat, out: NDArray[np.float32]) -> None:
    out[obs.recent_player_melee_hit_percent] = recent_share(me.recent_dealt, MELEE)
    out[obs.recent_player_magic_hit_percent] = recent_share(me.recent_dealt, MAGIC)
    out[obs.recent_player_ranged_hit_percent] = recent_share(me.recent_dealt, RANGED)
    out[obs.recent_target_magic_prayer_percent] = recent_share(me.recent_target_prayer, MAGIC)
    out[obs.recent_target_ranged_prayer_percent] = recent_share(me.recent_target_prayer, RANGED)
    out[obs.recent_target_melee_prayer_percent] = recent_share(me.recent_target_prayer, MELEE)
    out[obs.recent_target_correct_pray_percent] = recent_share(me.recent_dealt_on, 1)


@rule
def _remembered(me: Seat, style: int, gear_set: int, column: int) -> int:
    """Returns M(style, b) of contract.md §4.2: until it is seen, the target is assumed to wear my own set."""
    seen = me.target_gear[style, column]
    return int(me.set_bonus[gear_set, REMEMBERED_BONUSES[style, column]] if seen == UNSEEN else seen)


@rule
def _write_remembered_gear(me: Seat, out: NDArray[np.float32]) -> None:
    """Entries 145 to 159: bonuses of the target's gear for each style, as last seen."""
    out[obs.target_magic_accuracy] = _remembered(me, MAGIC, MAGE_SET, ACCURACY_COLUMN)
    out[obs.target_magic_strength] = _remembered(me, MAGIC, MAGE_SET, STRENGTH_COLUMN)
    out[obs.target_ranged_accuracy] = _remembered(me, RANGED, RANGED_SET, ACCURACY_COLUMN)
    out[obs.target_ranged_strength] = _remembered(me, RANGED, RANGED_SET, STRENGTH_COLUMN)
    out[obs.target_melee_accuracy] = _remembered(me, MELEE, MELEE_SET, ACCURACY_COLUMN)
    out[obs.target_melee_strength] = _remembered(me, MELEE, MELEE_SET, STRENGTH_COLUMN)
    out[obs.target_magic_gear_ranged_defence] = _remembered(me, MAGIC, MAGE_SET, RANGED_DEFENCE_COLUMN)
    out[obs.target_magic_gear_mage_defence] = _remembered(me, MAGIC, MAGE_SET, MAGIC_DEFENCE_COLUMN)
    out[obs.target_magic_gear_melee_defence] = _remembered(me, MAGIC, MAGE_SET, MELEE_DEFENCE_COLUMN)
    out[obs.target_ranged_gear_ranged_defence] = _remembered(me, RANGED, RANGED_SET, RANGED_DEFENCE_COLUMN)
    out[obs.target_ranged_gear_mage_defence] = _remembered(me, RANGED, RANGED_SET, MAGIC_DEFENCE_COLUMN)
    out[obs.target_ranged_gear_melee_defence] = _remembered(me, RANGED, RANGED_SET, MELEE_DEFENCE_COLUMN)
    out[obs.target_melee_gear_ranged_defence] = _remembered(me, MELEE, MELEE_SET, RANGED_DEFENCE_COLUMN)
    out[obs.target_melee_gear_mage_defence] = _remembered(me, MELEE, MELEE_SET, MAGIC_DEFENCE_COLUMN)
    out[obs.target_melee_gear_melee_defence] = _remembered(me, MELEE, MELEE_SET, MELEE_DEFENCE_COLUMN)
