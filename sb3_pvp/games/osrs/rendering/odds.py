"""What could be expected of an attack: exact, by the levels, gear and prayers at the end of its tick.

Only the embedded world tells these. Its rules run as Python here: nothing is compiled for a number that is seldom read.
"""

from __future__ import annotations

from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Damages, ints ``(N,)``, and how likely each is.
Damages = tuple[NDArray[np.int64], NDArray[np.float64]]
Odds = tuple[float, float, float]


@cache
def _interpreted(rule: Any) -> Any:
    """Returns a rule, and what it calls, as Python that takes seats as namespaces."""
    function = rule.py_func
    used = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    used = {name: _interpreted(each) if hasattr(each, "py_func") else each for name, each in used.items()}
    return FunctionType(function.__code__, used | {"__builtins__": __builtins__}, function.__name__)


@cache
def _sim() -> Any:
    """Returns the constants and formulas of the embedded world, which are imported already if there is one."""
    from sb3_pvp.games.osrs.sim import attack, formulas, items, specials, spells, state

    # Items first: two of them have the name of their special attack.
    names = vars(items) | vars(spells) | vars(specials) | vars(attack) | vars(formulas) | vars(state)
    return SimpleNamespace(
        **{name: _interpreted(each) if hasattr(each, "py_func") else each for name, each in names.items()}
    )


def attack_odds(state: NDArray[np.void], fight: int, seat: int, blood: bool) -> tuple[Odds | None, Odds | None]:
    """Returns the odds of the attack of a tick, as an ordinary and as a special one: of damage, the mean, of a kill.

    ``state`` is that of a `SimWorld`, and ``blood`` says that a spell is one of blood and not of ice. ``None`` stands
    for a weapon without special attack, and for the granite maul's, whose number of hits is not known.
    """
    sim = _sim()
    names = state.dtype.names or ()
    me, foe = (SimpleNamespace(**dict(zip(names, state[fight, each].item(), strict=True))) for each in (seat, 1 - seat))
    # Who is processed first attacks before the other one's damage of this tick appears.
    shown = round(float(foe.damage_on_me) * int(foe.base[sim.HITPOINTS])) if me.pid <= foe.pid else 0
    health = int(foe.level[sim.HITPOINTS]) + shown

    def odds(kind: int) -> Odds:
        if me.hit_style_now == sim.MAGIC:
            damages, weights = _spell(sim, me, foe, kind, blood)
        else:
            damages, weights = (_shot if me.hit_style_now == sim.RANGED else _blow)(sim, me, foe, kind)
        kills = weights[damages >= health].sum()
        return float(weights[damages > 0].sum()), float((damages * weights).sum()), float(kills)

    special = int(sim.wielded_special(me))
    return odds(sim.NO_SPECIAL), odds(special) if special not in (sim.NO_SPECIAL, sim.GRANITE_MAUL) else None


def _drawn(chance: float, damages: NDArray[np.int64]) -> Damages:
    """Returns a miss, and else one of these damages, each as likely."""
    return np.append(0, damages), np.append(1 - chance, np.full(len(damages), chance / len(damages)))


def _twice(damages: NDArray[np.int64], weights: NDArray[np.float64]) -> Damages:
    return np.add.outer(damages, damages).ravel(), np.multiply.outer(weights, weights).ravel()


def _up_to(sim: Any, foe: Any, style: int, top: int) -> NDArray[np.int64]:
    """Returns what the victim's prayer leaves of each damage."""
    damages = np.arange(top + 1)
    return (sim.PROTECTED * damages).astype(np.int64) if sim.protects(foe, style) else damages


