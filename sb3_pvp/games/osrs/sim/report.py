"""The meta record of one seat at the end of a tick (protocol.md §4)."""

from __future__ import annotations

from typing import Any

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.consumables import brew_heal, food_heal
from sb3_pvp.games.osrs.sim.formulas import wielded_style
from sb3_pvp.games.osrs.sim.movement import distance
from sb3_pvp.games.osrs.sim.prayer import protection
from sb3_pvp.games.osrs.sim.state import (
    AGENT,
    ATTACK,
    DEFENCE,
    FREEZE_TIMER,
    HITPOINTS,
    MAGIC_LEVEL,
    NO_STYLE,
    PRAYER,
    RANGED_LEVEL,
    STRENGTH,
    Seat,
)
from sb3_pvp.games.osrs.sim.stock import ANGLERFISH, BREW_DOSES, KARAMBWANS, SHARKS, count

#: One `sb3_pvp.games.osrs.meta_fields.META_DTYPE` record, as the compiled rules get it.
Meta = Any


@rule
def write_meta(me: Seat, foe: Seat, bag: int, foe_bag: int, out: Meta) -> None:
    """Fills the record ``out``; fields of a group that is not present are 0, or `NO_STYLE` for styles.

    ``bag`` and ``foe_bag`` are the stocks of both seats.
    Call it after `statistics.refresh_hitsplats` of the tick and before `statistics.clear_tick` of the next.
    """
    _write_condition(me, foe, out)
    _write_damage(me, foe, out)
    _write_hit(me, out)
    _write_received(foe, out)
    _write_levels(me, out)
    _write_supplies(me, foe, bag, foe_bag, out)
    _write_food(me, out)
    _write_brew(me, out)


@rule
def _write_condition(me: Seat, foe: Seat, out: Meta) -> None:
    out.episode_ticks = me.ticks
    out.current_health_percent = me.level[HITPOINTS] / me.base[HITPOINTS]
    out.current_target_health_percent = foe.level[HITPOINTS] / foe.base[HITPOINTS]
    out.current_prayer_percent = me.level[PRAYER] / me.base[PRAYER]
    out.player_attack_style_type = wielded_style(me)
    out.target_attack_style_type = wielded_style(foe)
    out.current_player_prayer_type = protection(me)
    out.current_target_prayer_type = protection(foe)
    out.distance = distance(me, foe)
    out.player_frozen_ticks = me.timer[FREEZE_TIMER]
    out.target_frozen_ticks = foe.timer[FREEZE_TIMER]


@rule
def _write_damage(me: Seat, foe: Seat, out: Meta) -> None:
    out.damage_dealt = me.damage_on_target
    # The original compares the own hitsplats with themselves, so this is always zero (protocol.md §4).
    out.damage_received = 0.0
    out.damage_generated_on_target_scale = me.generated / foe.base[HITPOINTS]
    out.damage_generated_on_player_scale = foe.generated / me.base[HITPOINTS]
    out.extra_damage_dealt_on_target_scale = me.extra_dealt / foe.base[HITPOINTS]
    out.extra_damage_dealt_on_player_scale = foe.extra_dealt / me.base[HITPOINTS]
    out.player_healed_scale = me.healed / me.base[HITPOINTS]
    out.target_healed_scale = foe.healed / foe.base[HITPOINTS] if foe.driver == AGENT else 0.0


@rule
def _write_hit(me: Seat, out: Meta) -> None:
    out.hit_present = me.hit_style_now != NO_STYLE
    out.attack_type_hit = me.hit_style_now
    out.hit_off_prayer = me.hit_off_prayer_now != 0
    out.hit_with_smite = me.hit_with_smite_now != 0
    out.player_hit_attack_speed = me.hit_speed_now
    out.target_prayer_type = me.hit_prayer_now


@rule
def _write_received(foe: Seat, out: Meta) -> None:
    received = foe.hit_style_now != NO_STYLE
    out.received_present = received
    out.attack_type_received = foe.hit_style_now
    out.protected_prayer = received and foe.hit_off_prayer_now == 0
    out.target_attacked_with_smite = foe.hit_with_smite_now != 0
    out.target_hit_attack_speed = foe.hit_speed_now
    out.player_prayer_type = foe.hit_prayer_now


@rule
def _write_levels(me: Seat, out: Meta) -> None:
    out.attack_level_scale = me.level[ATTACK] / me.base[ATTACK]
    out.strength_level_scale = me.level[STRENGTH] / me.base[STRENGTH]
    out.defence_level_scale = me.level[DEFENCE] / me.base[DEFENCE]
    out.ranged_level_scale = me.level[RANGED_LEVEL] / me.base[RANGED_LEVEL]
    out.magic_level_scale = me.level[MAGIC_LEVEL] / me.base[MAGIC_LEVEL]


@rule
def _food_kinds(bag: int) -> int:
    return int(count(bag, SHARKS) > 0) + int(count(bag, ANGLERFISH) > 0) + int(count(bag, KARAMBWANS) > 0)


@rule
def _food_scale(seat: Seat, bag: int) -> float:
    heal = count(bag, SHARKS) * food_heal(seat, items.SHARK)
    heal += count(bag, ANGLERFISH) * food_heal(seat, items.ANGLERFISH)
    heal += count(bag, KARAMBWANS) * food_heal(seat, items.KARAMBWAN)
    return float(heal / seat.base[HITPOINTS])


@rule
def _brew_scale(seat: Seat, bag: int) -> float:
    return float(count(bag, BREW_DOSES) * brew_heal(seat.base[HITPOINTS]) / seat.base[HITPOINTS])


@rule
def _write_supplies(me: Seat, foe: Seat, bag: int, foe_bag: int, out: Meta) -> None:
    # The wire calls it a count, but it is the number of different foods (protocol.md §4).
    out.food_count = _food_kinds(bag)
    out.target_food_count = _food_kinds(foe_bag)
    out.remaining_food_scale = _food_scale(me, bag)
    out.target_remaining_food_scale = _food_scale(foe, foe_bag)
    out.remaining_brew_scale = _brew_scale(me, bag)
    out.target_remaining_brew_scale = _brew_scale(foe, foe_bag)


@rule
def _write_food(me: Seat, out: Meta) -> None:
    full = me.base[HITPOINTS]
    out.eat_food_present = me.food_eaten > 0
    out.eat_at_food_scale = me.eat_at / full
    out.eat_to_food_scale = me.eat_to / full
    out.eaten_food_scale = me.eaten / full
    out.wasted_food_present = me.food_wasted > 0
    out.wasted_food_scale = me.food_wasted / full


@rule
def _write_brew(me: Seat, out: Meta) -> None:
    full = me.base[HITPOINTS]
    out.eat_brew_present = me.brew_drunk > 0
    out.eat_at_brew_scale = me.brew_at / full
    out.eat_to_brew_scale = me.brew_to / full
    out.wasted_brew_present = me.brew_wasted > 0
    out.wasted_brew_scale = me.brew_wasted / full
