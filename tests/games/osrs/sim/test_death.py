"""Death, its order of events, and how fights end (mechanics.md §17)."""

from __future__ import annotations

import numpy as np
import pytest
from arena import SURE, Arena, one

from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.sim.prayer import PIETY
from sb3_pvp.games.osrs.sim.state import (
    CRUSH_ATTACK,
    FREEZE_TIMER,
    HITPOINTS,
    MELEE_STRENGTH,
    PRAYER,
    RANGED_ATTACK,
    RANGED_STRENGTH,
    STAT_TIMER,
)

RUNNING, WON, LOST, TIED = (int(Outcome[name]) for name in ("RUNNING", "WON", "LOST", "TIED"))


def wound(seat: np.ndarray, amount: int) -> None:
    """This damage shows in the seat's next processing."""
    seat["num_damage"], seat["damage"][:, 0] = 1, amount


def arena_with(hitpoints: tuple[int, int] = (99, 99), **options: bool) -> Arena:
    arena = Arena(**options)
    arena.wear(arena.a)
    arena.wear(arena.b)
    arena.world.state["level"][:, :, HITPOINTS] = hitpoints
    return arena


def test_the_loser_lost_and_the_winner_won_in_the_tick_of_death() -> None:
    arena = arena_with((99, 10))
    wound(arena.b, 9)
    arena.tick()
    assert arena.outcomes == [RUNNING, RUNNING]
    wound(arena.b, 1)
    arena.tick()
    assert arena.outcomes == [WON, LOST]


def test_both_win_when_both_die_in_one_tick() -> None:
    """[quirk]"""
    arena = arena_with((5, 5))
    wound(arena.a, 5)
    wound(arena.b, 5)
    arena.tick()
    assert arena.outcomes == [WON, WON]


def test_vengeance_can_take_the_killer_along() -> None:
    """The victim goes first: the answer reaches its killer in the same tick."""
    arena = arena_with((1, 5))
    arena.wear(arena.a, "ELDER_MAUL")
    arena.a["bonus"][:, [CRUSH_ATTACK, MELEE_STRENGTH]] = SURE
    arena.b["vengeance"] = 1
    arena.pid(first=1)
    arena.strike()
    assert arena.outcomes == [RUNNING, RUNNING]
    arena.tick()
    assert arena.outcomes == [WON, WON]


def test_the_prayers_of_the_dead_cost_nothing() -> None:
    """As recorded in the reply after the end; the prayers of the winner keep draining."""
    arena = arena_with((5, 5))
    for seat in (arena.a, arena.b):
        seat["prayers"], seat["prayer_drain_running"], seat["level"][:, PRAYER] = 1 << PIETY, 1, 50
    wound(arena.b, 5)
    arena.tick(times=20)
    assert one(arena.a["level"][:, PRAYER]) < 45
    assert one(arena.b["level"][:, PRAYER]) == 50  # the damage of the first tick shows after its drain


def test_the_outcome_is_settled_once() -> None:
    arena = arena_with((5, 5))
    wound(arena.b, 5)
    arena.tick()
    wound(arena.a, 5)
    arena.tick()
    assert one(arena.a["dying"]) == 1
    assert arena.outcomes == [WON, LOST]


def test_hits_of_the_dead_are_void() -> None:
    arena = arena_with((99, 5))
    arena.wear(arena.b, "RUNE_CROSSBOW", "DIAMOND_BOLTS_E")
    arena.b["bonus"][:, [RANGED_ATTACK, RANGED_STRENGTH]] = SURE
    arena.pid(first=1)
    arena.b["targeting"] = 1
    arena.tick()
    assert one(arena.a["num_hits"]) == 1
    wound(arena.b, 5)
    arena.tick(times=4)
    assert (one(arena.a["num_hits"]), arena.hitpoints(arena.a)) == (0, 99)


