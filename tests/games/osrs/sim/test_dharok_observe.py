"""The observations of the Dharok game, row by row (contract.md §6.4)."""

from __future__ import annotations

import numpy as np
import pytest
from dharok_arena import DHAROK, DharokArena

from sb3_pvp.games.osrs.sim.state import (
    ATTACK,
    ATTACK_TIMER,
    DEFENCE,
    FOOD_TIMER,
    HITPOINTS,
    KARAMBWAN_TIMER,
    POTION_TIMER,
    PRAYER,
    STRENGTH,
    VENGEANCE_TIMER,
)


def test_at_the_start() -> None:
    arena = DharokArena()
    ones = {
        *("player_using_whip", "special_energy_percent", "player_health_percent", "target_health_percent"),
        *("target_using_whip", "target_special_percent", "prayer_points", "player_has_pid"),
        *("player_veng_available", "target_veng_available"),
    }
    supplies = {
        "combat_potion_doses": 4,
        "super_restore_doses": 12,
        "brew_doses": 8,
        "food_count": 14,
        "karambwan_count": 3,
    }
    levels = dict.fromkeys(("strength_level", "attack_level", "defense_level"), np.float32(99 / 118))
    expected = dict.fromkeys(ones, 1) | supplies | levels
    arena.tick()  # PID of the arena
    seen = {entry.id: arena.sees(entry.id) for entry in DHAROK.observations}
    assert {name: value for name, value in seen.items() if value != 0} == expected


@pytest.mark.parametrize(
    ("weapon", "name"), [("ABYSSAL_TENTACLE", "whip"), ("GRANITE_MAUL", "maul"), ("DHAROKS_GREATAXE", "axe")]
)
def test_weapons(weapon: str, name: str) -> None:
    arena = DharokArena()
    arena.wear(arena.a, weapon)
    arena.tick()
    for seat, side in ((0, "player"), (1, "target")):
        assert [arena.sees(f"{side}_using_{each}", seat) for each in ("whip", "maul", "axe")] == [
            float(each == name) for each in ("whip", "maul", "axe")
        ]
        assert arena.sees(f"{side}_armor_unequipped", seat) == 1
        assert arena.sees(f"{side}_armor_unequipped", 1 - seat) == 0


def test_health_is_real_time_and_energy_a_share() -> None:
    arena = DharokArena()
    arena.a["level"][:, HITPOINTS] = 33
    arena.a["energy"] = 70
    arena.tick()
    assert (arena.sees("player_health_percent"), arena.sees("target_health_percent", 1)) == (np.float32(33 / 99),) * 2
    assert (arena.sees("special_energy_percent"), arena.sees("target_special_percent", 1)) == (np.float32(0.7),) * 2


def test_levels_are_shares_of_the_boosted_maximum() -> None:
    arena = DharokArena()
    for skill, level in ((ATTACK, 118), (STRENGTH, 59), (DEFENCE, 120), (PRAYER, 11)):
        arena.a["level"][:, skill] = level
    arena.tick()
    shown = [arena.sees(name) for name in ("attack_level", "strength_level", "defense_level", "prayer_points")]
    assert shown == [1, 0.5, np.float32(120 / 118), np.float32(11 / 99)]


@pytest.mark.parametrize("ticks", [0, 1, 2, 4, 7])
def test_timers_are_those_of_the_next_action(ticks: int) -> None:
    arena = DharokArena()
    for timer in (ATTACK_TIMER, FOOD_TIMER, POTION_TIMER, KARAMBWAN_TIMER):
        arena.a["timer"][:, timer] = ticks + 1  # one passes in the tick
    arena.tick()
    left = max(ticks - 1, 0)
    for name, unit in (("attack", 6), ("food", 2), ("potion", 2), ("karambwan", 2)):
        assert arena.sees(f"{name}_cycle_ticks") == np.float32(left / unit)
    assert arena.sees("target_attack_cycle_ticks", 1) == np.float32(left / 6)


def test_the_target_potion_timer_is_its_food_timer() -> None:
    arena = DharokArena()
    arena.b["timer"][:, POTION_TIMER] = 9
    arena.b["timer"][:, FOOD_TIMER] = 4
    arena.tick()
    assert arena.sees("target_potion_cycle_ticks") == 1


@pytest.mark.parametrize(("counter", "shown"), [(-100, 0), (-2, 0), (-1, 1 / 3), (0, 2 / 3), (1, 1), (6, 1)])
def test_the_delay_of_food(counter: int, shown: float) -> None:
    arena = DharokArena()
    arena.a["attack_counter"] = counter + 1
    arena.tick()
    assert arena.sees("food_attack_delay_scale") == np.float32(shown)


def test_a_hit_on_its_way_and_its_splat() -> None:
    """B acts first, so the hit of A waits for the next tick; the ring of B gives some back."""
    arena = DharokArena()
    arena.pid(first=1)
    arena.make_certain()
    arena.tick(a=["whip_attack"])
    while (damage := int(arena.b["hit_total"][0, 0])) == 0:
        arena.make_ready()
        arena.tick(times=2)
        arena.tick(a=["whip_attack"])
    assert (arena.sees("player_just_attacked"), arena.sees("target_just_attacked", 1)) == (1, 1)
    assert (arena.sees("target_just_attacked"), arena.sees("player_just_attacked", 1)) == (0, 0)
    assert arena.sees("tick_new_attack_damage") == np.float32(damage / 99)
    assert arena.sees("pending_damage_on_target") == np.float32(damage / 99)
    assert arena.sees("is_damage_pending_on_player", 1) == 1
    arena.tick()
    assert (arena.sees("damage_on_target_tick"), arena.sees("damage_on_player_tick", 1)) == (
        np.float32(damage / 99),
    ) * 2
    assert (arena.sees("tick_new_attack_damage"), arena.sees("pending_damage_on_target")) == (0, 0)
    assert arena.sees("damage_on_player_tick") == np.float32((damage // 10 + 1) / 99)


def test_pid() -> None:
    arena = DharokArena()
    for first in (0, 1):
        arena.pid(first)
        arena.tick()
        assert (arena.sees("player_has_pid"), arena.sees("player_has_pid", 1)) == (1 - first, first)


def test_vengeance() -> None:
    arena = DharokArena()
    arena.tick(a=["use_veng"])
    assert [arena.sees(f"player_{name}") for name in ("veng_available", "has_veng_cast")] == [0, 1]
    assert [arena.sees(f"target_{name}", 1) for name in ("veng_available", "has_veng_cast")] == [0, 1]
    arena.a["timer"][:, VENGEANCE_TIMER] = 2
    arena.tick()
    assert (arena.sees("player_veng_available"), arena.sees("target_veng_available", 1)) == (1, 1)


def test_armour() -> None:
    arena = DharokArena()
    arena.empty_slots(arena.a, "ANGLERFISH", 2)
    arena.tick(a=["take_armor_off"])
    assert (arena.sees("player_armor_unequipped"), arena.sees("target_armor_unequipped", 1)) == (1, 1)
    arena.tick(a=["full_armor"])
    assert (arena.sees("player_armor_unequipped"), arena.sees("target_armor_unequipped", 1)) == (0, 0)
