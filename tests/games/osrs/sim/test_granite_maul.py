"""The granite maul's instant special (mechanics.md §6.3)."""

from __future__ import annotations

import numpy as np
import pytest
from arena import MELEE_SPECIAL_ORDER, Arena, one, pending

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.state import ATTACK_TIMER, FREEZE_TIMER, SPEC_SET, TANK_SET, WEAPON


def maul_arena(energy: int = 100, distance: int = 1, fights: int = 1) -> Arena:
    """A carries the maul of its special set and has attacked two ticks ago; B acts first."""
    arena = Arena(fights)
    arena.wear(arena.a)
    arena.wear(arena.b)
    arena.carry(arena.a, "GRANITE_MAUL")
    arena.give_set(arena.a, SPEC_SET, "GRANITE_MAUL")
    arena.a["melee_spec"] = items.GRANITE_MAUL
    arena.a["energy"] = energy
    arena.a["timer"][:, ATTACK_TIMER] = 5
    arena.place(distance)
    arena.pid(first=1)
    return arena


@pytest.mark.parametrize(("energy", "hits", "left"), [(100, 2, 0), (99, 1, 49), (50, 1, 0), (49, 0, 49)])
def test_one_order_spends_all_energy_on_instant_hits(energy: int, hits: int, left: int) -> None:
    arena = maul_arena(energy)
    arena.tick(a=MELEE_SPECIAL_ORDER)
    pending(arena.b, hits)
    assert one(arena.a["energy"]) == left
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == 4  # neither checked nor set
    assert (one(arena.a["special_on"]), one(arena.a["maul_queue"])) == (0, 0)
    assert one(arena.a["worn"][:, WEAPON]) == items.GRANITE_MAUL


def test_the_hits_are_normal_melee_hits() -> None:
    arena = maul_arena(fights=4000)
    arena.carry(arena.a)
    arena.wear(arena.a, "GRANITE_MAUL")
    arena.make_certain()
    arena.tick(a=MELEE_SPECIAL_ORDER)
    maximum = ((121 + 3 + 8) * (79 + 64) + 320) // 640  # piety: floor(99 · 1.23) is 121
    assert np.unique(pending(arena.b, 2)).tolist() == list(range(maximum + 1))


def test_normal_attacks_follow_when_the_timer_is_free() -> None:
    arena = maul_arena()
    arena.tick(a=MELEE_SPECIAL_ORDER)
    arena.tick(times=3)
    assert one(arena.b["num_hits"]) == 0
    arena.tick()
    assert one(arena.b["num_hits"]) == 1
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == 7


def test_a_normal_maul_attack_and_the_special_are_separate_ticks() -> None:
    arena = maul_arena()
    arena.make_ready()
    arena.tick(a=MELEE_SPECIAL_ORDER)
    assert (one(arena.b["num_hits"]), one(arena.a["timer"][:, ATTACK_TIMER])) == (2, 0)
    arena.tick()
    assert (one(arena.b["num_hits"]), one(arena.a["timer"][:, ATTACK_TIMER])) == (1, 7)


def test_two_queued_hits_are_lost_out_of_reach() -> None:
    arena = maul_arena(distance=3)
    arena.a["timer"][:, FREEZE_TIMER] = 3
    arena.tick(a=MELEE_SPECIAL_ORDER)
    assert (one(arena.a["maul_queue"]), one(arena.a["special_on"]), one(arena.a["energy"])) == (0, 0, 100)
    arena.make_ready()
    arena.place(1)
    arena.tick()
    assert (one(arena.b["num_hits"]), one(arena.a["energy"])) == (1, 100)  # a plain attack


@pytest.mark.parametrize("energy", [50, 99])
def test_a_single_press_stays_pending_out_of_reach(energy: int) -> None:
    arena = maul_arena(energy, distance=3)
    arena.a["timer"][:, FREEZE_TIMER] = 3
    arena.tick(a=MELEE_SPECIAL_ORDER)
    assert (one(arena.a["maul_queue"]), one(arena.a["special_on"]), one(arena.a["energy"])) == (0, 1, energy)
    arena.place(1)
    arena.tick()
    assert (one(arena.b["num_hits"]), one(arena.a["energy"])) == (1, energy - 50)


@pytest.mark.parametrize(("weapon", "keeps"), [("GRANITE_MAUL", 1), ("DRAGON_CLAWS", 0)])
def test_only_wearing_the_maul_keeps_the_target(weapon: str, keeps: int) -> None:
    """mechanics.md §4.2: the tank order wears a set and sets no target."""
    arena = maul_arena(distance=9)
    arena.carry(arena.a, weapon)
    arena.give_set(arena.a, TANK_SET, weapon)
    arena.a["targeting"] = 1
    arena.tick(a=["use_tank_gear"])
    assert one(arena.a["worn"][:, WEAPON]) == items.item_named(weapon)
    assert one(arena.a["targeting"]) == keeps
