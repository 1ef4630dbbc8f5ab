"""How an episode starts: builds, loadouts, places and clocks (mechanics.md §13.6, §17, protocol.md §5.3)."""

from __future__ import annotations

from typing import Any

from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.damage import HITSPLATS_PER_TICK, show_damage
from sb3_pvp.games.osrs.sim.equipment import sum_bonuses
from sb3_pvp.games.osrs.sim.hits import tick_poison
from sb3_pvp.games.osrs.sim.loadouts import BUILD_FIGHT_TYPE, load
from sb3_pvp.games.osrs.sim.movement import FULL_RUN_ENERGY, stop
from sb3_pvp.games.osrs.sim.parameters import BY_CHANCE, BY_LOADOUT
from sb3_pvp.games.osrs.sim.rng import below, between
from sb3_pvp.games.osrs.sim.specials import FULL_ENERGY, regenerate
from sb3_pvp.games.osrs.sim.state import (
    BASELINE,
    HITPOINTS,
    LMS,
    NEVER_ATTACKED,
    NUM_FIGHT_TYPES,
    STAT_TIMER,
    Fight,
    Seat,
)
from sb3_pvp.games.osrs.sim.statistics import clear_tick, refresh_hitsplats, start_memory
from sb3_pvp.games.osrs.sim.tick import RUNNING, STAT_PERIOD, draw_pid

# The field of the training fights, and the tile of all others (mechanics.md §13.6).
WEST, EAST, SOUTH, NORTH = 3041, 3101, 3530, 3557
ARENA_X, ARENA_Y = 3096, 3530
NEAR_WEST_SOUTH, NEAR_EAST_NORTH = 5, 4  # tiles that the second seat may start away from the first
RECOIL_CHARGE = 40  # damage that a ring of recoil returns before it breaks (mechanics.md §12)

Reset = Any


@rule
def _choose_builds(fight: Fight, reset: Reset) -> None:
    # Drawn once for both seats, and also where no seat needs it, so that all later draws of a seed stay the same.
    drawn = reset.build_options[below(fight, reset.num_build_options)]
    for k in range(2):
        if reset.seats[k].build < 0:
            reset.seats[k].build = drawn


@rule
def _choose_fight_type(fight: Fight, reset: Reset) -> None:
    if reset.fight_type == BY_CHANCE:
        fight.fight_type = below(fight, NUM_FIGHT_TYPES)
    elif reset.fight_type == BY_LOADOUT:
        fight.fight_type = BUILD_FIGHT_TYPE[reset.seats[0].build]


@rule
def _gear_seed(fight: Fight, options: Reset) -> int:
    if options.gear_seed_known:
        return int(options.gear_seed)
    return below(fight, 1 << 31)  # in place of the 32-bit hash of an episode id; the sign bit stays 0


@rule
def open_fight(fight: Fight, first: Seat, second: Seat, reset: Reset) -> None:
    """Sets up a fight whose seat records are all zeros, except for what a login keeps."""
    fight.death_match = reset.death_match
    fight.outcome[0] = RUNNING
    fight.outcome[1] = RUNNING
    # New hitsplats need higher serial numbers than those that a login brings along.
    fight.splat_counter = 0
    for seat in (first, second):
        for k in range(2):
            fight.splat_counter = max(fight.splat_counter, seat.splat_serial[k])


@rule
def _wait(seat: Seat, ticks: int) -> None:
    """Lets tasks of a login's last fight go on until the tick of the reset, which ends only the poison (§17).

    Damage that shows before is healed by the reset; what is queued in its own tick is still to come.
    """
    for tick in range(ticks):
        shown = min(seat.num_damage, HITSPLATS_PER_TICK) if tick else 0
        seat.num_damage -= shown
        for k in range(seat.num_damage):
            seat.damage[k] = seat.damage[k + shown]
        tick_poison(seat)
        regenerate(seat)
    seat.poison = 0


@rule
def log_in(fight: Fight, seat: Seat, options: Reset) -> None:
    """Sets the driver of a seat; a login that is not known yet draws its PID."""
    seat.driver = options.driver
    if options.login_wait:
        _wait(seat, options.login_wait)
    else:
        draw_pid(fight, seat)
        seat.running = 1
    seat.run_energy = FULL_RUN_ENERGY


