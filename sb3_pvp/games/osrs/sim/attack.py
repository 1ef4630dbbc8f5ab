"""One attack: which method, whether it may happen now, and the hits it rolls (mechanics.md §4, §6, §7, §8).

Accuracy, damage and the victim's protection prayer are settled here, when the attack is made; `hits` lands the result
some ticks later. The order of the random draws is part of the rules: fights of one seed must stay the same.
"""

from __future__ import annotations

import numpy as np

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.consumables import set_attack_timer
from sb3_pvp.games.osrs.sim.damage import heal
from sb3_pvp.games.osrs.sim.formulas import (
    damage_roll,
    defence_roll,
    is_accurate,
    magic_attack_roll,
    magic_defence_roll,
    magic_max_hit,
    melee_attack_roll,
    melee_defence_roll,
    melee_max_hit,
    protects,
    ranged_attack_roll,
    ranged_defence_roll,
    ranged_max_hit,
    reduced,
    weapon_class,
    wielded_style,
)
from sb3_pvp.games.osrs.sim.hits import BLEED, BLOOD_MARK, DRAIN_DEFENCE, NO_EFFECT, queue_four, queue_hit
from sb3_pvp.games.osrs.sim.movement import MELEE_REACH, distance, in_reach, is_diagonal, is_frozen, queue_beside, stop
from sb3_pvp.games.osrs.sim.rng import below, between, uniform
from sb3_pvp.games.osrs.sim.specials import (
    ANCIENT_MARK,
    BALLISTA,
    CLAWS,
    CROSSBOW,
    DARK_BOW,
    DARK_BOW_EXTRA_TICKS,
    DOUBLE_HIT,
    GRANITE_MAUL,
    JAVELIN,
    KNIFE,
    NIGHTMARE_STAFF,
    NO_SPECIAL,
    SPECIAL_ACCURACY,
    SPECIAL_COST,
    SPECIAL_STRENGTH,
    STATIUS,
    VESTA,
    spend,
    wielded_special,
)
from sb3_pvp.games.osrs.sim.spells import (
    FREEZE_TICKS,
    HEAL_FRACTION,
    SPELL_LEVEL,
    SPELL_PERIOD,
    SPELL_REACH,
    ZURIEL_BLOOD_HEAL,
    ZURIEL_ICE_ACCURACY,
    is_ice,
)
from sb3_pvp.games.osrs.sim.state import (
    AMMO,
    ATTACK_TIMER,
    FREEZE_IMMUNITY_TIMER,
    FREEZE_TIMER,
    MAGIC,
    MAGIC_DAMAGE,
    MAGIC_LEVEL,
    MELEE,
    NO_SPELL_SELECTED,
    RANGED,
    RANGED_LEVEL,
    STAB_DEFENCE,
    WEAPON,
    Fight,
    Seat,
)
from sb3_pvp.games.osrs.sim.statistics import record_hit

#: No attack happens from this many tiles on (mechanics.md §4.2, step 4).
MAX_ATTACK_DISTANCE = 40
#: FREEZE_IMMUNITY outlasts FREEZE by this many ticks (mechanics.md §8).
IMMUNITY_TICKS = 5
DARK_BOW_MINIMUM, DARK_BOW_MAXIMUM = 8, 48  # of each arrow of its special (mechanics.md §6)

# Dragon claws (mechanics.md §6.1): the first roll with damage decides. The share of the maximum hit from which, and up
# to which, the number of that roll is drawn; the first one goes up to the maximum less 1.
CLAW_ROLLS = 4
CLAWS_FIRST_LOW = 0.5
CLAWS_SECOND_LOW, CLAWS_SECOND_HIGH = 0.375, 0.875
CLAWS_THIRD_LOW, CLAWS_THIRD_HIGH = 0.25, 0.75
CLAWS_FOURTH_LOW, CLAWS_FOURTH_HIGH = 0.25, 1.25

VESTA_DEFENCE_DIVISOR = 4  # a quarter of the stab defence roll counts against Vesta's longsword (mechanics.md §6.4)
VESTA_LEAST, STATIUS_LEAST = 0.2, 0.25  # of the maximum hit: their least damage, also added to the maximum
# Volatile nightmare staff (mechanics.md §6.6): its maximum is magic level · 263 div 449 + 1, at most 58.
NIGHTMARE_NUMERATOR, NIGHTMARE_DENOMINATOR, NIGHTMARE_MAX_HIT = 263, 449, 58

