"""Switching gear (mechanics.md §15, nh-actions.md §5.8) and what clears the combat target (§7)."""

from __future__ import annotations

from itertools import chain, product

import numpy as np
import pytest
from arena import (
    BLOOD_ORDER,
    ICE_ORDER,
    MELEE_ORDER,
    MELEE_SPECIAL_ORDER,
    RANGED_ORDER,
    RANGED_SPECIAL_ORDER,
    Arena,
    carried_names,
    one,
    sum_bonuses,
    worn_names,
)

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.builds import BUILD_NAMES
from sb3_pvp.games.osrs.sim.state import (
    FREEZE_TIMER,
    HITPOINTS,
    MAGE_SET,
    MELEE_SET,
    NO_ITEM,
    RANGED_SET,
    RANGED_STRENGTH,
    SHIELD,
    SPEC_SET,
    TANK_SET,
    WEAPON,
)

ORDERS = {
    MAGE_SET: ICE_ORDER,
    RANGED_SET: RANGED_ORDER,
    MELEE_SET: MELEE_ORDER,
    SPEC_SET: MELEE_SPECIAL_ORDER,
    TANK_SET: ("use_tank_gear",),
}


def far_apart(build: str = "MED", free_slots: int = 1) -> Arena:
    """A and B are out of reach of each other; A has eaten some of its food."""
    arena = Arena(build=build)
    arena.place(30)
    if free_slots:
        arena.a["inventory"][:, -free_slots:] = NO_ITEM
    return arena


def set_names(arena: Arena, gear_set: int) -> set[str]:
    return {items.ITEM_NAMES[item] for item in arena.a["gear_set"][0, gear_set] if item != NO_ITEM}


@pytest.mark.parametrize("build", BUILD_NAMES)
def test_exactly_the_set_is_worn_after_every_other(build: str) -> None:
    arena = far_apart(build)
    belongings = sorted([*worn_names(arena.a), *carried_names(arena.a)])
    for gear_set in chain.from_iterable(product(ORDERS, repeat=2)):
        arena.tick(a=ORDERS[gear_set])
        assert worn_names(arena.a) == set_names(arena, gear_set)
        assert sorted([*worn_names(arena.a), *carried_names(arena.a)]) == belongings
        bonus = arena.a["bonus"].copy()
        sum_bonuses(arena.a)
        assert (arena.a["bonus"] == bonus).all()


def test_a_two_hander_needs_a_free_slot_for_the_shield() -> None:
    """[seen live]: it is refused with a full inventory; the rest of the set is worn."""
    arena = far_apart(free_slots=0)
    shield = arena.a["worn"][0, SHIELD]
    arena.tick(a=MELEE_SPECIAL_ORDER)
    assert arena.a["worn"][0, WEAPON] == items.item_named("TOXIC_STAFF_OF_THE_DEAD")
    assert arena.a["worn"][0, SHIELD] == shield
    assert "ARMADYL_CHESTPLATE" in worn_names(arena.a)
    assert "ARMADYL_GODSWORD" in carried_names(arena.a)
    assert (arena.a["inventory"][0] != NO_ITEM).all()


def dresser(*carried: str, worn: tuple[str, ...], gear: tuple[str, ...]) -> Arena:
    arena = far_apart()
    arena.wear(arena.a, *worn)
    arena.carry(arena.a, *carried)
    arena.give_set(arena.a, TANK_SET, *gear)
    return arena


def slots(arena: Arena, count: int) -> list[str]:
    return ["" if item == NO_ITEM else items.ITEM_NAMES[item] for item in arena.a["inventory"][0, :count]]


@pytest.mark.parametrize(
    ("worn", "carried", "gear", "slots_after"),
    [
        # A two-hander swaps with the weapon; the shield goes to the first free slot.
        (("ABYSSAL_WHIP", "DRAGON_DEFENDER"), ("VIAL", "DARK_BOW"), ("DARK_BOW",),
         ["VIAL", "ABYSSAL_WHIP", "DRAGON_DEFENDER"]),
        # Without a weapon it swaps with the shield.
        (("DRAGON_DEFENDER",), ("VIAL", "DARK_BOW"), ("DARK_BOW",), ["VIAL", "DRAGON_DEFENDER", ""]),
        # A shield pushes a two-hander out, into its own slot.
        (("DARK_BOW",), ("DRAGON_DEFENDER", "VIAL"), ("DRAGON_DEFENDER",), ["DARK_BOW", "VIAL", ""]),
        # One-handed weapon first: plain swaps.
        (("DARK_BOW",), ("DRAGON_DEFENDER", "ABYSSAL_WHIP"), ("ABYSSAL_WHIP", "DRAGON_DEFENDER"), ["", "DARK_BOW", ""]),
        (("DARK_BOW",), ("DRAGON_DEFENDER", "ABYSSAL_WHIP"), ("DRAGON_DEFENDER", "ABYSSAL_WHIP"), ["DARK_BOW", "", ""]),
        # An empty slot of the body takes the item and leaves nothing.
        (("ABYSSAL_WHIP",), ("VIAL", "DRAGON_DEFENDER"), ("ABYSSAL_WHIP", "DRAGON_DEFENDER"), ["VIAL", "", ""]),
        # What is not in the set comes off, into the first free slots, in the order of the slots of the body.
        (("ABYSSAL_WHIP", "DRAGON_DEFENDER", "BERSERKER_RING"), ("VIAL",), ("ABYSSAL_WHIP",),
         ["VIAL", "DRAGON_DEFENDER", "BERSERKER_RING"]),
    ],
)  # fmt: skip
def test_where_things_go(
    worn: tuple[str, ...], carried: tuple[str, ...], gear: tuple[str, ...], slots_after: list[str]
) -> None:
    arena = dresser(*carried, worn=worn, gear=gear)
    arena.tick(a=["use_tank_gear"])
    assert worn_names(arena.a) == set(gear)
    assert slots(arena, 3) == slots_after