def _blow(sim: Any, me: Any, foe: Any, kind: int) -> Damages:
    weapon, is_special = me.worn[sim.WEAPON], kind != sim.NO_SPECIAL
    attack = sim.melee_attack_roll(me, float(sim.SPECIAL_ACCURACY[weapon]) if is_special else 1.0)
    top = sim.melee_max_hit(me, float(sim.SPECIAL_STRENGTH[weapon]) if is_special else 1.0)
    chance = sim.hit_chance(attack, sim.melee_defence_roll(foe, me))
    if kind == sim.VESTA:
        chance = sim.hit_chance(attack, sim.defence_roll(foe, sim.STAB_DEFENCE) // sim.VESTA_DEFENCE_DIVISOR)
    if kind in (sim.VESTA, sim.STATIUS):  # no prayer reduces them
        least = sim.VESTA_LEAST if kind == sim.VESTA else sim.STATIUS_LEAST
        return _drawn(chance, np.arange(top + 1) + int(least * top))
    damages = _up_to(sim, foe, sim.MELEE, top)
    if kind == sim.CLAWS:
        return _claws(sim, int(damages[-1]), chance * np.count_nonzero(damages) / len(damages))
    return _twice(*_drawn(chance, damages)) if kind == sim.DOUBLE_HIT else _drawn(chance, damages)


def _claws(sim: Any, top: int, chance: float) -> Damages:
    """Returns the totals of dragon claws, by the roll that succeeds with this chance (mechanics.md §6.1)."""

    def between(low: float, high: float) -> NDArray[np.int64]:
        return np.arange(int(low * top + 0.5), int(high * top + 0.5) + 1)

    first = np.arange(int(sim.CLAWS_FIRST_LOW * top + 0.5), top)
    second = between(sim.CLAWS_SECOND_LOW, sim.CLAWS_SECOND_HIGH)
    third = between(sim.CLAWS_THIRD_LOW, sim.CLAWS_THIRD_HIGH)
    fourth = between(sim.CLAWS_FOURTH_LOW, sim.CLAWS_FOURTH_HIGH)
    totals = first + first // 2 + first // 4 * 2, second + second // 2 * 2, third * 2, fourth, np.zeros(1, np.int64)
    damages, weights = [], []
    for k, (total, coin) in enumerate(zip(totals, (1, 1, 1, 0, 2), strict=True)):
        share = (1 - chance) ** k * (chance if k < sim.CLAW_ROLLS else 1)
        damages += [total, total + coin]  # the last numbers depend on a coin
        weights += [np.full(len(total), share / len(total) / 2)] * 2
    return np.concatenate(damages), np.concatenate(weights)


def _shot(sim: Any, me: Any, foe: Any, kind: int) -> Damages:
    strength = float(sim.SPECIAL_STRENGTH[me.worn[sim.WEAPON]]) if kind != sim.NO_SPECIAL else 1.0
    chance = sim.hit_chance(sim.ranged_attack_roll(me), sim.ranged_defence_roll(foe))
    damages, weights = _drawn(chance, _up_to(sim, foe, sim.RANGED, sim.ranged_max_hit(me, strength)))
    delay = sim.CLASS_HIT_DELAY[sim.weapon_class(me)]
    if delay == sim.CROSSBOW_DELAY:
        damages, weights = _bolts(sim, me, foe, kind == sim.CROSSBOW, damages, weights)
    if kind == sim.DARK_BOW:
        damages = np.clip(damages, sim.DARK_BOW_MINIMUM, sim.DARK_BOW_MAXIMUM)
    return _twice(damages, weights) if delay == sim.DARK_BOW_DELAY or kind == sim.KNIFE else (damages, weights)


def _bolts(
    sim: Any, me: Any, foe: Any, special: bool, damages: NDArray[np.int64], weights: NDArray[np.float64]
) -> Damages:
    """Returns what enchanted bolts make of these, of which the first is a miss (mechanics.md §7)."""
    ammo, level, weapon = me.worn[sim.AMMO], int(me.level[sim.RANGED_LEVEL]), me.worn[sim.WEAPON]
    zaryte, accurate = weapon == sim.ZARYTE_CROSSBOW, np.arange(len(damages)) > 0
    able = np.ones(len(damages), bool)
    if ammo in (sim.OPAL_BOLTS_E, sim.OPAL_DRAGON_BOLTS_E):
        chance, changed = sim.OPAL_CHANCE, damages + level // (sim.OPAL_ZARYTE_DIVISOR if zaryte else sim.OPAL_DIVISOR)
    elif ammo in (sim.DRAGONSTONE_BOLTS_E, sim.DRAGONSTONE_DRAGON_BOLTS_E):
        share = sim.DRAGONSTONE_ZARYTE_SHARE if zaryte else sim.DRAGONSTONE_SHARE
        chance, changed, able = sim.DRAGONSTONE_CHANCE, damages + int(share * level), accurate
        able = able & (not sim.protects(foe, sim.MAGIC))
    elif ammo == sim.DIAMOND_BOLTS_E:
        factor = sim.DIAMOND_ZARYTE_FACTOR if zaryte else sim.DIAMOND_FACTOR
        chance, changed = sim.DIAMOND_CHANCE, (factor * damages).astype(np.int64)
    else:
        return damages, weights
    chance *= sim.ARMADYL_ODDS if special and weapon == sim.ARMADYL_CROSSBOW else 1
    chances = able * np.where(special & zaryte & accurate, 1.0, chance)
    return np.append(damages, changed), np.append(weights * (1 - chances), weights * chances)


def _spell(sim: Any, me: Any, foe: Any, kind: int, blood: bool) -> Damages:
    defence = sim.magic_defence_roll(foe)
    if kind == sim.NIGHTMARE_STAFF:
        level = int(me.level[sim.MAGIC_LEVEL]) * sim.NIGHTMARE_NUMERATOR // sim.NIGHTMARE_DENOMINATOR + 1
        damages = np.arange(1, min(level, sim.NIGHTMARE_MAX_HIT) + 1) * (100 + int(me.bonus[sim.MAGIC_DAMAGE])) // 100
        return _drawn(sim.hit_chance(sim.magic_attack_roll(me, 1.0), defence), damages)
    zuriel = not blood and me.worn[sim.WEAPON] == sim.ZURIELS_STAFF
    chance = sim.hit_chance(sim.magic_attack_roll(me, sim.ZURIEL_ICE_ACCURACY if zuriel else 1.0), defence)
    spell = sim.strongest(me, sim.BLOOD_BARRAGE if blood else sim.ICE_BARRAGE)
    return _drawn(chance, _up_to(sim, foe, sim.MAGIC, sim.magic_max_hit(me, spell)))
