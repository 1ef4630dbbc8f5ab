"""Who goes first: PID values and their re-rolls (mechanics.md §1 and §14)."""

from __future__ import annotations

import numpy as np
import pytest
from arena import HOPELESS, SURE, Arena, one

from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.osrs.sim.state import FREEZE_TIMER, HITPOINTS, LMS, MELEE_STRENGTH, NORMAL, PVP_ARENA, STAB_DEFENCE

IDLE = np.zeros((2, 12), np.int64)


def pids_over_time(fight_type: int, ticks: int = 200, fights: int = 1500) -> np.ndarray:
    """(ticks + 1, fights, 2)."""
    world = SimWorld(fights)
    world.reset()
    world.fights["fight_type"] = fight_type
    pids = [world.state["pid"].copy()]
    for _ in range(ticks):
        world.step(np.broadcast_to(IDLE, (fights, 2, 12)))
        pids.append(world.state["pid"].copy())
    return np.array(pids)


@pytest.mark.parametrize("fight_type", [NORMAL, LMS])
def test_a_pid_lasts_forty_to_sixty_ticks(fight_type: int) -> None:
    pids = pids_over_time(fight_type)
    changed = np.diff(pids, axis=0) != 0
    lasted = []
    for column in changed.reshape(len(changed), -1).T:
        ticks = np.flatnonzero(column) + 1
        lasted += [ticks[0], *np.diff(ticks)]
    numbers, counts = np.unique(lasted, return_counts=True)
    assert numbers.tolist() == list(range(40, 61))
    assert counts.max() < 1.35 * counts.min()


def test_pids_are_uniform_and_drawn_for_each_seat_by_itself() -> None:
    pids = pids_over_time(NORMAL)
    assert (pids >= 0).all() and (pids < 1).all()
    histogram = np.histogram(pids[-1], bins=10, range=(0, 1))[0] / pids[-1].size
    assert np.allclose(histogram, 0.1, atol=0.03)
    changed = np.diff(pids, axis=0) != 0
    assert (changed[:, :, 0] & changed[:, :, 1]).sum() < 0.1 * changed.sum()
    first = pids[:, :, 0] < pids[:, :, 1]
    flips = (np.diff(first.astype(int), axis=0) != 0).sum() / changed.sum()
    assert flips == pytest.approx(0.33, abs=0.1)  # between two uniform numbers, given that one is redrawn


def test_the_order_is_frozen_in_the_pvp_arena() -> None:
    pids = pids_over_time(PVP_ARENA, fights=50)
    assert (pids == pids[0]).all()


def test_fight_types_are_drawn_uniformly() -> None:
    """mechanics.md §16."""
    world = SimWorld(3000, reset_params={"randomizeFightType": True})
    world.reset()
    shares = np.bincount(world.fights["fight_type"], minlength=3) / 3000
    assert np.allclose(shares, 1 / 3, atol=0.04)


def duel(first: int) -> Arena:
    """Both are about to kill each other."""
    arena = Arena()
    for seat in (arena.a, arena.b):
        arena.wear(seat, "ELDER_MAUL")
        seat["level"][:, HITPOINTS] = 1
        seat["targeting"] = 1
        seat["bonus"][:, MELEE_STRENGTH] = SURE
        seat["bonus"][:, :STAB_DEFENCE], seat["bonus"][:, STAB_DEFENCE:MELEE_STRENGTH] = SURE, HOPELESS
    arena.pid(first)
    return arena


@pytest.mark.parametrize("first", [0, 1])
def test_who_goes_first_kills_first(first: int) -> None:
    arena = duel(first)
    arena.tick()
    assert arena.outcomes == ([1, 2] if first == 0 else [2, 1])
    survivor, victim = (arena.a, arena.b) if first == 0 else (arena.b, arena.a)
    assert (one(survivor["hits_dealt"]), one(victim["hits_dealt"])) == (1, 0)


@pytest.mark.parametrize("first", [0, 1])
def test_the_first_judges_by_where_the_second_stood(first: int) -> None:
    """mechanics.md §1: B steps away in the tick in which A attacks."""
    arena = Arena()
    arena.wear(arena.a, "ELDER_MAUL")
    arena.pid(first)
    arena.b["goal_x"], arena.b["walking"] = one(arena.b["x"]) + 2, 1
    arena.a["timer"][:, FREEZE_TIMER] = 5  # frozen, it cannot follow
    arena.strike()
    assert one(arena.a["hits_dealt"]) == (1 if first == 0 else 0)


def test_input_of_both_comes_before_processing_of_either() -> None:
    """mechanics.md §1: the slower seat's prayer still counts."""
    for first in (0, 1):
        arena = Arena(500)
        arena.wear(arena.a, "ELDER_MAUL")
        arena.wear(arena.b)
        arena.make_certain()
        arena.pid(first)
        arena.a["targeting"] = 1
        arena.tick(b=["melee_prayer"])
        assert one(arena.a["hit_off_prayer_now"]) == 0