def test_what_finds_no_free_slot_stays_on() -> None:
    arena = dresser(*["VIAL"] * 27, worn=("ABYSSAL_WHIP", "DRAGON_DEFENDER", "BERSERKER_RING"), gear=("ABYSSAL_WHIP",))
    arena.tick(a=["use_tank_gear"])
    assert worn_names(arena.a) == {"ABYSSAL_WHIP", "BERSERKER_RING"}


def test_an_empty_set_strips_everything() -> None:
    arena = far_apart(free_slots=20)
    arena.give_set(arena.a, MAGE_SET)
    arena.tick(a=ICE_ORDER)
    assert worn_names(arena.a) == set()
    assert not arena.a["bonus"].any()


def test_a_thrown_weapon_leaves_the_ammunition_out() -> None:
    arena = dresser("DRAGON_KNIFE", worn=("OPAL_DRAGON_BOLTS_E",), gear=("DRAGON_KNIFE", "OPAL_DRAGON_BOLTS_E"))
    arena.tick(a=["use_tank_gear"])
    assert one(arena.a["bonus"][:, RANGED_STRENGTH]) == 30


@pytest.mark.parametrize(("gear", "left"), [(("ABYSSAL_WHIP",), 0), (("DARK_BOW",), 1), (("DRAGON_DEFENDER",), 0)])
def test_another_weapon_switches_the_special_off(gear: tuple[str, ...], left: int) -> None:
    arena = dresser(*gear, worn=("DARK_BOW",), gear=gear)
    if gear == ("DARK_BOW",):
        arena.carry(arena.a)
    arena.a["special_on"] = 1
    arena.tick(a=["use_tank_gear"])
    assert one(arena.a["special_on"]) == left


@pytest.mark.parametrize(
    ("order", "special"),
    [(RANGED_ORDER, 0), (RANGED_SPECIAL_ORDER, 1), (MELEE_ORDER, 0), (MELEE_SPECIAL_ORDER, 1), (ICE_ORDER, 0)],
)
def test_orders_switch_the_special_and_clear_the_spell(order: tuple[str, str], special: int) -> None:
    """nh-actions.md §5.9; within following distance, out of reach, nothing is used up."""
    arena = far_apart()
    arena.put(arena.b, one(arena.a["x"]) + 14, 3540)
    for _ in range(2):  # pressing again would switch it off
        arena.a["spell"] = 4
        arena.a["timer"][:, FREEZE_TIMER] = 9
        arena.tick(a=order)
        assert one(arena.a["special_on"]) == special
        assert one(arena.a["spell"]) == (4 if order == ICE_ORDER else 0)
        assert one(arena.a["targeting"]) == 1


#: Does A still have its target at the end of the tick? Both are frozen and out of everyone's reach.
KEEPS_TARGET = [
    ((), True),
    (("mage_prayer",), True),
    (("eat_primary_food", "eat_karambwan"), True),
    (("use_brew",), False),
    (("use_combat_potion",), False),
    (("use_tank_gear",), False),
    (("use_veng",), False),  # the ancient book
    (("move_next_to_target",), False),
    (("move_under_target",), False),
    (("move_diagonal_to_target",), False),
    (("move_to_farcast_tile", "farcast_3_tiles"), False),
    (("use_brew", *RANGED_ORDER), True),
    (("use_tank_gear", *MELEE_ORDER), True),
    ((*ICE_ORDER, "move_next_to_target"), False),
    (BLOOD_ORDER, True),
]


@pytest.mark.parametrize(("order", "kept"), KEEPS_TARGET)
def test_what_drops_the_target(order: tuple[str, ...], kept: bool) -> None:
    """mechanics.md §4.2 and nh-actions.md §7."""
    arena = far_apart()
    arena.tick(a=MELEE_ORDER)
    arena.put(arena.b, one(arena.a["x"]) + 14, 3540)
    arena.a["timer"][:, FREEZE_TIMER] = 9
    arena.a["targeting"] = 1
    arena.a["level"][:, HITPOINTS] = 50
    arena.tick(a=order)
    assert one(arena.a["targeting"]) == kept


def test_tank_gear_that_is_worn_already_keeps_the_target() -> None:
    arena = dresser(worn=("ABYSSAL_WHIP", "BERSERKER_RING"), gear=("ABYSSAL_WHIP",))
    arena.put(arena.b, one(arena.a["x"]) + 14, 3540)
    arena.a["targeting"] = 1
    arena.tick(a=["use_tank_gear"])  # only the ring comes off
    assert worn_names(arena.a) == {"ABYSSAL_WHIP"}
    assert one(arena.a["targeting"]) == 1


@pytest.mark.parametrize("style", ["mage_attack", "ranged_attack", "melee_attack"])
def test_a_style_without_its_sub_type_sets_no_target(style: str) -> None:
    arena = far_apart()
    arena.tick(a=[style])
    assert one(arena.a["targeting"]) == 0
    assert np.count_nonzero(arena.a["prayers"]) == 1