# Enchanted bolts (mechanics.md §7): chance of an effect, and its size, which is larger with a Zaryte crossbow.
OPAL_CHANCE, OPAL_DIVISOR, OPAL_ZARYTE_DIVISOR = 0.05, 10, 9
DRAGONSTONE_CHANCE, DRAGONSTONE_SHARE, DRAGONSTONE_ZARYTE_SHARE = 0.06, 0.2, 0.22
DIAMOND_CHANCE, DIAMOND_FACTOR, DIAMOND_ZARYTE_FACTOR = 0.10, 1.15, 1.25
ARMADYL_ODDS = 2.0  # the special attack of the Armadyl crossbow doubles the chance

# Flight of missiles (mechanics.md §4.5), in tiles per tick.
MISSILE_SPEED, SLOW_MISSILE_SPEED = 6, 3
BALLISTA_SPECIAL_DELAY = 2  # ticks, from any distance

# Methods of attack; the first three are also their styles.
SPECIAL_METHOD = 3


@rule
def method_of(seat: Seat) -> int:
    """Returns MELEE, RANGED, MAGIC or SPECIAL_METHOD: what the next attack would be (mechanics.md §4.1)."""
    if seat.spell != NO_SPELL_SELECTED:
        return MAGIC
    if wielded_special(seat) != NO_SPECIAL and (seat.special_on or seat.maul_queue > 0):
        return SPECIAL_METHOD
    return RANGED if wielded_style(seat) == RANGED else MELEE


@rule
def style_of(seat: Seat, method: int) -> int:
    """Returns the style of a method; a special attack has the style of its weapon."""
    return method if method != SPECIAL_METHOD else wielded_style(seat)


@rule
def reach_of(seat: Seat, method: int) -> int:
    """Returns how far the method reaches, in tiles (mechanics.md §4.3)."""
    if style_of(seat, method) == MAGIC:
        return SPELL_REACH
    if method == MELEE:
        return MELEE_REACH  # a staff without a spell bashes
    return int(items.CLASS_REACH[weapon_class(seat)])


@rule
def period_of(seat: Seat, method: int) -> int:
    """Returns the ticks until the next attack (mechanics.md §4.3)."""
    if style_of(seat, method) == MAGIC:
        return SPELL_PERIOD
    extra = DARK_BOW_EXTRA_TICKS if method == SPECIAL_METHOD and wielded_special(seat) == DARK_BOW else 0
    return int(items.CLASS_PERIOD[weapon_class(seat)] + extra)


@rule
def can_attack(me: Seat, foe: Seat, method: int) -> bool:
    """Runs the validity test of mechanics.md §4.2, step 4; switches off a special that lacks the energy."""
    if me.dying or foe.dying or distance(me, foe) >= MAX_ATTACK_DISTANCE:
        return False
    if method == MAGIC:
        return not me.lunar and me.level[MAGIC_LEVEL] >= SPELL_LEVEL[me.spell]
    if method == SPECIAL_METHOD and me.energy < SPECIAL_COST[me.worn[WEAPON]]:
        me.special_on = 0
        return False
    return True


@rule
def _queue(me: Seat, foe: Seat, style: int, speed: int, delay: int, accurate: bool, effect: int, damage: int) -> None:
    queue_hit(foe, delay, style, accurate, effect, damage)
    record_hit(me, foe, style, damage, speed)


@rule
def _melee_hit(fight: Fight, me: Seat, foe: Seat, speed: int, accuracy: float, strength: float, effect: int) -> None:
    accurate = is_accurate(fight, melee_attack_roll(me, accuracy), melee_defence_roll(foe, me))
    damage = damage_roll(fight, foe, MELEE, melee_max_hit(me, strength)) if accurate else 0
    _queue(me, foe, MELEE, speed, 0, accurate, effect, damage)


@rule
def _half_up(x: float) -> int:
    return int(np.floor(x + 0.5))


