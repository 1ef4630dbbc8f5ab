"""The memory of each side of a fight: hits, prayers, gear and hitsplats seen (contract.md §4.2 and §4.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import literal_unroll

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.prayer import PROTECT_BIT, SMITE_BIT, protection
from sb3_pvp.games.osrs.sim.state import (
    AMMO,
    HITPOINTS,
    MAGIC_ATTACK,
    MAGIC_DAMAGE,
    MAGIC_DEFENCE,
    MELEE,
    MELEE_STRENGTH,
    NO_ITEM,
    NO_STYLE,
    NUM_SLOTS,
    RANGED_ATTACK,
    RANGED_DEFENCE,
    RANGED_STRENGTH,
    RECENT,
    RING,
    SLASH_ATTACK,
    SLASH_DEFENCE,
    TICK_FIELD_NAMES,
    Seat,
)

#: The item bonuses in ``seat.target_gear[style]``: accuracy and strength of the style, then three defences.
REMEMBERED_BONUSES = np.array(
    [
        (SLASH_ATTACK, MELEE_STRENGTH, MAGIC_DEFENCE, SLASH_DEFENCE, RANGED_DEFENCE),
        (RANGED_ATTACK, RANGED_STRENGTH, MAGIC_DEFENCE, SLASH_DEFENCE, RANGED_DEFENCE),
        (MAGIC_ATTACK, MAGIC_DAMAGE, MAGIC_DEFENCE, SLASH_DEFENCE, RANGED_DEFENCE),
    ],
    np.int64,
)
ACCURACY_COLUMN, STRENGTH_COLUMN, MAGIC_DEFENCE_COLUMN, MELEE_DEFENCE_COLUMN, RANGED_DEFENCE_COLUMN = range(5)
#: Marks a remembered bonus that was never seen; a genuine -1 counts as unseen too, as on the server.
UNSEEN = -1
#: Hits from which a statistic has full confidence.
CONFIDENT_HITS = 20

#: The memories that are one number, which starts at 0.
_NUMBERS = (
    "hits_received",
    "hits_dealt",
    "received_off_prayer",
    "dealt_on_prayer",
    "recent_received_count",
    "recent_dealt_count",
    "recent_own_prayer_count",
    "recent_target_prayer_count",
    "target_lunar",
    "last_x",
    "last_y",
    "damage_on_me",
    "damage_on_target",
    "sum_received",
    "sum_dealt",
    "target_hp",
    "target_hp_before",
)


@rule
def clear_tick(seat: Seat) -> None:
    """Forgets what was collected during the last tick."""
    for name in literal_unroll(TICK_FIELD_NAMES):  # Numba knows the fields of a record only by literal names
        seat[name] = 0
    seat.hit_style_now = NO_STYLE
    seat.hit_prayer_now = NO_STYLE


@rule
def start_memory(seat: Seat) -> None:
    """Forgets the fight, as a reset does; hitsplats that a login brings along count as new again."""
    for name in literal_unroll(_NUMBERS):
        seat[name] = 0
    seat.received_style[:] = 0
    seat.dealt_style[:] = 0
    seat.own_prayer[:] = 0
    seat.target_prayer[:] = 0
    seat.recent_received[:] = NO_STYLE
    seat.recent_dealt[:] = NO_STYLE
    seat.recent_own_prayer[:] = NO_STYLE
    seat.recent_target_prayer[:] = NO_STYLE
    seat.recent_received_off[:] = 0
    seat.recent_dealt_on[:] = 0
    seat.target_gear[:] = UNSEEN
    seat.seen_own[:] = 0
    seat.seen_target[:] = 0


@rule
def visible_bonus(seat: Seat, bonus: int) -> int:
    """Returns C(b), the sum of an item bonus over what a seat wears, without ring and ammunition (contract.md §4.1)."""
    total = 0
    for slot in range(NUM_SLOTS):
        item = seat.worn[slot]
        if item != NO_ITEM and slot != RING and slot != AMMO:
            total += items.BONUSES[item, bonus]
    return total


@rule
def _remember_gear(seat: Seat, foe: Seat, style: int) -> None:
    """Remembers what the target wore at its last attack of a style (contract.md §4.2, "M")."""
    strength = visible_bonus(foe, REMEMBERED_BONUSES[style, STRENGTH_COLUMN])
    if style == MELEE and strength < seat.target_gear[style, STRENGTH_COLUMN]:
        return  # a weaker weapon, as for a special attack, does not replace a stronger one
    for column in range(REMEMBERED_BONUSES.shape[1]):
        seat.target_gear[style, column] = visible_bonus(foe, REMEMBERED_BONUSES[style, column])


@rule
def _record_dealt(attacker: Seat, style: int, prayer: int, protected: bool) -> None:
    attacker.hits_dealt += 1
    attacker.dealt_style[style] += 1
    place = attacker.recent_dealt_count % RECENT
    attacker.recent_dealt[place] = style
    attacker.recent_dealt_on[place] = protected
    attacker.recent_dealt_count += 1
    attacker.dealt_on_prayer += protected
    attacker.target_prayer_correct |= protected
    if prayer != NO_STYLE:
        attacker.target_prayer[prayer] += 1
        attacker.recent_target_prayer[attacker.recent_target_prayer_count % RECENT] = prayer
        attacker.recent_target_prayer_count += 1


@rule
def _record_received(victim: Seat, style: int, prayer: int, protected: bool) -> None:
    victim.hits_received += 1
    victim.received_style[style] += 1
    place = victim.recent_received_count % RECENT
    victim.recent_received[place] = style
    victim.recent_received_off[place] = not protected
    victim.recent_received_count += 1
    victim.received_off_prayer += not protected
    victim.own_prayer_correct |= protected
    if prayer != NO_STYLE:
        victim.own_prayer[prayer] += 1
        victim.recent_own_prayer[victim.recent_own_prayer_count % RECENT] = prayer
        victim.recent_own_prayer_count += 1


@rule
def record_hit(attacker: Seat, victim: Seat, style: int, total: int, speed: int) -> None:
    """Updates the memories of both sides for a hit of rolled damage ``total`` (contract.md §4.2).

    ``speed`` is the attack period in ticks. Call it once per hit that is put on its way, also for misses, while prayers
    are those of the roll.
    """
    prayer = protection(victim)
    protected = victim.prayers & PROTECT_BIT[style] != 0
    _record_dealt(attacker, style, prayer, protected)
    _record_received(victim, style, prayer, protected)
    _remember_gear(victim, attacker, style)
    attacker.just_attacked = 1
    victim.was_attacked = 1
    attacker.new_attack_damage = total
    attacker.generated += total
    attacker.hit_style_now = style
    attacker.hit_off_prayer_now = not protected
    attacker.hit_with_smite_now = attacker.prayers & SMITE_BIT != 0
    attacker.hit_speed_now = speed
    attacker.hit_prayer_now = prayer


@rule
def _new_damage(seat: Seat, seen: Any) -> tuple[int, bool]:
    """Returns the damage of hitsplats that are not in ``seen``, and whether there are any; marks them as seen."""
    damage, changed = 0, False
    for splat in range(len(seen)):
        if seen[splat] != seat.splat_serial[splat]:
            seen[splat] = seat.splat_serial[splat]
            damage += seat.splat_damage[splat]
            changed = True
    return damage, changed


@rule
def refresh_hitsplats(me: Seat, foe: Seat) -> None:
    """Reads the hitsplats of both seats, once a tick (contract.md §4.3)."""
    received, _ = _new_damage(me, me.seen_own)
    dealt, changed = _new_damage(foe, me.seen_target)
    me.damage_on_me = received / me.base[HITPOINTS]
    me.damage_on_target = dealt / foe.base[HITPOINTS]
    me.sum_received += me.damage_on_me
    me.sum_dealt += me.damage_on_target
    me.target_hp_before = me.target_hp  # entry 11 lags behind: the server evaluates it before it refreshes
    if changed:
        me.target_hp = foe.level[HITPOINTS] / foe.base[HITPOINTS]


@rule
def confidence(hits: int) -> float:
    """Returns the confidence, 0 to 1, of a statistic over this number of hits."""
    return min(hits / CONFIDENT_HITS, 1.0)


@rule
def share(part: int, hits: int) -> float:
    """Returns part / hits, 0 without hits."""
    return part / hits if hits > 0 else 0.0


@rule
def recent_share(ring: Any, value: int) -> float:
    """Returns the share of a value among the last five entries; the divisor is five even if there are fewer."""
    found = 0
    for place in range(RECENT):
        found += ring[place] == value
    return found / RECENT