def test_numbers_that_wait_for_a_hitsplat_still_count() -> None:
    arena = arena_with((99, 5))
    arena.a["num_damage"], arena.a["damage"][:, :5] = 5, [1, 2, 3, 4, 5]
    wound(arena.b, 5)
    arena.tick()
    assert arena.hitpoints(arena.a) == 96
    arena.tick(times=2)
    assert arena.hitpoints(arena.a) == 84


def test_the_dead_take_nothing_and_are_not_healed() -> None:
    arena = arena_with((99, 5))
    arena.carry(arena.b, "SHARK", "SARADOMIN_BREW_4", "KARAMBWAN")
    wound(arena.b, 5)
    arena.tick()
    wound(arena.b, 5)
    arena.b["timer"][:, STAT_TIMER] = 1
    for _ in range(3):
        arena.tick(b=["eat_primary_food", "use_brew", "eat_karambwan"])
    assert arena.hitpoints(arena.b) == 0
    assert (one(arena.b["num_damage"]), one(arena.b["num_hits"])) == (0, 0)


def test_the_dying_neither_attack_nor_move() -> None:
    arena = arena_with((99, 5))
    wound(arena.b, 5)
    arena.tick()
    arena.b["targeting"], arena.b["goal_x"], arena.b["walking"] = 1, 3090, 1
    arena.tick(b=["move_to_farcast_tile", "farcast_5_tiles"], times=3)
    assert one(arena.b["hits_dealt"]) == 0
    assert one(arena.b["x"]) == 3061


def test_nobody_attacks_the_dying() -> None:
    arena = arena_with((99, 5))
    wound(arena.b, 5)
    arena.tick()
    arena.strike()
    assert one(arena.a["hits_dealt"]) == 0


@pytest.mark.parametrize("death_match", [True, False])
@pytest.mark.parametrize(
    ("food_of_a", "food_of_b", "tied"),
    [
        (("SHARK",), ("ANGLERFISH",), False),
        (("KARAMBWAN",), ("SHARK",), False),
        ((), ("SHARK",), True),
        (("SHARK",), ("SARADOMIN_BREW_4", "SUPER_RESTORE_4"), True),
        ((), (), True),
    ],
)
def test_without_a_death_match_a_fight_without_food_is_tied(
    death_match: bool, food_of_a: tuple[str, ...], food_of_b: tuple[str, ...], tied: bool
) -> None:
    arena = arena_with(death_match=death_match)
    arena.carry(arena.a, *food_of_a)
    arena.carry(arena.b, *food_of_b)
    arena.tick()
    assert arena.outcomes == ([TIED, TIED] if tied and not death_match else [RUNNING, RUNNING])


def test_a_death_goes_before_a_tie() -> None:
    arena = arena_with((99, 5), death_match=False)
    arena.carry(arena.b)
    wound(arena.b, 5)
    arena.tick()
    assert arena.outcomes == [WON, LOST]


def test_a_reset_starts_afresh() -> None:
    """Timers, prayers, effects and energy are as at the start; the PID is kept by the login."""
    arena = arena_with((99, 5))
    arena.world.state["timer"] = 9
    arena.b["poison"], arena.b["vengeance"], arena.b["energy"], arena.b["prayers"] = 6, 1, 0, 255
    wound(arena.b, 5)
    arena.tick()
    pid = arena.b["pid"][0]
    arena.world.reset(options={"logins": (None, arena.world.login(0, 1)), "training": False})
    assert arena.outcomes == [RUNNING, RUNNING]
    state = {
        name: one(arena.b[name]) for name in ("poison", "vengeance", "energy", "prayers", "num_hits", "num_damage")
    }
    assert state == {"poison": 0, "vengeance": 0, "energy": 100, "prayers": 0, "num_hits": 0, "num_damage": 0}
    assert one(arena.b["timer"][:, :STAT_TIMER]) == 0
    assert one(arena.b["timer"][:, FREEZE_TIMER]) == 0
    assert arena.hitpoints(arena.b) == 99
    assert arena.b["pid"][0] == pid
