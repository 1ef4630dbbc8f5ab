"""What a fighter could do with its next action: the predicates of nh-actions.md §4.

Masks and observations show the same predicates. They take the seat they are about (``me``), its opponent (``foe``)
and, where supplies or free slots matter, the `stock` of ``me``. Names in capitals are those of the specification.
"""

from __future__ import annotations

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.consumables import brew_defence_boost, combat_boost, ranging_boost
from sb3_pvp.games.osrs.sim.specials import SPECIAL_COST
from sb3_pvp.games.osrs.sim.spells import BLOOD_RUSH, ICE_RUSH, SPELL_LEVEL
from sb3_pvp.games.osrs.sim.state import (
    ATTACK,
    ATTACK_TIMER,
    DEFENCE,
    FOOD_TIMER,
    FREEZE_TIMER,
    HITPOINTS,
    KARAMBWAN_TIMER,
    LMS,
    MAGE_SET,
    MAGIC_LEVEL,
    MELEE_SET,
    NO_ITEM,
    POTION_TIMER,
    PRAYER,
    RANGED_LEVEL,
    RANGED_SET,
    SHIELD,
    SPEC_SET,
    STRENGTH,
    VENGEANCE_TIMER,
    Fight,
    Seat,
)
from sb3_pvp.games.osrs.sim.stock import (
    ANGLERFISH,
    BREW_DOSES,
    COMBAT_DOSES,
    FREE_SLOTS,
    KARAMBWANS,
    RANGING_DOSES,
    RESTORE_DOSES,
    count,
    primary_food,
)


@rule
def remaining(seat: Seat, timer: int) -> int:
    """Returns the ticks of a countdown as the seat's next action sees it: 0 is usable (contract.md §4.1, "rem")."""
    return int(max(seat.timer[timer] - 1, 0))  # 1 less: timers count down before the action of a tick


@rule
def ready(me: Seat) -> bool:
    """READY: the next action may attack."""
    return remaining(me, ATTACK_TIMER) == 0


@rule
def gear_ok(me: Seat) -> bool:
    """GEAR-OK: attack orders are allowed now."""
    return me.only_switch_gear_when_attack_soon == 0 or ready(me)


@rule
def mobile(seat: Seat) -> bool:
    """MOBILE: the seat is not frozen when its next action counts."""
    return remaining(seat, FREEZE_TIMER) == 0


@rule
def melee_range(me: Seat, foe: Seat) -> bool:
    """MELEE-RANGE: the seats are orthogonally adjacent."""
    return bool(abs(me.x - foe.x) + abs(me.y - foe.y) == 1)


@rule
def can_melee(me: Seat, foe: Seat) -> bool:
    """CAN-MELEE: next to the target, or able to walk there."""
    return melee_range(me, foe) or mobile(me)


@rule
def hands_free(me: Seat, stock: int, gear_set: int) -> bool:
    """TWOHAND: a gear set can be worn; a two-handed weapon needs a free slot if a shield is worn."""
    return me.set_two_handed[gear_set] == 0 or count(stock, FREE_SLOTS) > 0 or me.worn[SHIELD] == NO_ITEM


@rule
def _ancient_spell(me: Seat, level: int) -> bool:
    return me.lunar == 0 and me.set_length[MAGE_SET] > 0 and me.level[MAGIC_LEVEL] >= level and gear_ok(me)


@rule
def ice(me: Seat) -> bool:
    """ICE: an ice spell can be cast."""
    return _ancient_spell(me, SPELL_LEVEL[ICE_RUSH])


@rule
def blood(me: Seat) -> bool:
    """BLOOD: a blood spell can be cast and would heal."""
    return _ancient_spell(me, SPELL_LEVEL[BLOOD_RUSH]) and hurt(me)


@rule
def set_contains(me: Seat, gear_set: int, item: int) -> bool:
    """Whether a gear set of the loadout holds an item (by index)."""
    found = False
    for position in range(me.set_length[gear_set]):
        found |= me.gear_set[gear_set, position] == item
    return found


@rule
def magic_special(me: Seat) -> bool:
    """MAGE_SPEC: the nightmare staff's special."""
    staff = items.VOLATILE_NIGHTMARE_STAFF
    return gear_ok(me) and me.energy >= SPECIAL_COST[staff] and set_contains(me, MAGE_SET, staff)


@rule
def _has_energy_for(me: Seat, weapon: int) -> bool:
    return weapon != NO_ITEM and me.energy >= SPECIAL_COST[weapon]


@rule
def ranged(me: Seat, stock: int) -> bool:
    """RANGED: a basic ranged attack, whatever the ammunition."""
    return gear_ok(me) and hands_free(me, stock, RANGED_SET)


@rule
def ranged_special(me: Seat, stock: int) -> bool:
    """RANGED_SPEC: the special attack of the ranged set's weapon."""
    return ranged(me, stock) and _has_energy_for(me, me.ranged_spec)


@rule
def melee(me: Seat, foe: Seat, stock: int) -> bool:
    """MELEE: a basic melee attack."""
    return gear_ok(me) and can_melee(me, foe) and hands_free(me, stock, MELEE_SET)


@rule
def melee_special(me: Seat, foe: Seat, stock: int) -> bool:
    """MELEE_SPEC: the special attack of the special set; a granite maul does not wait for the attack timer."""
    in_time = gear_ok(me) or me.melee_spec == items.GRANITE_MAUL
    return in_time and can_melee(me, foe) and hands_free(me, stock, SPEC_SET) and _has_energy_for(me, me.melee_spec)


