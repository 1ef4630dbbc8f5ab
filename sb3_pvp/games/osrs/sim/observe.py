"""The observation of one seat at the end of a tick (contract.md §4.4): the current state of the fight.

The entries from memory are in `observe_memory`, those about loadouts in `observe_loadout`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import availability as available
from sb3_pvp.games.osrs.sim import items, stock
from sb3_pvp.games.osrs.sim.availability import remaining, ticks_to_hit
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.consumables import combat_share, ranging_boost
from sb3_pvp.games.osrs.sim.damage import pending_damage
from sb3_pvp.games.osrs.sim.formulas import wielded_style
from sb3_pvp.games.osrs.sim.movement import distance
from sb3_pvp.games.osrs.sim.observe_loadout import write_base_levels, write_loadout, write_visible_gear
from sb3_pvp.games.osrs.sim.observe_memory import write_memory
from sb3_pvp.games.osrs.sim.prayer import PROTECT_BIT, REDEMPTION_BIT, SMITE_BIT
from sb3_pvp.games.osrs.sim.specials import IS_MELEE_SPECIAL
from sb3_pvp.games.osrs.sim.spells import BLOOD_BARRAGE, ICE_BARRAGE, SPELL_LEVEL
from sb3_pvp.games.osrs.sim.state import (
    ATTACK,
    ATTACK_TIMER,
    DEFENCE,
    FOOD_TIMER,
    FREEZE_IMMUNITY_TIMER,
    FREEZE_TIMER,
    HITPOINTS,
    KARAMBWAN_TIMER,
    LMS,
    MAGIC,
    MAGIC_LEVEL,
    MELEE,
    POTION_TIMER,
    PRAYER,
    PVP_ARENA,
    RANGED,
    RANGED_LEVEL,
    STRENGTH,
    VENGEANCE_TIMER,
    WEAPON,
    Fight,
    Seat,
)

obs = load_contract("NhEnv").observation_numbers

FARTHEST = 7  # tiles; larger distances are clipped to this
FREE_EATING_TICKS = 3  # food costs no attack time once the weapon has been ready for this long


@rule
def observe(me: Seat, foe: Seat, fight: Fight, bag: int, starts: bool, out: NDArray[np.float32]) -> None:
    """Writes the observation of ``me``, whose stock is ``bag``, into ``out`` (176,).

    Call it after `statistics.refresh_hitsplats` of the tick. It also records the target's tile (LASTTILE). All values
    are written if the fight ``starts``; later, ``out`` must hold those of the tick before.
    """
    _write_own_stance(me, out)
    _write_target_stance(foe, out)
    _write_health(me, out)
    _write_supplies(me, bag, out)
    _write_levels(me, out)
    _write_timers(me, foe, out)
    _write_hits(me, foe, out)
    _write_position(me, foe, out)
    _write_rules_and_spells(me, foe, fight, out)
    _write_available(me, foe, bag, out)
    write_memory(me, starts, out)
    write_visible_gear(foe, out)
    if starts:  # a third of all entries; they stay as they are
        write_base_levels(me, out)
        write_loadout(me, out)
    # What movement orders of the next tick aim at, and what its masks are computed from (mechanics.md §13.5).
    me.last_x = foe.x
    me.last_y = foe.y


@rule
def _wields_special(seat: Seat) -> bool:
    weapon = seat.worn[WEAPON]
    return bool(weapon >= 0 and IS_MELEE_SPECIAL[weapon] != 0)


@rule
def _write_own_stance(me: Seat, out: NDArray[np.float32]) -> None:
    style = wielded_style(me)
    out[obs.player_using_melee] = style == MELEE
    out[obs.player_using_ranged] = style == RANGED
    out[obs.player_using_mage] = style == MAGIC
    out[obs.player_spec_equipped] = _wields_special(me)
    out[obs.special_energy_percent] = me.energy
    out[obs.player_melee_prayer] = me.prayers & PROTECT_BIT[MELEE] != 0
    out[obs.player_ranged_prayer] = me.prayers & PROTECT_BIT[RANGED] != 0
    out[obs.player_magic_prayer] = me.prayers & PROTECT_BIT[MAGIC] != 0
    out[obs.player_smite_prayer] = me.prayers & SMITE_BIT != 0
    out[obs.player_redemption_prayer] = me.prayers & REDEMPTION_BIT != 0


@rule
def _write_target_stance(foe: Seat, out: NDArray[np.float32]) -> None:
    style = wielded_style(foe)
    out[obs.target_using_melee] = style == MELEE
    out[obs.target_using_ranged] = style == RANGED
    out[obs.target_using_mage] = style == MAGIC
    out[obs.target_spec_equipped] = _wields_special(foe)
    out[obs.target_special_percent] = foe.energy
    out[obs.target_melee_prayer] = foe.prayers & PROTECT_BIT[MELEE] != 0
    out[obs.target_ranged_prayer] = foe.prayers & PROTECT_BIT[RANGED] != 0
    out[obs.target_magic_prayer] = foe.prayers & PROTECT_BIT[MAGIC] != 0
    out[obs.target_smite_prayer] = foe.prayers & SMITE_BIT != 0
    out[obs.target_redemption_prayer] = foe.prayers & REDEMPTION_BIT != 0


@rule
def _write_health(me: Seat, out: NDArray[np.float32]) -> None:
    out[obs.player_health_percent] = me.level[HITPOINTS] / me.base[HITPOINTS]
    out[obs.target_health_percent] = me.target_hp_before
    out[obs.damage_on_player_tick] = me.damage_on_me
    out[obs.damage_on_target_tick] = me.damage_on_target


@rule
def _write_supplies(me: Seat, bag: int, out: NDArray[np.float32]) -> None:
    out[obs.range_potion_doses] = stock.count(bag, stock.RANGING_DOSES)
    out[obs.combat_potion_doses] = stock.count(bag, stock.COMBAT_DOSES)
    out[obs.super_restore_doses] = stock.count(bag, stock.RESTORE_DOSES)
    out[obs.brew_doses] = stock.count(bag, stock.BREW_DOSES)
    # Sharks are not counted here though they are eaten first (contract.md §4.4, entry 26).
    out[obs.food_count] = stock.count(bag, stock.ANGLERFISH)
    out[obs.karambwan_count] = stock.count(bag, stock.KARAMBWANS)
    out[obs.prayer_points] = me.level[PRAYER] / me.base[PRAYER]
    out[obs.is_food_anglerfish] = stock.primary_food(bag) == items.ANGLERFISH


@rule
def _write_levels(me: Seat, out: NDArray[np.float32]) -> None:
    out[obs.strength_level] = combat_share(me, STRENGTH)
    out[obs.attack_level] = combat_share(me, ATTACK)
    out[obs.defense_level] = combat_share(me, DEFENCE)
    ranged = me.base[RANGED_LEVEL]
    out[obs.ranged_level] = me.level[RANGED_LEVEL] / (ranged + ranging_boost(ranged))
    out[obs.magic_level] = me.level[MAGIC_LEVEL] / me.base[MAGIC_LEVEL]


@rule
def _food_attack_delay(me: Seat) -> int:
    # The uncapped counter as the next action sees it, shifted to 0..3 (mechanics.md §18).
    return int(min(max(me.attack_counter - 1, -FREE_EATING_TICKS), 0) + FREE_EATING_TICKS)


@rule
def _write_timers(me: Seat, foe: Seat, out: NDArray[np.float32]) -> None:
    out[obs.player_frozen_ticks] = remaining(me, FREEZE_TIMER)
    out[obs.target_frozen_ticks] = remaining(foe, FREEZE_TIMER)
    out[obs.player_frozen_immunity_ticks] = remaining(me, FREEZE_IMMUNITY_TIMER)
    out[obs.target_frozen_immunity_ticks] = remaining(foe, FREEZE_IMMUNITY_TIMER)
    out[obs.attack_cycle_ticks] = remaining(me, ATTACK_TIMER)
    out[obs.food_cycle_ticks] = remaining(me, FOOD_TIMER)
    out[obs.potion_cycle_ticks] = remaining(me, POTION_TIMER)
    out[obs.karambwan_cycle_ticks] = remaining(me, KARAMBWAN_TIMER)
    out[obs.food_attack_delay] = _food_attack_delay(me)
    out[obs.target_attack_cycle_ticks] = remaining(foe, ATTACK_TIMER)
    # The name says potion, but it is the food timer (contract.md §4.4, entry 45).
    out[obs.target_potion_cycle_ticks] = remaining(foe, FOOD_TIMER)
    out[obs.player_veng_cooldown_ticks] = remaining(me, VENGEANCE_TIMER)
    out[obs.target_veng_cooldown_ticks] = remaining(foe, VENGEANCE_TIMER)


@rule
def _write_hits(me: Seat, foe: Seat, out: NDArray[np.float32]) -> None:
    out[obs.pending_damage_on_target] = pending_damage(foe) / foe.base[HITPOINTS]
    out[obs.ticks_until_hit_on_target] = ticks_to_hit(foe)
    out[obs.ticks_until_hit_on_player] = ticks_to_hit(me)
    out[obs.player_just_attacked] = me.just_attacked
    out[obs.target_just_attacked] = me.was_attacked
    out[obs.tick_new_attack_damage] = me.new_attack_damage / foe.base[HITPOINTS]
    out[obs.player_attacking_target] = me.targeting


@rule
def _write_position(me: Seat, foe: Seat, out: NDArray[np.float32]) -> None:
    goal_x, goal_y = (me.goal_x, me.goal_y) if me.walking else (me.x, me.y)
    goal_to_target = max(abs(goal_x - foe.x), abs(goal_y - foe.y))
    me_to_goal = max(abs(goal_x - me.x), abs(goal_y - me.y))
    out[obs.player_location_can_melee] = available.melee_range(me, foe)
    out[obs.player_is_moving] = me.moving
    out[obs.target_is_moving] = foe.moving
    out[obs.player_has_pid] = me.pid < foe.pid
    out[obs.destination_to_target_distance] = min(goal_to_target, FARTHEST)
    out[obs.player_to_destination_distance] = min(me_to_goal, FARTHEST)
    out[obs.player_to_target_distance] = min(distance(me, foe), FARTHEST)


@rule
def _write_rules_and_spells(me: Seat, foe: Seat, fight: Fight, out: NDArray[np.float32]) -> None:
    ancient = me.lunar == 0
    out[obs.ice_barrage_usable] = ancient and me.level[MAGIC_LEVEL] >= SPELL_LEVEL[ICE_BARRAGE]
    out[obs.blood_barrage_usable] = ancient and me.level[MAGIC_LEVEL] >= SPELL_LEVEL[BLOOD_BARRAGE]
    out[obs.is_lms_restrictions] = fight.fight_type == LMS
    out[obs.is_pvp_arena_rules] = fight.fight_type == PVP_ARENA
    out[obs.is_veng_active] = me.vengeance
    out[obs.is_target_veng_active] = foe.vengeance
    out[obs.is_player_lunar_spellbook] = me.lunar
    out[obs.is_target_lunar_spellbook] = me.target_lunar


@rule
def _write_available(me: Seat, foe: Seat, bag: int, out: NDArray[np.float32]) -> None:
    out[obs.is_blood_magic_attack_available] = available.blood(me)
    out[obs.is_ice_magic_attack_available] = available.ice(me)
    out[obs.is_magic_spec_attack_available] = available.magic_special(me)
    out[obs.is_range_attack_available] = available.ranged(me, bag)
    out[obs.is_range_spec_attack_available] = available.ranged_special(me, bag)
    out[obs.is_melee_attack_available] = available.melee(me, foe, bag)
    out[obs.is_melee_spec_attack_available] = available.melee_special(me, foe, bag)
