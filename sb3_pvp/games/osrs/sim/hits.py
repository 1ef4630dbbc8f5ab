"""Hits on their way, and what they do when they land (mechanics.md §5, §11.4, §12).

One function per rule: smite and redemption are in `prayer`, vengeance in `vengeance`, hitsplats in `damage`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.damage import heal, queue_damage, queue_extra_damage
from sb3_pvp.games.osrs.sim.prayer import SMITE_BIT, drain_by_smite, redeem
from sb3_pvp.games.osrs.sim.rng import below
from sb3_pvp.games.osrs.sim.state import (
    DEFENCE,
    MAGIC,
    MAX_HIT_NUMBERS,
    MAX_LASTING_EFFECTS,
    MAX_PENDING_HITS,
    MELEE,
    NECK,
    NO_ITEM,
    RING,
    WEAPON,
    Fight,
    Seat,
)
from sb3_pvp.games.osrs.sim.vengeance import strike_back

# What a hit does besides damage when it lands.
NO_EFFECT, DRAIN_DEFENCE, BLOOD_MARK, BLEED = range(4)

STATIUS_KEEPS = 0.7  # of the defence level, after a hit of Statius's warhammer (mechanics.md §6)
# Ancient godsword: ticks from landing to the blood sacrifice, its damage and heal, and the tiles that escape it (§6.2).
MARK_TICKS, MARK_DAMAGE, MARK_RANGE = 8, 25, 5
BLEED_PERIOD, BLEED_DAMAGE = 3, 5  # Morrigan's javelin: ticks between two numbers, and the most that one takes (§6.5)
# Poison (mechanics.md §11.4): 6 chances in 21, every 30 ticks, one damage less every fifth time.
# Of the tasks, a byte each: a record keeps the size that it had when there was one task, and older snapshots fit.
MAX_POISON_TASKS, TASK_BITS, TASK_MASK = 7, 8, 255
POISON_CHANCES, POISON_BOUND = 6, 21
POISON_PERIOD, POISON_WEAKENS_EVERY = 30, 5
POISON_DAGGER, POISON_TENTACLE = 6, 12  # damage of the first time
BLOOD_FURY_CHANCES, BLOOD_FURY_BOUND = 20, 101  # 20 chances in 101 (mechanics.md §5)
BLOOD_FURY_HEAL = 0.30  # of the damage
RECOIL_DIVISOR = 10  # a ring of recoil returns a tenth of the damage, and 1 (mechanics.md §12)


@rule
def queue_hit(victim: Seat, delay: int, style: int, accurate: bool, effect: int, damage: int) -> int:
    """Puts a hit with one damage number on its way to the victim; returns its place in the queue."""
    place = victim.num_hits
    if place == MAX_PENDING_HITS:
        place -= 1  # a full queue overwrites its newest hit
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
    victim.hit_numbers[place] = MAX_HIT_NUMBERS
    victim.hit_total[place] = first + second + third + fourth
    return int(victim.hit_total[place])


@rule
def _free_effect(ticks: NDArray[np.int64]) -> int:
    for k in range(MAX_LASTING_EFFECTS):
        if ticks[k] == 0:
            return k
    return MAX_LASTING_EFFECTS - 1


@rule
def _start_effect(victim: Seat, effect: int, accurate: bool, total: int) -> None:
    """Starts what a special attack does on landing (mechanics.md §5, landing, point 4)."""
    if effect == DRAIN_DEFENCE and accurate and total > 0:
        victim.level[DEFENCE] = int(STATIUS_KEEPS * victim.level[DEFENCE])
    elif effect == BLOOD_MARK and accurate:
        victim.mark_ticks[_free_effect(victim.mark_ticks)] = 1
    elif effect == BLEED and total > 0:
        place = _free_effect(victim.bleed_left)
        victim.bleed_left[place] = total
        victim.bleed_ticks[place] = 0


@rule
def _maybe_poison(fight: Fight, attacker: Seat, victim: Seat, style: int) -> None:
    """Poisons the victim of a poisonous melee weapon, by chance (mechanics.md §11.4)."""
    # Every damaging hit draws, also one that cannot poison: one draw less would change the rest of the fight.
    if below(fight, POISON_BOUND) >= POISON_CHANCES or style != MELEE or victim.poison > 0:
        return
    weapon = attacker.worn[WEAPON]  # what is wielded now, not what made the attack
    if weapon == items.DRAGON_DAGGER_POISONED:
        _start_poison(victim, POISON_DAGGER)
    elif weapon == items.ABYSSAL_TENTACLE:
        _start_poison(victim, POISON_TENTACLE)


@rule
def _start_poison(victim: Seat, damage: int) -> None:
    """Starts one more poison task: those of the login's earlier fights may still run, see `tick_poison`."""
    victim.poison = damage
    for task in range(MAX_POISON_TASKS):
        place = task * TASK_BITS
        if not victim.poison_countdown >> place & TASK_MASK:
            victim.poison_countdown += POISON_PERIOD << place
            victim.poison_count &= ~(TASK_MASK << place)
            return