@rule
def hurt(me: Seat) -> bool:
    """Whether hitpoints are below their base level."""
    return bool(me.level[HITPOINTS] < me.base[HITPOINTS])


@rule
def drinks(me: Seat, stock: int, doses: int) -> bool:
    """POT: a dose is there and the potion timer is free."""
    return remaining(me, POTION_TIMER) == 0 and count(stock, doses) > 0


@rule
def brew(me: Seat, stock: int) -> bool:
    """A brew can be drunk and would raise defence by two or more, or hitpoints."""
    base = me.base[DEFENCE]
    raises_defence = me.level[DEFENCE] < base + brew_defence_boost(base) - 1
    return drinks(me, stock, BREW_DOSES) and (raises_defence or me.level[HITPOINTS] <= me.base[HITPOINTS])


@rule
def restore(me: Seat, stock: int) -> bool:
    """A restore can be drunk and some level except hitpoints is lowered."""
    lowered = False
    for skill in (ATTACK, STRENGTH, DEFENCE, RANGED_LEVEL, MAGIC_LEVEL, PRAYER):
        lowered |= me.level[skill] < me.base[skill]
    return lowered and drinks(me, stock, RESTORE_DOSES)


@rule
def _boosts(me: Seat, skill: int, boost: int) -> bool:
    return bool(me.base[skill] + boost > me.level[skill] + 1)


@rule
def _combat_boosts(me: Seat, skill: int) -> bool:
    return _boosts(me, skill, combat_boost(me.base[skill]))


@rule
def combat_potion(me: Seat, stock: int) -> bool:
    """A super combat potion can be drunk and would raise some level by two or more."""
    raises = _combat_boosts(me, ATTACK) or _combat_boosts(me, STRENGTH) or _combat_boosts(me, DEFENCE)
    return raises and drinks(me, stock, COMBAT_DOSES)


@rule
def ranging_potion(me: Seat, stock: int) -> bool:
    """A ranging potion can be drunk and would raise the ranged level by two or more."""
    raises = _boosts(me, RANGED_LEVEL, ranging_boost(me.base[RANGED_LEVEL]))
    return raises and drinks(me, stock, RANGING_DOSES)


@rule
def food(me: Seat, stock: int) -> bool:
    """The primary food can be eaten; anglerfish also at full hitpoints."""
    item = primary_food(stock)
    useful = hurt(me) or (item == items.ANGLERFISH and me.level[HITPOINTS] == me.base[HITPOINTS])
    return item != NO_ITEM and useful and remaining(me, FOOD_TIMER) == 0


@rule
def karambwan(me: Seat, stock: int) -> bool:
    """A karambwan can be eaten and would heal."""
    return hurt(me) and count(stock, KARAMBWANS) > 0 and remaining(me, KARAMBWAN_TIMER) == 0


@rule
def vengeance(me: Seat) -> bool:
    """Vengeance is off cooldown on the lunar spellbook; the levels for `vengeance.cast` are not checked."""
    return me.lunar != 0 and remaining(me, VENGEANCE_TIMER) == 0


@rule
def prays(me: Seat, foe: Seat) -> bool:
    """PRAY-OK: protection prayers may be switched."""
    in_time = me.only_switch_prayer_when_about_to_attack == 0 or ready(foe)
    return in_time and me.level[PRAYER] > 0


@rule
def smite(me: Seat, fight: Fight) -> bool:
    """Smite may be switched on; whether the prayer level suffices is not checked."""
    return me.allow_smite != 0 and fight.fight_type != LMS and ready(me) and me.level[PRAYER] > 0


@rule
def ticks_to_hit(seat: Seat) -> int:
    """Returns 0 if damage waits for a hitsplat, else the ticks until the oldest hit lands, else -1 (entry 47)."""
    if seat.num_damage > 0:
        return 0
    if seat.num_hits > 0:
        return int(seat.hit_delay[0])
    return -1


@rule
def redemption(me: Seat, foe: Seat, fight: Fight, stock: int) -> bool:
    """Redemption may be switched on: no supplies except sharks are left, and a hit is coming or possible."""
    pieces = count(stock, ANGLERFISH) + count(stock, KARAMBWANS) + count(stock, BREW_DOSES)
    threatened = ticks_to_hit(me) >= 0 or ready(foe)
    allowed = me.allow_redemption != 0 and fight.fight_type != LMS
    return allowed and pieces == 0 and threatened and me.level[PRAYER] > 0


@rule
def moves(me: Seat) -> bool:
    """MOVE-OK: a movement order is allowed and would not be refused."""
    return mobile(me) and (me.allow_moving_if_can_attack != 0 or not ready(me))


@rule
def farcasts(me: Seat, tiles: int) -> bool:
    """FAR(d): the nearest tile at that distance of LASTTILE is not the own tile.

    The ground is open, so there always is such a tile, and the own tile is the nearest if it is one of them.
    """
    return bool(max(abs(me.x - me.last_x), abs(me.y - me.last_y)) != tiles)


@rule
def not_next_to_last_tile(me: Seat) -> bool:
    """The nearest tile orthogonally next to LASTTILE is not the own tile."""
    return bool(abs(me.x - me.last_x) + abs(me.y - me.last_y) != 1)


@rule
def not_diagonal_to_last_tile(me: Seat) -> bool:
    """The nearest tile diagonal to LASTTILE is not the own tile."""
    return bool(abs(me.x - me.last_x) != 1 or abs(me.y - me.last_y) != 1)
