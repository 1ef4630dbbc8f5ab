"""Hitpoints: the generic heal, damage that waits for a hitsplat, and the hitsplats (mechanics.md §5)."""

from __future__ import annotations

from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.state import HITPOINTS, MAX_PENDING_DAMAGE, Fight, Seat

HITSPLATS_PER_TICK = 2  # a primary and a secondary one; four-number hits (dragon claws) need two ticks


@rule
def heal(seat: Seat, amount: int) -> None:
    """Heals for spells, effects and redemption: never above the base level; ``playerHealedScale`` counts it."""
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
def queue_extra_damage(dealer: Seat, victim: Seat, amount: int) -> None:
    """Queues damage outside the attack pipeline; the meta record counts it when it is queued (protocol.md §4)."""
    queue_damage(victim, amount)
    dealer.extra_dealt += amount


@rule
def pending_damage(seat: Seat) -> int:
    """Returns all damage on its way to a seat: totals of hits, and numbers that wait for a hitsplat."""
    total = 0
    for hit in range(seat.num_hits):
        total += seat.hit_total[hit]
    for place in range(seat.num_damage):
        total += seat.damage[place]
    return total


@rule
def _show_hitsplat(fight: Fight, seat: Seat, splat: int, amount: int) -> None:
    shown = min(amount, seat.level[HITPOINTS])
    seat.level[HITPOINTS] -= shown
    # Serial numbers let observers recognise a new hitsplat even if it shows the same damage as the last one.
    fight.splat_counter += 1
    seat.splat_serial[splat] = fight.splat_counter
    seat.splat_damage[splat] = shown
    if seat.level[HITPOINTS] == 0:
        seat.dying = 1


@rule
def show_damage(fight: Fight, seat: Seat) -> None:
    """Subtracts at most two of the waiting numbers, one hitsplat each (mechanics.md §5, step 3)."""
    shown = min(seat.num_damage, HITSPLATS_PER_TICK)
    for splat in range(shown):
        _show_hitsplat(fight, seat, splat, seat.damage[splat])
    seat.num_damage -= shown
    for k in range(seat.num_damage):
        seat.damage[k] = seat.damage[k + shown]
