"""One game tick of one fight, phase after phase (mechanics.md §1).

Phase A runs tasks, D takes the input of both seats, E lets them move, receive hits and attack, F ends the tick. B and C
of the specification, joining and ordering players, need no code here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import vengeance
from sb3_pvp.games.osrs.sim.attack import attempt, method_of, reach_of
from sb3_pvp.games.osrs.sim.bots import Think, after_landing, wander
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.damage import show_damage
from sb3_pvp.games.osrs.sim.hits import land, remove_hit, tick_lasting_effects, tick_poison
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
from sb3_pvp.games.osrs.sim.stock import ANGLERFISH, KARAMBWANS, SHARKS, count, count_inventory

#: Outcomes as in `sb3_pvp.game.Outcome`.
RUNNING, WON, LOST, TIED = range(4)
STAT_PERIOD = 100  # ticks between two changes of levels (mechanics.md §11.1)
Apply = Callable[[Fight, Seat, NDArray[np.int64]], None]
Play = Callable[[Fight, Seat, Seat, NDArray[np.int64]], None]
PID_SHORTEST, PID_LONGEST = 40, 60  # ticks that a seat keeps its PID (mechanics.md §14)


@rule
def draw_pid(fight: Fight, seat: Seat) -> None:
    """Draws a new place in the processing order and the ticks until the next draw (mechanics.md §14)."""
    seat.pid = uniform(fight)
    seat.pid_countdown = between(fight, PID_SHORTEST, PID_LONGEST)


@rule
def _tasks(me: Seat, foe: Seat) -> None:
    """Phase A for one seat: tasks such as prayer drain, poison and regeneration."""
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
    seat.attack_counter -= 1  # falls below 0, so that eating knows how long the weapon has been ready


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
    """Works off the incoming queue: due hits land, then up to two numbers show (mechanics.md §5)."""
    if me.level[HITPOINTS] <= 0:
        me.num_hits = 0
        me.num_damage = 0
        return
    place = 0
    while place < me.num_hits:  # removing a hit moves the next one to this place
        if foe.level[HITPOINTS] <= 0:
            remove_hit(me, place)
        elif me.hit_delay[place] <= 0:
            land(fight, foe, me, place)
            if me.driver == BASELINE:  # may eat here: the damage is queued, but not subtracted yet
                after_landing(me, me.hit_total[place])
            remove_hit(me, place)
        else:
            me.hit_delay[place] -= 1
            place += 1
    show_damage(fight, me)


@rule
def change_stats(seat: Seat) -> None:
    """Moves all levels but a drained prayer by 1 towards their base, every 100 ticks (mechanics.md §11.1)."""
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
    if fight.fight_type != PVP_ARENA:  # there the order stays as it is
        me.pid_countdown -= 1
        if me.pid_countdown <= 0:
            draw_pid(fight, me)
    _move(me, foe)
    _receive_hits(fight, me, foe)
    attempt(fight, me, foe)
    me.maul_queue = 0  # queued mauls are lost if the target was out of reach (mechanics.md §6.3)
    if me.driver == BASELINE:
        wander(fight, me)
    change_stats(me)


@rule
def _has_food(seat: Seat) -> bool:
    stock = count_inventory(seat)
    return count(stock, SHARKS) + count(stock, ANGLERFISH) + count(stock, KARAMBWANS) > 0


@rule
def _judge(fight: Fight, me: Seat, foe: Seat) -> int:
    """Returns the outcome for one seat (mechanics.md §17)."""
    if foe.dying:  # first: if both die in one tick, both win
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
        vengeance.notice(me, foe)
    # A fight that is over keeps its outcome, also when it is stepped further.
    if fight.outcome[0] == RUNNING and fight.outcome[1] == RUNNING:
        fight.outcome[0] = _judge(fight, first, second)
        fight.outcome[1] = _judge(fight, second, first)


def make_play(think: Think, apply: Apply) -> Play:
    """Returns the rule that plays one tick of a game: ``think`` is its bot, ``apply`` carries out an agent's orders.

    The rule takes the fight, both seats and their choices, ints ``(2, heads)``; the row of a bot is ignored.
    """

    @rule
    def take_input(fight: Fight, me: Seat, foe: Seat, choice: NDArray[np.int64]) -> None:
        """Phase D for one seat: brain, timers, action."""
        me.ticks += 1
        if me.driver == BASELINE:  # before the timers, unlike an agent (scripted-bots.md A.1)
            think(fight, me, foe)
        _count_down(me)
        if me.driver == AGENT:
            apply(fight, me, choice)

    @rule
    def play(fight: Fight, first: Seat, second: Seat, choices: NDArray[np.int64]) -> None:
        """Runs tasks, the inputs of both seats in PID order, then the processing of both in the same order."""
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