@rule
def _claws(fight: Fight, me: Seat, foe: Seat, speed: int) -> None:
    """Dragon claws: the first of four rolls that does damage decides all four numbers (mechanics.md §6.1)."""
    full = melee_max_hit(me, 1.0)
    top = reduced(foe, MELEE, full)
    attack, defence = melee_attack_roll(me, SPECIAL_ACCURACY[items.DRAGON_CLAWS]), melee_defence_roll(foe, me)
    success, accurate = CLAW_ROLLS, False
    for k in range(CLAW_ROLLS):  # all are rolled, also after a success: the last decides whether the hit is accurate
        accurate = is_accurate(fight, attack, defence)
        damage = damage_roll(fight, foe, MELEE, full) if accurate else 0
        if damage > 0 and success == CLAW_ROLLS:
            success = k
    coin = below(fight, 2)
    first = second = third = 0
    fourth = coin
    if success == 0:
        first = between(fight, _half_up(CLAWS_FIRST_LOW * top), top - 1)
        second = first // 2
        third = second // 2
        fourth = third + coin
    elif success == 1:
        second = between(fight, _half_up(CLAWS_SECOND_LOW * top), _half_up(CLAWS_SECOND_HIGH * top))
        third = second // 2
        fourth = third + coin
    elif success == 2:
        third = between(fight, _half_up(CLAWS_THIRD_LOW * top), _half_up(CLAWS_THIRD_HIGH * top))
        fourth = third + coin
    elif success == 3:
        fourth = between(fight, _half_up(CLAWS_FOURTH_LOW * top), _half_up(CLAWS_FOURTH_HIGH * top))
    else:
        third = coin
    total = queue_four(foe, MELEE, accurate, first, second, third, fourth)
    record_hit(me, foe, MELEE, total, speed)