@rule
def _blood_fury(fight: Fight, attacker: Seat, style: int, total: int) -> None:
    """The amulet of blood fury: a melee hit heals its attacker, by chance (mechanics.md §5, landing, point 6)."""
    worn = style == MELEE and attacker.worn[NECK] == items.AMULET_OF_BLOOD_FURY
    if worn and below(fight, BLOOD_FURY_BOUND) < BLOOD_FURY_CHANCES:
        heal(attacker, int(BLOOD_FURY_HEAL * total))


@rule
def _recoil(attacker: Seat, victim: Seat, total: int) -> None:
    """The ring of recoil (mechanics.md §12). Its last recoil is not cut off at the 40 points of a ring."""
    if victim.worn[RING] == items.RING_OF_RECOIL:
        recoil = total // RECOIL_DIVISOR + 1
        victim.recoil_left -= recoil
        if victim.recoil_left <= 0:
            victim.worn[RING] = NO_ITEM
        queue_extra_damage(victim, attacker, recoil)


@rule
def land(fight: Fight, attacker: Seat, victim: Seat, place: int) -> None:
    """Lands a hit, in the order of mechanics.md §5; damage is only queued here."""
    total = victim.hit_total[place]
    accurate = victim.hit_accurate[place] != 0
    style = victim.hit_style[place]
    if accurate:
        redeem(victim, total)
        if attacker.prayers & SMITE_BIT:
            drain_by_smite(victim, total)
    if accurate or style != MAGIC:  # a splash shows no hitsplat, a missed arrow or blow shows a 0
        for k in range(victim.hit_numbers[place]):
            queue_damage(victim, victim.hit_damage[place, k])
    _start_effect(victim, victim.hit_effect[place], accurate, total)
    if total <= 0:
        return
    _maybe_poison(fight, attacker, victim, style)
    _blood_fury(fight, attacker, style, total)
    _recoil(attacker, victim, total)
    strike_back(victim, attacker, total)


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
        for number in range(MAX_HIT_NUMBERS):
            seat.hit_damage[k, number] = seat.hit_damage[k + 1, number]


@rule
def tick_poison(seat: Seat) -> None:
    """Runs the poison tasks: damage every 30 ticks, one less every fifth time of each (mechanics.md §11.4)."""
    for task in range(MAX_POISON_TASKS if seat.poison_countdown else 0):
        place = task * TASK_BITS
        left = seat.poison_countdown >> place & TASK_MASK
        if left == 0:
            continue
        seat.poison_countdown -= 1 << place
        if left > 1 or seat.poison == 0:  # not due yet; or it ends, since a reset or another task has ended the poison
            continue
        count = ((seat.poison_count >> place & TASK_MASK) + 1) % POISON_WEAKENS_EVERY
        seat.poison_count = seat.poison_count & ~(TASK_MASK << place) | count << place
        if count == 0:
            seat.poison -= 1
        queue_damage(seat, seat.poison)
        if seat.poison <= 1:
            seat.poison = 0
        else:
            seat.poison_countdown += POISON_PERIOD << place


@rule
def tick_lasting_effects(attacker: Seat, victim: Seat) -> None:
    """Runs the tasks of the ancient godsword's mark and of bleeding (mechanics.md §6.2, §6.5)."""
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
