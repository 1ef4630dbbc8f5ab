"""The server's own bot, "baseline" (scripted-bots.md A): a brain that is not limited to the actions of an agent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.attack import can_attack, method_of, reach_of, style_of
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.consumables import drink, eat, find_item, find_potion
from sb3_pvp.games.osrs.sim.equipment import equip_available
from sb3_pvp.games.osrs.sim.formulas import defence_roll as physical_defence_roll
from sb3_pvp.games.osrs.sim.formulas import magic_defence_roll, protects, ranged_defence_roll
from sb3_pvp.games.osrs.sim.movement import distance, in_reach, is_frozen, queue_path
from sb3_pvp.games.osrs.sim.prayer import (
    PROTECT_FROM_MAGIC,
    PROTECT_FROM_MELEE,
    PROTECT_FROM_MISSILES,
    activate,
    activate_style,
)
from sb3_pvp.games.osrs.sim.rng import below, between, uniform
from sb3_pvp.games.osrs.sim.specials import press
from sb3_pvp.games.osrs.sim.spells import ICE_BARRAGE, SPELL_LEVEL
from sb3_pvp.games.osrs.sim.state import (
    ATTACK_TIMER,
    FREEZE_IMMUNITY_TIMER,
    HITPOINTS,
    MAGE_SET,
    MAGIC,
    MAGIC_LEVEL,
    MELEE,
    MELEE_SET,
    NO_SPELL_SELECTED,
    NO_STYLE,
    PRAYER,
    RANGED,
    RANGED_LEVEL,
    RANGED_SET,
    SLASH_DEFENCE,
    SPEC_SET,
    STRENGTH,
    Fight,
    Seat,
)
from sb3_pvp.games.osrs.sim.stock import ANGLERFISH, COMBAT_DOSES, RANGING_DOSES, count, count_inventory

#: A bot counts as attacked for this long after a hit landed: 6 s of nominal ticks (scripted-bots.md A.1).
ATTACKED_TICKS = 10
EAT_BELOW = 0.65  # of the base hitpoints, when a hit lands (A.3)
EMERGENCY_HP = 30  # the brain eats below this, whatever happens (A.1, step 5)
# Special attack and melee only against a foe with at most these effective hitpoints (A.2, rows 2 and 6).
SPECIAL_BELOW, MELEE_BELOW = 59, 45
SPECIAL_ENERGY = 50  # for every weapon, also those whose special attack is cheaper
RESTORE_BELOW = 50  # prayer points
SOON_TICKS = 2  # a hit whose delay is below this counts as done in the effective hitpoints
PRAY_BOUND, PRAY_DRAW = 5, 2  # a protection prayer once in five ticks (A.2, row 1)
STEP_AWAY_TILES, STEP_AWAY_TICKS = 3, 2  # how far, and the least attack timer to do it (A.2, row 3)
# The estimate of a style (A.2, below the table): an attack roll that always wins, and damages with and without prayer.
ESTIMATED_ATTACK = 9999999
PROTECTED_WEIGHT, OPEN_WEIGHT = 84.0, 120.0
# Idle walking (A.0): once in about 30 ticks, to a tile that is up to 6 away from the spawn tile.
WANDER_SHORTEST, WANDER_LONGEST, WANDER_CHANCES, WANDER_REACH = 40, 80, 2.0, 6

Think = Callable[[Fight, Seat, Seat], None]


@rule
def _eat_something(seat: Seat) -> None:
    """Eats the first of shark, karambwan, anglerfish, and a karambwan on top of another food (A.3)."""
    if find_item(seat, items.SHARK) >= 0:
        eat(seat, items.SHARK)
    elif find_item(seat, items.KARAMBWAN) < 0:
        eat(seat, items.ANGLERFISH)
    eat(seat, items.KARAMBWAN)


@rule
def eat_if_low(seat: Seat, hitpoints: int) -> None:
    """Eats if these hitpoints are at most 65 % of the base level (A.3)."""
    if 0 < hitpoints <= EAT_BELOW * seat.base[HITPOINTS]:
        _eat_something(seat)


@rule
def after_landing(seat: Seat, total: int) -> None:
    """Reacts to a hit that lands on the bot, before the damage is subtracted (A.3, A.5)."""
    if not seat.targeting and not seat.moving:
        seat.retaliate = 1
    seat.attacked_ticks = ATTACKED_TICKS
    eat_if_low(seat, seat.level[HITPOINTS] - total)


@rule
def _effective_hitpoints(foe: Seat) -> int:
    """Returns hitpoints less what is about to be subtracted (A.2, row 2)."""
    left = foe.level[HITPOINTS]
    for k in range(foe.num_hits):
        if foe.hit_delay[k] < SOON_TICKS:
            left -= foe.hit_total[k]
    for k in range(foe.num_damage):
        left -= foe.damage[k]
    return int(left)


@rule
def _ready_next(me: Seat) -> bool:
    # 1 and not 0: the brain runs before the timers of its tick are counted down.
    return bool(me.timer[ATTACK_TIMER] <= 1)


@rule
def _reaches(me: Seat, foe: Seat) -> bool:
    return in_reach(me, foe, reach_of(me, method_of(me)))


@rule
def _can_freeze(me: Seat) -> bool:
    return not me.lunar and me.level[MAGIC_LEVEL] >= SPELL_LEVEL[ICE_BARRAGE]


@rule
def _pray_overhead(fight: Fight, me: Seat, foe: Seat) -> None:
    if below(fight, PRAY_BOUND) != PRAY_DRAW:
        return
    style = style_of(foe, method_of(foe))
    if style == MELEE and _reaches(foe, me):
        activate(me, PROTECT_FROM_MELEE)
    elif style == RANGED:
        activate(me, PROTECT_FROM_MISSILES)
    else:
        activate(me, PROTECT_FROM_MAGIC)


@rule
def _melee_special(me: Seat) -> None:
    activate_style(me, MELEE)
    equip_available(me, SPEC_SET)
    me.spell = NO_SPELL_SELECTED
    if not me.special_on:
        press(me)
    me.targeting = 1


@rule
def _step_away(fight: Fight, me: Seat) -> None:
    side = below(fight, 3)  # west, east, north
    dx = -STEP_AWAY_TILES if side == 0 else STEP_AWAY_TILES if side == 1 else 0
    queue_path(me, me.x + dx, me.y + (STEP_AWAY_TILES if side == 2 else 0))


@rule
def _freeze(me: Seat) -> None:
    activate_style(me, MAGIC)
    equip_available(me, MAGE_SET)
    me.spell = ICE_BARRAGE
    me.targeting = 1


@rule
def _score(foe: Seat, style: int, roll: int) -> float:
    attack = np.float32(ESTIMATED_ATTACK)  # float32 as on the server: ties between styles depend on it
    chance = np.float32(1) - np.float32(roll + 2) / (np.float32(2) * (attack + np.float32(1)))
    return float(chance * np.float32(PROTECTED_WEIGHT if protects(foe, style) else OPEN_WEIGHT))


@rule
def _best_style(me: Seat, foe: Seat) -> int:
    """Returns the style with the best estimate; ties go to magic, then ranged (A.2, row 6)."""
    best, best_score = NO_STYLE, -1.0
    if _can_freeze(me):
        best, best_score = MAGIC, _score(foe, MAGIC, magic_defence_roll(foe))
    score = _score(foe, RANGED, ranged_defence_roll(foe))
    if score > best_score:
        best, best_score = RANGED, score
    melee_fits = not is_frozen(me) and _effective_hitpoints(foe) <= MELEE_BELOW
    if melee_fits and _score(foe, MELEE, physical_defence_roll(foe, SLASH_DEFENCE)) > best_score:
        best = MELEE
    return best


@rule
def _swap_style(me: Seat, foe: Seat) -> None:
    style = _best_style(me, foe)
    if style == MAGIC:
        _freeze(me)
        return
    activate_style(me, style)
    equip_available(me, RANGED_SET if style == RANGED else MELEE_SET)
    me.spell = NO_SPELL_SELECTED
    if style == RANGED:
        me.special_on = 0
    me.targeting = 1


@rule
def _wants_special(me: Seat, foe: Seat) -> bool:
    fit = _ready_next(me) and not is_frozen(me) and me.energy >= SPECIAL_ENERGY
    return fit and _effective_hitpoints(foe) <= SPECIAL_BELOW and not protects(foe, MELEE)


@rule
def _wants_to_step_away(me: Seat, foe: Seat) -> bool:
    pinned = is_frozen(foe) and distance(me, foe) == 1 and _reaches(foe, me)
    return me.timer[ATTACK_TIMER] > STEP_AWAY_TICKS and not me.walking and pinned


@rule
def _wants_to_freeze(me: Seat, foe: Seat) -> bool:
    open_to_ice = not is_frozen(foe) and foe.timer[FREEZE_IMMUNITY_TIMER] == 0
    return _ready_next(me) and open_to_ice and _can_freeze(me)


@rule
def _fight(fight: Fight, me: Seat, foe: Seat) -> None:
    """Works through the list of A.2: the overhead, then the first action whose condition holds."""
    _pray_overhead(fight, me, foe)
    if _wants_special(me, foe):
        _melee_special(me)
    elif _wants_to_step_away(me, foe):
        _step_away(fight, me)
    elif me.level[PRAYER] < RESTORE_BELOW and find_potion(me, items.RESTORE, False) >= 0:
        drink(me, items.RESTORE, False)
    elif _wants_to_freeze(me, foe):
        _freeze(me)
    elif _ready_next(me):
        _swap_style(me, foe)


@rule
def _pot_up(me: Seat) -> None:
    """Takes the first boost that applies (A.4)."""
    bag = count_inventory(me)  # most bots have nothing of all this left, so one pass is faster than several searches
    # Also at full hitpoints, so a bot wastes its anglerfish here, as the server's does.
    if me.level[HITPOINTS] <= me.base[HITPOINTS] and count(bag, ANGLERFISH) > 0:
        eat(me, items.ANGLERFISH)
    elif me.level[RANGED_LEVEL] <= me.base[RANGED_LEVEL] and count(bag, RANGING_DOSES) > 0:
        drink(me, items.RANGING, False)
    elif me.level[STRENGTH] <= me.base[STRENGTH] and count(bag, COMBAT_DOSES) > 0:
        drink(me, items.COMBAT, False)


def make_brain(act: Think) -> Think:
    """Returns the brain of a bot (A.1), a rule; ``act`` is its list of actions against a known enemy.

    Call it at the start of the bot's input phase, before its timers count down.
    """

    @rule
    def brain(fight: Fight, me: Seat, foe: Seat) -> None:
        if me.attacked_ticks > 0:
            me.attacked_ticks -= 1
            me.enemy_known = 1
        if me.enemy_known:
            if not can_attack(me, foe, method_of(me)):
                me.enemy_known = 0
                me.attacked_ticks = 0
                return
            act(fight, me, foe)
        else:
            me.prayers = 0
        if me.dying:
            return
        if me.level[HITPOINTS] < EMERGENCY_HP:
            eat_if_low(me, me.level[HITPOINTS])
        _pot_up(me)

    return brain


#: The brain of the NH game's bot.
think = make_brain(_fight)


@rule
def wander(fight: Fight, me: Seat) -> None:
    """Walks idly around the spawn tile, only without target and attacker (A.0)."""
    if me.targeting or me.attacked_ticks > 0 or me.moving:
        return
    if uniform(fight) < WANDER_CHANCES / (between(fight, WANDER_SHORTEST, WANDER_LONGEST) + 1):
        reach = between(fight, 1, WANDER_REACH)
        queue_path(me, me.spawn_x + between(fight, -reach, reach), me.spawn_y + between(fight, -reach, reach))
