"""Hits on their way, what they do when they land, and the hitsplats (mechanics.md §5, §11.4, §12)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.prayer import REDEMPTION_BIT, SMITE_BIT
from sb3_pvp.games.osrs.sim.rng import below
from sb3_pvp.games.osrs.sim.state import (
    DEFENCE,
    HITPOINTS,
    MAGIC,
    MAX_LASTING_EFFECTS,
    MAX_PENDING_DAMAGE,
    MAX_PENDING_HITS,
    MELEE,
    NECK,
    NO_ITEM,
    PRAYER,
    RING,
    WEAPON,
    Fight,
    Seat,
)

# What a hit does besides damage when it lands.
NO_EFFECT, DRAIN_DEFENCE, BLOOD_MARK, BLEED = range(4)

MARK_TICKS, MARK_DAMAGE, MARK_RANGE = 8, 25, 5
BLEED_PERIOD, BLEED_DAMAGE = 3, 5
POISON_PERIOD = 30
POISON_DAGGER, POISON_TENTACLE = 6, 12


@rule
def heal(seat: Seat, amount: int) -> None:
    """The generic heal: never above max(HPmax, HP); it is what ``playerHealedScale`` counts."""
    if seat.dying:
        return
    gained = min(amount, max(seat.base[HITPOINTS] - seat.level[HITPOINTS], 0))
    seat.level[HITPOINTS] += gained
    seat.healed += gained


@rule
def queue_damage(victim: Seat, amount: int) -> None:
    """Appends a number to the damage that waits for a hitsplat; a full queue adds it to the last one."""
    if victim.num_damage == MAX_PENDING_DAMAGE:
        victim.damage[MAX_PENDING_DAMAGE - 1] += amount
        return
    victim.damage[victim.num_damage] = amount
    victim.num_damage += 1


@rule
def pending_damage(seat: Seat) -> int:
    """All damage on its way to a seat: rolled totals of hits, and numbers that wait for a hitsplat."""
    total = 0
    for hit in range(seat.num_hits):
        total += seat.hit_total[hit]
    for place in range(seat.num_damage):
        total += seat.damage[place]
    return total


@rule
def queue_extra_damage(dealer: Seat, victim: Seat, amount: int) -> None:
    """Damage outside the attack pipeline, counted for its dealer when queued (protocol.md §4)."""
    queue_damage(victim, amount)
    dealer.extra_dealt += amount


@rule
def queue_hit(victim: Seat, delay: int, style: int, accurate: bool, effect: int, damage: int) -> int:
    """Puts a hit with one damage number on its way to the victim; returns its place in the queue."""
    place = victim.num_hits
    if place == MAX_PENDING_HITS:
        place -= 1
    else:
        victim.num_hits += 1
    victim.hit_delay[place] = delay
    victim.hit_style[place] = style
    victim.hit_accurate[place] = 1 if accurate else 0
    victim.hit_effect[place] = effect
    victim.hit_total[place] = damage
    victim.hit_numbers[place] = 1
    victim.hit_damage[place, 0] = damage
    return int(place)


@rule
def queue_four(victim: Seat, style: int, accurate: bool, first: int, second: int, third: int, fourth: int) -> int:
    """Puts a hit of four numbers on its way (dragon claws); returns its total."""
    place = queue_hit(victim, 0, style, accurate, NO_EFFECT, first)
    victim.hit_damage[place, 1] = second
    victim.hit_damage[place, 2] = third
    victim.hit_damage[place, 3] = fourth
    victim.hit_numbers[place] = 4
    victim.hit_total[place] = first + second + third + fourth
    return int(victim.hit_total[place])


@rule
def _redeem(victim: Seat, total: int) -> None:
    left = victim.level[HITPOINTS] - total
    if victim.prayers & REDEMPTION_BIT and 0 < left <= victim.base[HITPOINTS] // 10:
        heal(victim, victim.base[PRAYER] // 4)
        victim.level[PRAYER] = 0
        victim.prayers = 0


@rule
def _free_effect(ticks: NDArray[np.int64]) -> int:
    for k in range(MAX_LASTING_EFFECTS):
        if ticks[k] == 0:
            return k
    return MAX_LASTING_EFFECTS - 1


@rule
def _start_effect(victim: Seat, effect: int, accurate: bool, total: int) -> None:
    if effect == DRAIN_DEFENCE and accurate and total > 0:
        victim.level[DEFENCE] = int(0.7 * victim.level[DEFENCE])
    elif effect == BLOOD_MARK and accurate:
        victim.mark_ticks[_free_effect(victim.mark_ticks)] = 1
    elif effect == BLEED and total > 0:
        place = _free_effect(victim.bleed_left)
        victim.bleed_left[place] = total
        victim.bleed_ticks[place] = 0


@rule
def _maybe_poison(fight: Fight, attacker: Seat, victim: Seat, style: int) -> None:
    if below(fight, 21) >= 6 or style != MELEE or victim.poison > 0:
        return
    weapon = attacker.worn[WEAPON]
    if weapon == items.DRAGON_DAGGER_POISONED:
        victim.poison = POISON_DAGGER
    elif weapon == items.ABYSSAL_TENTACLE:
        victim.poison = POISON_TENTACLE
    else:
        return
    victim.poison_countdown = POISON_PERIOD
    victim.poison_count = 0


@rule
def _strike_back(attacker: Seat, victim: Seat, total: int) -> None:
    """Ring of recoil and vengeance (mechanics.md §12). The last recoil of a ring is not cut off at its 40 points."""
    if victim.worn[RING] == items.RING_OF_RECOIL:
        recoil = total // 10 + 1
        victim.recoil_left -= recoil
        if victim.recoil_left <= 0:
            victim.worn[RING] = NO_ITEM
        queue_extra_damage(victim, attacker, recoil)
    if victim.vengeance and total * 3 // 4 > 0:
        victim.vengeance = 0
        queue_extra_damage(victim, attacker, total * 3 // 4)


@rule
def land(fight: Fight, attacker: Seat, victim: Seat, place: int) -> None:
    """A hit lands, in the order of mechanics.md §5; damage is only queued here."""
    total = victim.hit_total[place]
    accurate = victim.hit_accurate[place] != 0
    style = victim.hit_style[place]
    if accurate:
        _redeem(victim, total)
        if attacker.prayers & SMITE_BIT:
            victim.level[PRAYER] = max(victim.level[PRAYER] - total // 4, 0)
    if accurate or style != MAGIC:
        for k in range(victim.hit_numbers[place]):
            queue_damage(victim, victim.hit_damage[place, k])
    _start_effect(victim, victim.hit_effect[place], accurate, total)
    if total <= 0:
        return
    _maybe_poison(fight, attacker, victim, style)
    if style == MELEE and attacker.worn[NECK] == items.AMULET_OF_BLOOD_FURY and below(fight, 101) < 20:
        heal(attacker, int(0.30 * total))
    _strike_back(attacker, victim, total)


@rule
def remove_hit(seat: Seat, place: int) -> None:
    """Takes a hit out of the queue, keeping the order of the others."""
    seat.num_hits -= 1
    for k in range(place, seat.num_hits):
        seat.hit_delay[k] = seat.hit_delay[k + 1]
        seat.hit_style[k] = seat.hit_style[k + 1]
        seat.hit_accurate[k] = seat.hit_accurate[k + 1]
        seat.hit_effect[k] = seat.hit_effect[k + 1]
        seat.hit_total[k] = seat.hit_total[k + 1]
        seat.hit_numbers[k] = seat.hit_numbers[k + 1]
        for number in range(4):
            seat.hit_damage[k, number] = seat.hit_damage[k + 1, number]


@rule
def _show(fight: Fight, seat: Seat, splat: int, amount: int) -> None:
    shown = min(amount, seat.level[HITPOINTS])
    seat.level[HITPOINTS] -= shown
    fight.splat_counter += 1
    seat.splat_serial[splat] = fight.splat_counter
    seat.splat_damage[splat] = shown
    if seat.level[HITPOINTS] == 0:
        seat.dying = 1


@rule
def show_damage(fight: Fight, seat: Seat) -> None:
    """Subtracts at most two of the waiting numbers, one hitsplat each (mechanics.md §5, step 3)."""
    shown = min(seat.num_damage, 2)
    for splat in range(shown):
        _show(fight, seat, splat, seat.damage[splat])
    seat.num_damage -= shown
    for k in range(seat.num_damage):
        seat.damage[k] = seat.damage[k + shown]


@rule
def tick_poison(seat: Seat) -> None:
    """The poison task: every 30 ticks, one less every fifth time (mechanics.md §11.4)."""
    if seat.poison == 0:
        return
    seat.poison_countdown -= 1
    if seat.poison_countdown > 0:
        return
    seat.poison_countdown = POISON_PERIOD
    seat.poison_count += 1
    if seat.poison_count % 5 == 0:
        seat.poison -= 1
    queue_damage(seat, seat.poison)
    if seat.poison <= 1:
        seat.poison = 0


@rule
def tick_lasting_effects(attacker: Seat, victim: Seat) -> None:
    """The tasks of the ancient godsword's mark and of bleeding (mechanics.md §6.2, §6.5)."""
    over = attacker.dying or victim.dying
    far = max(abs(attacker.x - victim.x), abs(attacker.y - victim.y)) >= MARK_RANGE
    for k in range(MAX_LASTING_EFFECTS):
        if victim.mark_ticks[k] > 0:
            victim.mark_ticks[k] += 1
            if over or far:
                victim.mark_ticks[k] = 0
            elif victim.mark_ticks[k] > MARK_TICKS:
                victim.mark_ticks[k] = 0
                heal(attacker, MARK_DAMAGE)
                queue_extra_damage(attacker, victim, MARK_DAMAGE)
        if victim.bleed_left[k] > 0:
            victim.bleed_ticks[k] += 1
            if over:
                victim.bleed_left[k] = 0
            elif victim.bleed_ticks[k] % BLEED_PERIOD == 0:
                amount = min(BLEED_DAMAGE, victim.bleed_left[k])
                victim.bleed_left[k] -= amount
                queue_extra_damage(attacker, victim, amount)