@rule
def finish_seat(seat: Seat) -> None:
    """Completes a seat that has its loadout: bonuses, energy, timers and empty memories."""
    sum_bonuses(seat)
    seat.attack_counter = NEVER_ATTACKED
    seat.energy = FULL_ENERGY
    seat.recoil_left = RECOIL_CHARGE
    seat.timer[STAT_TIMER] = STAT_PERIOD
    start_memory(seat)
    clear_tick(seat)


@rule
def _enter(fight: Fight, seat: Seat, options: Reset, gear_seed: int, refills: bool) -> None:
    """Fills one seat: parameters, loadout and body."""
    seat.only_switch_prayer_when_about_to_attack = options.only_switch_prayer_when_about_to_attack
    seat.only_switch_gear_when_attack_soon = options.only_switch_gear_when_attack_soon
    seat.allow_smite = options.allow_smite
    seat.allow_redemption = options.allow_redemption
    seat.allow_moving_if_can_attack = options.allow_moving_if_can_attack
    seat.lms_refill = 1 if fight.fight_type == LMS and refills else 0
    log_in(fight, seat, options)
    load(seat, options.build, options.randomize_gear != 0, gear_seed, options.driver == BASELINE)
    finish_seat(seat)


@rule
def _choose_tiles(fight: Fight, first: Seat, second: Seat, training: int) -> None:
    first.x, first.y, second.x, second.y = ARENA_X, ARENA_Y, ARENA_X, ARENA_Y
    if training:
        first.x, first.y = between(fight, WEST, EAST), between(fight, SOUTH, NORTH)
        second.x = between(fight, max(WEST, first.x - NEAR_WEST_SOUTH), min(EAST, first.x + NEAR_EAST_NORTH))
        second.y = between(fight, max(SOUTH, first.y - NEAR_WEST_SOUTH), min(NORTH, first.y + NEAR_EAST_NORTH))
    if second.driver == BASELINE:
        second.x, second.y = first.x - 1, first.y
    elif first.driver == BASELINE:
        first.x, first.y = second.x - 1, second.y
    for seat in (first, second):
        stop(seat)
        seat.spawn_x, seat.spawn_y = seat.x, seat.y


@rule
def _set_clock_against_bot(fight: Fight, agent: Seat, bot: Seat) -> None:
    """Sets the clock of an agent one tick ahead of its bot, which joins a tick after the reset (protocol.md §5.3)."""
    if bot.driver == BASELINE and agent.driver != BASELINE:
        agent.ticks = 1
        agent.timer[STAT_TIMER] -= 1
        tick_poison(agent)
        regenerate(agent)
        show_damage(fight, agent)


@rule
def place_fighters(fight: Fight, first: Seat, second: Seat, training: int) -> None:
    """Places both fighters and lets them see each other."""
    _choose_tiles(fight, first, second, training)
    for seat in (first, second):
        show_damage(fight, seat)
        if seat.level[HITPOINTS] < seat.base[HITPOINTS]:
            seat.level[HITPOINTS] += 1  # levels change in the tick of the reset (mechanics.md §11.1)
    _set_clock_against_bot(fight, first, second)
    _set_clock_against_bot(fight, second, first)
    # Hitsplats of earlier fights that logins bring along show in the first observation (contract.md §4.3 c).
    refresh_hitsplats(first, second)
    refresh_hitsplats(second, first)


@rule
def begin(fight: Fight, first: Seat, second: Seat, reset: Reset) -> None:
    """Starts an episode; ``reset`` is a `parameters.RESET` record, of which drawn values are filled in."""
    _choose_builds(fight, reset)
    _choose_fight_type(fight, reset)
    open_fight(fight, first, second, reset)
    seats = reset.seats
    # Both are drawn before one replaces the other: a bot wears what its agent does (scripted-bots.md A.0).
    gear_seed = _gear_seed(fight, seats[0])
    other_gear_seed = _gear_seed(fight, seats[1])
    if seats[1].driver == BASELINE:
        other_gear_seed = gear_seed
    elif seats[0].driver == BASELINE:
        gear_seed = other_gear_seed
    maintained = reset.maintain_target_environment != 0
    _enter(fight, first, seats[0], gear_seed, maintained or seats[0].driver != BASELINE)
    _enter(fight, second, seats[1], other_gear_seed, maintained or seats[1].driver != BASELINE)
    place_fighters(fight, first, second, reset.training)
