"""The effects of orders, weapons and armour in the Dharok game (contract.md §6.3, mechanics.md)."""

from __future__ import annotations

import numpy as np
import pytest
from arena import carried_names, one, pending, worn_names
from dharok_arena import DharokArena

from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.prayer import PIETY
from sb3_pvp.games.osrs.sim.state import (
    ATTACK_TIMER,
    BODY,
    HITPOINTS,
    KARAMBWAN_TIMER,
    LEGS,
    MAGIC_LEVEL,
    PRAYER,
    SHIELD,
    STRENGTH,
    WEAPON,
)


def ready_to_switch(fights: int = 1) -> DharokArena:
    """A has two free slots; B acts first, so that hits of A wait until the next tick."""
    arena = DharokArena(fights)
    arena.empty_slots(arena.a, "ANGLERFISH", 2)
    arena.pid(first=1)
    return arena


@pytest.mark.parametrize(
    ("order", "weapon", "period"), [("whip_attack", "ABYSSAL_TENTACLE", 4), ("axe_attack", "DHAROKS_GREATAXE", 7)]
)
def test_an_attack_wields_its_weapon_prays_and_follows(order: str, weapon: str, period: int) -> None:
    arena = ready_to_switch()
    arena.tick(a=[order])
    assert items.ITEM_NAMES[one(arena.a["worn"][:, WEAPON])] == weapon
    assert one(arena.a["prayers"]) == 1 << PIETY
    assert one(arena.a["targeting"]) == 1
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == period
    pending(arena.b, 1)


def test_the_axe_puts_the_defender_away_and_the_whip_takes_it_back() -> None:
    arena = ready_to_switch()
    arena.tick(a=["axe_attack"])
    assert {"ABYSSAL_TENTACLE", "DRAGON_DEFENDER"} <= set(carried_names(arena.a))
    arena.tick(a=["whip_attack"])
    assert {"ABYSSAL_TENTACLE", "DRAGON_DEFENDER"} <= worn_names(arena.a)
    assert "DHAROKS_GREATAXE" in carried_names(arena.a)


def test_a_full_inventory_refuses_the_axe_and_the_old_weapon_attacks() -> None:
    arena = DharokArena()
    arena.pid(first=1)
    arena.tick(a=["axe_attack"])
    assert items.ITEM_NAMES[one(arena.a["worn"][:, WEAPON])] == "ABYSSAL_TENTACLE"
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == 4
    pending(arena.b, 1)


def test_no_prayer_without_points() -> None:
    arena = DharokArena()
    arena.a["level"][:, PRAYER] = 0
    arena.tick(a=["whip_attack"])
    assert one(arena.a["prayers"]) == 0


def test_the_target_is_followed_and_attacked_again() -> None:
    arena = DharokArena()
    arena.place(5)
    arena.pid(first=1)
    arena.tick(a=["whip_attack"], times=3)
    assert one(np.abs(arena.a["x"] - arena.b["x"])) == 1
    arena.tick(times=9)
    assert one(arena.a["hits_dealt"]) == 3


def test_nobody_retaliates() -> None:
    arena = DharokArena()
    arena.tick(a=["whip_attack"], times=10)
    assert one(arena.b["hits_dealt"]) == 0


# -- the granite maul ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("energy", "hits", "left"), [(100, 2, 0), (99, 1, 49), (50, 1, 0)])
def test_the_maul_hits_at_once_for_each_half_of_the_energy(energy: int, hits: int, left: int) -> None:
    arena = ready_to_switch()
    arena.a["timer"][:, ATTACK_TIMER] = 5
    arena.a["energy"] = energy
    arena.tick(a=["maul_spec_attack"])
    pending(arena.b, hits)
    assert one(arena.a["energy"]) == left
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == 4
    assert one(arena.a["special_on"]) == 0


def test_presses_out_of_reach_are_lost() -> None:
    arena = ready_to_switch()
    arena.place(9)
    arena.tick(a=["maul_spec_attack"])
    assert (one(arena.a["maul_queue"]), one(arena.a["special_on"]), one(arena.a["energy"])) == (0, 0, 100)
    arena.tick(times=5)
    pending(arena.b, 0)
    assert (one(arena.a["hits_dealt"]), one(arena.a["energy"])) == (1, 100), "a normal attack when in reach"


# -- Dharok's set -------------------------------------------------------------------------------------------------