@rule
def _vesta(fight: Fight, me: Seat, foe: Seat, speed: int) -> None:
    """Vesta's longsword: a quarter of the stab defence roll, damage untouched by prayer (mechanics.md §6.4)."""
    accurate = is_accurate(fight, melee_attack_roll(me, 1.0), defence_roll(foe, STAB_DEFENCE) // VESTA_DEFENCE_DIVISOR)
    top = melee_max_hit(me, 1.0)
    least = int(VESTA_LEAST * top)
    _queue(me, foe, MELEE, speed, 0, accurate, NO_EFFECT, between(fight, least, top + least) if accurate else 0)


@rule
def _statius(fight: Fight, me: Seat, foe: Seat, speed: int) -> None:
    """Statius's warhammer: damage untouched by prayer; drains defence when it lands (mechanics.md §6)."""
    accurate = is_accurate(fight, melee_attack_roll(me, 1.0), melee_defence_roll(foe, me))
    top = melee_max_hit(me, 1.0)
    least = int(STATIUS_LEAST * top)
    _queue(me, foe, MELEE, speed, 0, accurate, DRAIN_DEFENCE, between(fight, least, top + least) if accurate else 0)


@rule
def _bolt_damage(fight: Fight, me: Seat, foe: Seat, damage: int, accurate: bool, odds: float, forced: bool) -> int:
    """Returns what an enchanted bolt makes of the damage; ``odds`` multiplies its chance (mechanics.md §7)."""
    ammo = me.worn[AMMO]  # diamond dragon bolts are missing below because the server gives them no effect
    zaryte = me.worn[WEAPON] == items.ZARYTE_CROSSBOW
    level = me.level[RANGED_LEVEL]
    if ammo == items.OPAL_BOLTS_E or ammo == items.OPAL_DRAGON_BOLTS_E:
        if forced or uniform(fight) < OPAL_CHANCE * odds:
            damage += level // (OPAL_ZARYTE_DIVISOR if zaryte else OPAL_DIVISOR)
    elif ammo == items.DRAGONSTONE_BOLTS_E or ammo == items.DRAGONSTONE_DRAGON_BOLTS_E:
        if accurate and not protects(foe, MAGIC) and (forced or uniform(fight) < DRAGONSTONE_CHANCE * odds):
            damage += int((DRAGONSTONE_ZARYTE_SHARE if zaryte else DRAGONSTONE_SHARE) * level)
    elif ammo == items.DIAMOND_BOLTS_E and (forced or uniform(fight) < DIAMOND_CHANCE * odds):
        damage = int((DIAMOND_ZARYTE_FACTOR if zaryte else DIAMOND_FACTOR) * damage)
    return damage


@rule
def ranged_delay(seat: Seat, apart: int) -> int:
    """Returns the ticks of flight of the first missile over ``apart`` tiles (mechanics.md §4.5)."""
    kind = items.CLASS_HIT_DELAY[weapon_class(seat)]
    if kind == items.BALLISTA_DELAY:
        return 2 + (1 + apart) // MISSILE_SPEED
    if kind == items.THROWN_DELAY:
        return 1 + apart // MISSILE_SPEED
    return 1 + (3 + apart) // MISSILE_SPEED


@rule
def second_arrow_delay(apart: int) -> int:
    """Returns the ticks of flight of a dark bow's second arrow (mechanics.md §4.5)."""
    return 1 + (2 + apart) // SLOW_MISSILE_SPEED


@rule
def magic_delay(apart: int) -> int:
    """Returns the ticks of flight of a spell (mechanics.md §4.5)."""
    return 1 + (1 + apart) // SLOW_MISSILE_SPEED


@rule
def _ranged_hit(fight: Fight, me: Seat, foe: Seat, speed: int, delay: int, special: int, effect: int) -> None:
    strength = SPECIAL_STRENGTH[me.worn[WEAPON]] if special != NO_SPECIAL else 1.0
    accurate = is_accurate(fight, ranged_attack_roll(me), ranged_defence_roll(foe))
    damage = damage_roll(fight, foe, RANGED, ranged_max_hit(me, strength)) if accurate else 0
    if items.CLASS_HIT_DELAY[weapon_class(me)] == items.CROSSBOW_DELAY:
        forced = special == CROSSBOW and accurate and me.worn[WEAPON] == items.ZARYTE_CROSSBOW
        doubled = special == CROSSBOW and me.worn[WEAPON] == items.ARMADYL_CROSSBOW
        damage = _bolt_damage(fight, me, foe, damage, accurate, ARMADYL_ODDS if doubled else 1.0, forced)
    if special == DARK_BOW:
        damage = min(max(damage, DARK_BOW_MINIMUM), DARK_BOW_MAXIMUM)
        accurate = True  # a miss deals the minimum, so smite and redemption count it as a hit
    _queue(me, foe, RANGED, speed, delay, accurate, effect, damage)


@rule
def _ranged_attack(fight: Fight, me: Seat, foe: Seat, speed: int, special: int) -> None:
    apart = distance(me, foe)
    delay = BALLISTA_SPECIAL_DELAY if special == BALLISTA else ranged_delay(me, apart)
    _ranged_hit(fight, me, foe, speed, delay, special, BLEED if special == JAVELIN else NO_EFFECT)
    if items.CLASS_HIT_DELAY[weapon_class(me)] == items.DARK_BOW_DELAY:
        _ranged_hit(fight, me, foe, speed, second_arrow_delay(apart), special, NO_EFFECT)
    elif special == KNIFE:
        _ranged_hit(fight, me, foe, speed, delay, special, NO_EFFECT)


@rule
def freeze(seat: Seat, ticks: int) -> None:
    """Freezes a seat that is neither frozen nor immune (mechanics.md §8)."""
    if seat.timer[FREEZE_TIMER] > 0 or seat.timer[FREEZE_IMMUNITY_TIMER] > 0:
        return
    seat.timer[FREEZE_TIMER] = ticks
    seat.timer[FREEZE_IMMUNITY_TIMER] = ticks + IMMUNITY_TICKS
    stop(seat)


@rule
def _cast(fight: Fight, me: Seat, foe: Seat, speed: int) -> None:
    """Casts an ice or blood spell; freeze and healing happen now, not when it lands (mechanics.md §8)."""
    zuriel = me.worn[WEAPON] == items.ZURIELS_STAFF
    ice = is_ice(me.spell)
    attack = magic_attack_roll(me, ZURIEL_ICE_ACCURACY if ice and zuriel else 1.0)
    accurate = is_accurate(fight, attack, magic_defence_roll(foe))
    damage = damage_roll(fight, foe, MAGIC, magic_max_hit(me, me.spell)) if accurate else 0
    _queue(me, foe, MAGIC, speed, magic_delay(distance(me, foe)), accurate, NO_EFFECT, damage)
    if accurate and ice:
        freeze(foe, FREEZE_TICKS[me.spell])
    elif accurate:
        heal(me, int(damage * HEAL_FRACTION[me.spell] * (ZURIEL_BLOOD_HEAL if zuriel else 1.0)))


@rule
def _nightmare_staff(fight: Fight, me: Seat, foe: Seat, speed: int) -> None:
    """The volatile nightmare staff: damage untouched by prayer (mechanics.md §6.6)."""
    accurate = is_accurate(fight, magic_attack_roll(me, 1.0), magic_defence_roll(foe))
    top = min(me.level[MAGIC_LEVEL] * NIGHTMARE_NUMERATOR // NIGHTMARE_DENOMINATOR + 1, NIGHTMARE_MAX_HIT)
    damage = between(fight, 1, top) * (100 + me.bonus[MAGIC_DAMAGE]) // 100 if accurate else 0
    _queue(me, foe, MAGIC, speed, magic_delay(distance(me, foe)), accurate, NO_EFFECT, damage)


@rule
def _melee_special(fight: Fight, me: Seat, foe: Seat, speed: int, kind: int) -> None:
    accuracy, strength = SPECIAL_ACCURACY[me.worn[WEAPON]], SPECIAL_STRENGTH[me.worn[WEAPON]]
    if kind == CLAWS:
        _claws(fight, me, foe, speed)
    elif kind == VESTA:
        _vesta(fight, me, foe, speed)
    elif kind == STATIUS:
        _statius(fight, me, foe, speed)
    else:
        effect = BLOOD_MARK if kind == ANCIENT_MARK else NO_EFFECT
        hits = 2 if kind == DOUBLE_HIT else max(1, me.maul_queue) if kind == GRANITE_MAUL else 1
        for _ in range(hits):
            _melee_hit(fight, me, foe, speed, accuracy, strength, effect)


@rule
def _special(fight: Fight, me: Seat, foe: Seat, speed: int) -> None:
    kind = wielded_special(me)
    cost = SPECIAL_COST[me.worn[WEAPON]]
    spend(me, cost * max(1, me.maul_queue) if kind == GRANITE_MAUL else cost)
    if kind == NIGHTMARE_STAFF:
        _nightmare_staff(fight, me, foe, speed)
    elif wielded_style(me) == RANGED:
        _ranged_attack(fight, me, foe, speed, kind)
    else:
        _melee_special(fight, me, foe, speed, kind)


@rule
def _perform(fight: Fight, me: Seat, foe: Seat, method: int) -> None:
    speed = period_of(me, method)
    is_magic = style_of(me, method) == MAGIC
    instant = method == SPECIAL_METHOD and wielded_special(me) == GRANITE_MAUL
    if method == SPECIAL_METHOD:
        _special(fight, me, foe, speed)
    elif method == MAGIC:
        _cast(fight, me, foe, speed)
    elif method == RANGED:
        _ranged_attack(fight, me, foe, speed, NO_SPECIAL)
    else:
        _melee_hit(fight, me, foe, speed, 1.0, 1.0, NO_EFFECT)
    me.special_on = 0
    if not instant:
        set_attack_timer(me, speed)
    if is_magic:  # a caster stands still and attacks again only by a new order
        me.spell = NO_SPELL_SELECTED
        me.targeting = 0
        stop(me)


@rule
def attempt(fight: Fight, me: Seat, foe: Seat) -> None:
    """Attempts the attack of a tick, if a combat target is set (mechanics.md §4.2)."""
    if not me.targeting or me.dying:
        return
    method = method_of(me)
    reach = reach_of(me, method)
    if not in_reach(me, foe, reach):
        # A diagonal neighbour is out of melee reach: step beside it next tick (mechanics.md §4.4).
        if reach == MELEE_REACH and is_diagonal(me, foe) and not is_frozen(me):
            queue_beside(me, foe)
        return
    instant = method == SPECIAL_METHOD and wielded_special(me) == GRANITE_MAUL
    if me.timer[ATTACK_TIMER] > 0 and not instant:
        return
    if can_attack(me, foe, method):
        _perform(fight, me, foe, method)
    else:
        me.targeting = 0
