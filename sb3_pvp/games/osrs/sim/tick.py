"""One game tick of one fight, phase after phase (mechanics.md §1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim.attack import attempt, method_of, reach_of
from sb3_pvp.games.osrs.sim.bots import Think, after_landing, wander
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.hits import land, remove_hit, show_damage, tick_lasting_effects, tick_poison
from sb3_pvp.games.osrs.sim.movement import advance, follow, is_frozen, stop
from sb3_pvp.games.osrs.sim.prayer import drain
from sb3_pvp.games.osrs.sim.rng import between, uniform
from sb3_pvp.games.osrs.sim.specials import regenerate
from sb3_pvp.games.osrs.sim.state import (
    AGENT,
    BASELINE,
    HITPOINTS,
    NUM_SKILLS,
    NUM_TIMERS,
    PRAYER,
    PVP_ARENA,
    STAT_TIMER,
    Fight,
    Seat,
)
from sb3_pvp.games.osrs.sim.statistics import clear_tick, refresh_hitsplats
from sb3_pvp.games.osrs.sim.stock import ANGLERFISH, KARAMBWANS, SHARKS, count, take_stock

#: Outcomes as in `sb3_pvp.game.Outcome`.
RUNNING, WON, LOST, TIED = range(4)
STAT_PERIOD = 100
Apply = Callable[[Fight, Seat, NDArray[np.int64]], None]
Play = Callable[[Fight, Seat, Seat, NDArray[np.int64]], None]
PID_SHORTEST, PID_LONGEST = 40, 60


@rule
def draw_pid(fight: Fight, seat: Seat) -> None:
    """A new place in the processing order and the ticks until the next one (mechanics.md §14)."""
    seat.pid = uniform(fight)
    seat.pid_countdown = between(fight, PID_SHORTEST, PID_LONGEST)


@rule
def _tasks(me: Seat, foe: Seat) -> None:
    """Phase A for one seat: everything that runs by itself."""
    if me.dying:
        me.targeting = 0
    else:
        drain(me)
    tick_poison(me)
    regenerate(me)
    tick_lasting_effects(foe, me)
    if me.retaliate:
        me.retaliate = 0
        me.targeting = 1


@rule
def _count_down(seat: Seat) -> None:
    for k in range(NUM_TIMERS):
        if seat.timer[k] > 0:
            seat.timer[k] -= 1
    seat.attack_counter -= 1


@rule
def _move(me: Seat, foe: Seat) -> None:
    if is_frozen(me) or me.dying:
        stop(me)
        return
    if me.targeting:
        follow(me, foe, reach_of(me, method_of(me)))
    advance(me)


@rule
def _receive_hits(fight: Fight, me: Seat, foe: Seat) -> None:
    """The incoming queue: hits whose time has come land, then up to two numbers show (mechanics.md §5)."""
    if me.level[HITPOINTS] <= 0:
        me.num_hits = 0
        me.num_damage = 0
        return
    place = 0
    while place < me.num_hits:
        if foe.level[HITPOINTS] <= 0:
            remove_hit(me, place)
        elif me.hit_delay[place] <= 0:
            land(fight, foe, me, place)
            if me.driver == BASELINE:
                after_landing(me, me.hit_total[place])
            remove_hit(me, place)
        else:
            me.hit_delay[place] -= 1
            place += 1
    show_damage(fight, me)


@rule
def change_stats(seat: Seat) -> None:
    """Every 100 ticks: lowered levels except prayer +1, boosted ones -1, hitpoints too (mechanics.md §11.1)."""
    if seat.timer[STAT_TIMER] > 0 or seat.level[HITPOINTS] <= 0:
        return
    seat.timer[STAT_TIMER] = STAT_PERIOD
    for skill in range(NUM_SKILLS):
        if seat.level[skill] > seat.base[skill]:
            seat.level[skill] -= 1
        elif seat.level[skill] < seat.base[skill] and skill != PRAYER:
            seat.level[skill] += 1


@rule
def _process(fight: Fight, me: Seat, foe: Seat) -> None:
    """Phase E for one seat: PID, movement, hits, attack, stats."""
    if fight.fight_type != PVP_ARENA:
        me.pid_countdown -= 1
        if me.pid_countdown <= 0:
            draw_pid(fight, me)
    _move(me, foe)
    _receive_hits(fight, me, foe)
    attempt(fight, me, foe)
    me.maul_queue = 0
    if me.driver == BASELINE:
        wander(fight, me)
    change_stats(me)


@rule
def _has_food(seat: Seat) -> bool:
    stock = take_stock(seat)
    return count(stock, SHARKS) + count(stock, ANGLERFISH) + count(stock, KARAMBWANS) > 0


@rule
def _judge(fight: Fight, me: Seat, foe: Seat) -> int:
    """The terminal check of one seat; the target's death is looked at first (mechanics.md §17)."""
    if foe.dying:
        return WON
    if me.dying:
        return LOST
    if not fight.death_match and not (_has_food(me) and _has_food(foe)):
        return TIED
    return RUNNING


@rule
def end_tick(fight: Fight, first: Seat, second: Seat) -> None:
    """Phase F: prayer refill, hitsplat bookkeeping, terminal check."""
    for me, foe in ((first, second), (second, first)):
        if me.lms_refill:
            me.level[PRAYER] = me.base[PRAYER]
        refresh_hitsplats(me, foe)
        if foe.vengeance:
            me.target_lunar = 1
    if fight.outcome[0] == RUNNING and fight.outcome[1] == RUNNING:
        fight.outcome[0] = _judge(fight, first, second)
        fight.outcome[1] = _judge(fight, second, first)


def make_play(think: Think, apply: Apply) -> Play:
    """One tick of a game, as a rule: ``think`` is the brain of its bot, ``apply`` is what an agent's orders do.

    The rule takes the fight, both seats and their choices, (2, heads); the row of a seat that the world drives is
    ignored.
    """

    @rule
    def take_input(fight: Fight, me: Seat, foe: Seat, choice: NDArray[np.int64]) -> None:
        """Phase D for one seat: brain, timers, action."""
        me.ticks += 1
        if me.driver == BASELINE:
            think(fight, me, foe)
        _count_down(me)
        if me.driver == AGENT:
            apply(fight, me, choice)

    @rule
    def play(fight: Fight, first: Seat, second: Seat, choices: NDArray[np.int64]) -> None:
        """Tasks, inputs of both seats in PID order, then processing of both in the same order."""
        clear_tick(first)
        clear_tick(second)
        _tasks(first, second)
        _tasks(second, first)
        if first.pid <= second.pid:
            take_input(fight, first, second, choices[0])
            take_input(fight, second, first, choices[1])
            _process(fight, first, second)
            _process(fight, second, first)
        else:
            take_input(fight, second, first, choices[1])
            take_input(fight, first, second, choices[0])
            _process(fight, second, first)
            _process(fight, first, second)
        end_tick(fight, first, second)

    return play