def axe_damage(hitpoints: int, armour: bool = True) -> int:
    """The highest hit of the axe in many fights that cannot miss, without potions."""
    arena = ready_to_switch(4000)
    arena.empty_slots(arena.a, "ANGLERFISH", 1)
    arena.a["level"][:, HITPOINTS] = hitpoints
    arena.tick(a=["axe_attack"] if armour else ["axe_attack", "take_armor_off"])
    arena.b["num_hits"] = 0
    arena.make_ready()
    arena.make_certain()
    arena.tick()
    return int(pending(arena.b, 1).max())


def test_the_set_hits_harder_the_fewer_hitpoints_are_left() -> None:
    level = int(np.float32(99) * np.float32(1.23)) + 3 + 8
    plain = (level * (105 + 10 + 4 + 4 + 12 + 64) + 320) // 640
    assert axe_damage(99) == plain
    assert axe_damage(50) == int(plain * (1 + 49 / 100 * 99 / 100))
    assert axe_damage(1) == int(plain * (1 + 98 / 100 * 99 / 100))
    assert axe_damage(1, armour=False) == plain


def test_armour_comes_off_and_on_and_keeps_the_target() -> None:
    arena = ready_to_switch()
    arena.a["targeting"] = 1
    arena.tick(a=["take_armor_off"])
    assert {"DHAROKS_PLATEBODY", "DHAROKS_PLATELEGS"} <= set(carried_names(arena.a))
    assert one(arena.a["bonus"][:, 6]) == sum(items.BONUSES[item, 6] for item in arena.a["worn"][0] if item >= 0)
    assert one(arena.a["targeting"]) == 1
    arena.tick(a=["full_armor"])
    assert {"DHAROKS_PLATEBODY", "DHAROKS_PLATELEGS"} <= worn_names(arena.a)
    assert one(arena.a["targeting"]) == 0, "putting something on drops the target"


def test_one_free_slot_takes_the_body_only() -> None:
    arena = DharokArena()
    arena.empty_slots(arena.a, "ANGLERFISH", 1)
    arena.tick(a=["take_armor_off"])
    assert one(arena.a["worn"][:, BODY]) == -1
    assert one(arena.a["worn"][:, LEGS]) >= 0


def test_full_armour_brings_whip_and_defender_along() -> None:
    arena = ready_to_switch()
    arena.tick(a=["axe_attack"])
    arena.tick(a=["full_armor"])
    assert items.ITEM_NAMES[one(arena.a["worn"][:, WEAPON])] == "ABYSSAL_TENTACLE"
    assert items.ITEM_NAMES[one(arena.a["worn"][:, SHIELD])] == "DRAGON_DEFENDER"


def test_gear_is_changed_before_the_attack() -> None:
    arena = ready_to_switch()
    arena.tick(a=["axe_attack", "full_armor"])
    assert items.ITEM_NAMES[one(arena.a["worn"][:, WEAPON])] == "DHAROKS_GREATAXE"
    assert one(arena.a["targeting"]) == 1


# -- consumables and vengeance ------------------------------------------------------------------------------------


def test_food_potion_and_karambwan_in_one_tick() -> None:
    arena = DharokArena()
    arena.a["level"][:, HITPOINTS] = 20
    arena.tick(a=["eat_primary_food", "use_brew", "eat_karambwan"])
    assert arena.hitpoints(arena.a) == 20 + 22 + 16 + 18
    assert one(arena.a["timer"][:, KARAMBWAN_TIMER]) == 3
    carried = carried_names(arena.a)
    assert (carried.count("ANGLERFISH"), carried.count("KARAMBWAN"), carried.count("SARADOMIN_BREW_3")) == (13, 2, 1)


def test_a_brew_in_the_same_tick_makes_vengeance_impossible() -> None:
    """Potions come first, and a brew lowers magic below 94 (recorded in the first tick of a fight)."""
    arena = DharokArena()
    arena.tick(a=["use_brew", "use_veng"])
    assert (one(arena.a["level"][:, MAGIC_LEVEL]), one(arena.a["vengeance"])) == (88, 0)


