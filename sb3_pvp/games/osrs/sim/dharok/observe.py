"""The observation of one seat at the end of a tick (contract.md §6.4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import items, stock
from sb3_pvp.games.osrs.sim.availability import remaining
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.consumables import combat_share
from sb3_pvp.games.osrs.sim.damage import pending_damage
from sb3_pvp.games.osrs.sim.specials import FULL_ENERGY
from sb3_pvp.games.osrs.sim.state import (
    ATTACK,
    ATTACK_TIMER,
    BODY,
    DEFENCE,
    FOOD_TIMER,
    HITPOINTS,
    KARAMBWAN_TIMER,
    POTION_TIMER,
    PRAYER,
    STRENGTH,
    VENGEANCE_TIMER,
    WEAPON,
    Fight,
    Seat,
)

obs = load_contract("DharokEnv").observation_numbers

#: The units of timers: the longest attack, and the time between two bites, as the next action sees them (1 less).
ATTACK_TICKS, CONSUME_TICKS = 6.0, 2.0
#: The uncapped attack counter is clipped to these bounds and scaled to 0..1.
LOWEST_COUNTER, HIGHEST_COUNTER = -2, 1


@rule
def observe(me: Seat, foe: Seat, fight: Fight, bag: int, starts: bool, out: NDArray[np.float32]) -> None:
    """Writes the observation of ``me``, whose stock is ``bag``, into ``out`` (40,).

    Call it after `statistics.refresh_hitsplats` of the tick. All values are written, whatever ``out`` held before.
    """
    _write_gear(me, foe, out)
    _write_bodies(me, foe, out)
    _write_supplies(bag, out)
    _write_timers(me, foe, out)
    _write_hits(me, foe, out)
    _write_vengeance(me, foe, out)


@rule
def _write_gear(me: Seat, foe: Seat, out: NDArray[np.float32]) -> None:
    out[obs.player_using_whip] = me.worn[WEAPON] == items.ABYSSAL_TENTACLE
    out[obs.player_using_maul] = me.worn[WEAPON] == items.GRANITE_MAUL
    out[obs.player_using_axe] = me.worn[WEAPON] == items.DHAROKS_GREATAXE
    out[obs.target_using_whip] = foe.worn[WEAPON] == items.ABYSSAL_TENTACLE
    out[obs.target_using_maul] = foe.worn[WEAPON] == items.GRANITE_MAUL
    out[obs.target_using_axe] = foe.worn[WEAPON] == items.DHAROKS_GREATAXE
    out[obs.player_armor_unequipped] = me.worn[BODY] != items.DHAROKS_PLATEBODY
    out[obs.target_armor_unequipped] = foe.worn[BODY] != items.DHAROKS_PLATEBODY


@rule
def _write_bodies(me: Seat, foe: Seat, out: NDArray[np.float32]) -> None:
    out[obs.special_energy_percent] = me.energy / FULL_ENERGY
    out[obs.target_special_percent] = foe.energy / FULL_ENERGY
    out[obs.player_health_percent] = me.level[HITPOINTS] / me.base[HITPOINTS]
    out[obs.target_health_percent] = foe.level[HITPOINTS] / foe.base[HITPOINTS]
    out[obs.prayer_points] = me.level[PRAYER] / me.base[PRAYER]
    out[obs.strength_level] = combat_share(me, STRENGTH)
    out[obs.attack_level] = combat_share(me, ATTACK)
    out[obs.defense_level] = combat_share(me, DEFENCE)
    out[obs.player_has_pid] = me.pid < foe.pid


@rule
def _write_supplies(bag: int, out: NDArray[np.float32]) -> None:
    out[obs.combat_potion_doses] = stock.count(bag, stock.COMBAT_DOSES)
    out[obs.super_restore_doses] = stock.count(bag, stock.RESTORE_DOSES)
    out[obs.brew_doses] = stock.count(bag, stock.BREW_DOSES)
    out[obs.food_count] = stock.count(bag, stock.ANGLERFISH)
    out[obs.karambwan_count] = stock.count(bag, stock.KARAMBWANS)


@rule
def _food_attack_delay(me: Seat) -> float:
    counter = min(max(me.attack_counter, LOWEST_COUNTER), HIGHEST_COUNTER)
    return float((counter - LOWEST_COUNTER) / (HIGHEST_COUNTER - LOWEST_COUNTER))


@rule
def _write_timers(me: Seat, foe: Seat, out: NDArray[np.float32]) -> None:
    out[obs.attack_cycle_ticks] = remaining(me, ATTACK_TIMER) / ATTACK_TICKS
    out[obs.food_cycle_ticks] = remaining(me, FOOD_TIMER) / CONSUME_TICKS
    out[obs.potion_cycle_ticks] = remaining(me, POTION_TIMER) / CONSUME_TICKS
    out[obs.karambwan_cycle_ticks] = remaining(me, KARAMBWAN_TIMER) / CONSUME_TICKS
    out[obs.food_attack_delay_scale] = _food_attack_delay(me)
    out[obs.target_attack_cycle_ticks] = remaining(foe, ATTACK_TIMER) / ATTACK_TICKS
    # The name says potion, but it is the food timer (contract.md §6.4, entry 25).
    out[obs.target_potion_cycle_ticks] = remaining(foe, FOOD_TIMER) / CONSUME_TICKS


@rule
def _write_hits(me: Seat, foe: Seat, out: NDArray[np.float32]) -> None:
    out[obs.pending_damage_on_target] = pending_damage(foe) / foe.base[HITPOINTS]
    out[obs.is_damage_pending_on_player] = pending_damage(me) > 0
    out[obs.player_just_attacked] = me.just_attacked
    out[obs.target_just_attacked] = me.was_attacked
    out[obs.tick_new_attack_damage] = me.new_attack_damage / foe.base[HITPOINTS]
    out[obs.damage_on_player_tick] = me.damage_on_me
    out[obs.damage_on_target_tick] = me.damage_on_target


@rule
def _write_vengeance(me: Seat, foe: Seat, out: NDArray[np.float32]) -> None:
    out[obs.player_veng_available] = remaining(me, VENGEANCE_TIMER) == 0
    out[obs.player_has_veng_cast] = me.vengeance
    out[obs.target_veng_available] = remaining(foe, VENGEANCE_TIMER) == 0
    out[obs.target_has_veng_cast] = foe.vengeance