def test_vengeance_gives_back_three_quarters_on_top_of_the_recoil() -> None:
    arena = ready_to_switch(500)
    arena.make_certain()
    arena.b["bonus"][:, 5:10] = -64
    arena.tick(a=["whip_attack"], b=["use_veng"])
    totals = pending(arena.b, 1)[:, 0]
    arena.a["targeting"] = 0
    arena.tick()
    back = np.where(totals > 0, totals // 10 + 1, 0) + totals * 3 // 4
    assert (99 - arena.a["level"][:, HITPOINTS] == back).all()
    assert (arena.b["vengeance"] == (totals * 3 // 4 == 0)).all()


def test_a_potion_drops_the_target_and_an_attack_sets_it_again() -> None:
    arena = DharokArena()
    arena.a["targeting"] = 1
    arena.tick(a=["use_combat_potion"])
    assert one(arena.a["targeting"]) == 0
    assert one(arena.a["level"][:, STRENGTH]) == 118
    arena.tick(times=3)
    arena.a["level"][:, STRENGTH] = 90
    arena.tick(a=["use_combat_potion", "whip_attack"])
    assert one(arena.a["targeting"]) == 1


def test_the_tentacle_poisons_six_times_in_twenty_one() -> None:
    arena = ready_to_switch(8000)
    arena.make_certain()
    arena.tick(a=["whip_attack"])
    struck = pending(arena.b, 1)[:, 0] > 0
    arena.tick()
    poisoned = arena.b["poison"] == 12
    assert not poisoned[~struck].any()
    assert abs(poisoned[struck].mean() - 6 / 21) < 0.02


# -- the end ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seat", [0, 1])
def test_without_death_match_the_last_piece_of_food_ties(seat: int) -> None:
    arena = DharokArena(death_match=False)
    poor = (arena.a, arena.b)[seat]
    arena.empty_slots(poor, "ANGLERFISH", 14)
    arena.tick()
    assert arena.outcomes == [Outcome.RUNNING, Outcome.RUNNING], "karambwans count, brews do not"
    arena.empty_slots(poor, "KARAMBWAN", 3)
    arena.tick()
    assert arena.outcomes == [Outcome.TIED, Outcome.TIED]


def test_in_a_death_match_the_fight_goes_on_without_food() -> None:
    arena = DharokArena()
    for name in ("ANGLERFISH", "KARAMBWAN"):
        arena.empty_slots(arena.a, name, 14)
    arena.tick()
    assert arena.outcomes == [Outcome.RUNNING, Outcome.RUNNING]


def test_a_kill() -> None:
    arena = DharokArena(50)
    arena.b["level"][:, HITPOINTS] = 1
    arena.make_certain()
    arena.tick(a=["whip_attack"])
    struck = arena.b["level"][:, HITPOINTS] == 0
    assert struck.any()
    assert (arena.world.outcome[struck] == [Outcome.WON, Outcome.LOST]).all()
    assert (arena.world.outcome[~struck] == Outcome.RUNNING).all()


# -- the bot ------------------------------------------------------------------------------------------------------


def bot_arena() -> DharokArena:
    """B is a bot without anything to eat or drink."""
    arena = DharokArena(bots=(None, "baseline"))
    arena.carry(arena.b)
    return arena


def land_on_bot(arena: DharokArena, total: int) -> None:
    """A hit of A lands in the next tick."""
    arena.b["num_hits"], arena.b["hit_delay"][:, 0], arena.b["hit_numbers"][:, 0] = 1, 0, 1
    arena.b["hit_total"][:, 0] = arena.b["hit_damage"][:, 0, 0] = total
    arena.b["hit_accurate"][:, 0] = 1


def test_the_bot_is_passive_until_it_is_hit_and_then_whips() -> None:
    arena = bot_arena()
    arena.tick(times=10)
    assert one(arena.b["hits_dealt"]) == 0
    arena.place(1)
    land_on_bot(arena, 0)
    arena.tick()
    assert one(arena.b["targeting"]) == 0
    arena.tick()
    assert (one(arena.b["targeting"]), one(arena.b["hits_dealt"])) == (1, 1)
    arena.tick(times=8)
    assert one(arena.b["hits_dealt"]) == 3
    assert (one(arena.b["prayers"]), one(arena.b["energy"])) == (0, 100)
    assert items.ITEM_NAMES[one(arena.b["worn"][:, WEAPON])] == "ABYSSAL_TENTACLE"


@pytest.mark.parametrize(("damage", "eats"), [(34, False), (35, True)])
def test_the_bot_eats_at_65_percent(damage: int, eats: bool) -> None:
    arena = bot_arena()
    arena.carry(arena.b, "KARAMBWAN")
    land_on_bot(arena, damage)
    arena.tick()
    assert (carried_names(arena.b) == []) == eats


def test_the_bot_pots_up_when_nothing_happens() -> None:
    arena = DharokArena(bots=(None, "baseline"))
    arena.tick()
    assert arena.hitpoints(arena.b) == 121
    assert carried_names(arena.b).count("ANGLERFISH") == 16
    assert one(arena.b["level"][:, STRENGTH]) == 99
    arena.tick()
    assert one(arena.b["level"][:, STRENGTH]) == 118
    assert "SUPER_COMBAT_3" in carried_names(arena.b)
