"""Food and potions (mechanics.md §10, nh-actions.md §5.4 to §5.7)."""

from __future__ import annotations

from math import floor

import pytest
from arena import MELEE_ORDER, Arena, carried_names, one

from sb3_pvp.games.osrs.sim.state import (
    ATTACK,
    ATTACK_TIMER,
    DEFENCE,
    FOOD_TIMER,
    HITPOINTS,
    KARAMBWAN_TIMER,
    MAGIC_LEVEL,
    POTION_TIMER,
    PRAYER,
    RANGED_LEVEL,
    STRENGTH,
)

TIMERS = (FOOD_TIMER, POTION_TIMER, KARAMBWAN_TIMER)
SUPPLIES = ("SHARK", "SHARK", "KARAMBWAN", "KARAMBWAN", "SARADOMIN_BREW_4", "SUPER_RESTORE_4")
EAT, KARAMBWAN, BREW = "eat_primary_food", "eat_karambwan", "use_brew"


def eater(*supplies: str, hitpoints: int = 40) -> Arena:
    arena = Arena()
    arena.carry(arena.a, *(supplies or SUPPLIES))
    arena.a["level"][:, HITPOINTS] = hitpoints
    return arena


def timers(arena: Arena) -> tuple[int, ...]:
    return tuple(one(arena.a["timer"][:, timer]) for timer in TIMERS)


@pytest.mark.parametrize(
    ("food", "order", "hitpoints", "after"),
    [
        ("SHARK", EAT, 40, 60), ("SHARK", EAT, 85, 99), ("SHARK", EAT, 99, 99), ("SHARK", EAT, 110, 110),
        ("ANGLERFISH", EAT, 40, 62), ("ANGLERFISH", EAT, 99, 121), ("ANGLERFISH", EAT, 110, 121),
        ("ANGLERFISH", EAT, 125, 125),
        ("KARAMBWAN", KARAMBWAN, 40, 58), ("KARAMBWAN", KARAMBWAN, 90, 99), ("KARAMBWAN", KARAMBWAN, 115, 115),
    ],
)  # fmt: skip
def test_heals(food: str, order: str, hitpoints: int, after: int) -> None:
    arena = eater(food, hitpoints=hitpoints)
    arena.tick(a=[order])
    assert arena.hitpoints(arena.a) == after
    assert carried_names(arena.a) == []


@pytest.mark.parametrize(
    ("maximum", "heal"),
    [(10, 3), (24, 4), (25, 6), (49, 8), (50, 11), (74, 13), (75, 15), (92, 17), (93, 22), (99, 22)],
)
def test_what_an_anglerfish_heals_depends_on_the_maximum(maximum: int, heal: int) -> None:
    arena = eater("ANGLERFISH", hitpoints=1)
    arena.a["base"][:, HITPOINTS] = maximum
    arena.tick(a=[EAT])
    assert arena.hitpoints(arena.a) == 1 + heal


def test_sharks_are_eaten_before_anglerfish_and_karambwans_only_on_their_own_order() -> None:
    arena = eater("KARAMBWAN", "ANGLERFISH", "SHARK")
    arena.tick(a=[EAT], times=3)
    assert carried_names(arena.a) == ["KARAMBWAN", "ANGLERFISH"]
    arena.tick(a=[EAT], times=3)
    arena.tick(a=[EAT], times=3)
    assert carried_names(arena.a) == ["KARAMBWAN"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [([EAT], (3, 0, 0)), ([KARAMBWAN], (3, 3, 3)), ([BREW], (3, 3, 0)), (["use_restore_potion"], (3, 3, 0))],
)
def test_timers(order: list[str], expected: tuple[int, ...]) -> None:
    """Food, potion and karambwan timer at the end of the tick."""
    arena = eater()
    arena.tick(a=order)
    assert timers(arena) == expected


#: What may be taken how many ticks after what: (first, second, earliest tick).
CYCLES = [
    (EAT, EAT, 3), (EAT, BREW, 1), (EAT, KARAMBWAN, 1),
    (BREW, EAT, 3), (BREW, BREW, 3), (BREW, KARAMBWAN, 1),
    (KARAMBWAN, EAT, 3), (KARAMBWAN, BREW, 3), (KARAMBWAN, KARAMBWAN, 3),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "earliest"), CYCLES)
def test_cycles(first: str, second: str, earliest: int) -> None:
    arena = eater()
    arena.tick(a=[first])
    for tick in range(1, earliest):
        before = carried_names(arena.a)
        arena.tick(a=[second])
        assert carried_names(arena.a) == before, f"taken after {tick} ticks"
    before = carried_names(arena.a)
    arena.tick(a=[second])
    assert carried_names(arena.a) != before


def test_three_things_in_one_tick_and_again_three_ticks_later() -> None:
    arena = eater()
    arena.tick(a=[EAT, BREW, KARAMBWAN], times=3)
    assert arena.hitpoints(arena.a) == 40 + 20 + 16 + 18
    assert timers(arena) == (1, 1, 1)
    arena.a["level"][:, HITPOINTS] = 20
    arena.tick(a=[EAT, BREW, KARAMBWAN])
    assert arena.hitpoints(arena.a) == 20 + 20 + 16 + 18
    assert carried_names(arena.a) == ["SARADOMIN_BREW_2", "SUPER_RESTORE_4"]


#: By the uncapped attack counter after the tick's count-down: the attack timer after eating (nh-actions.md §5.6).
@pytest.mark.parametrize("counter", range(4, -6, -1))
@pytest.mark.parametrize(
    ("orders", "delays"), [([EAT], [3]), ([KARAMBWAN], [2]), ([EAT, KARAMBWAN], [3, 2]), ([BREW], [])]
)
def test_attack_delay(counter: int, orders: list[str], delays: list[int]) -> None:
    arena = eater()
    arena.a["timer"][:, ATTACK_TIMER] = max(counter + 1, 0)
    arena.a["attack_counter"] = counter + 1
    arena.tick(a=orders)
    expected, capped = counter, max(counter, 0)
    for delay in delays:
        if expected + delay > 0:
            expected = capped = expected + delay
    assert one(arena.a["attack_counter"]) == expected
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == capped


def test_who_never_attacked_is_not_delayed() -> None:
    arena = eater()
    arena.tick(a=[EAT])
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == 0


def test_the_uncapped_counter_goes_on_below_zero() -> None:
    arena = eater()
    arena.wear(arena.a, "ABYSSAL_WHIP")
    arena.strike()
    arena.a["targeting"] = 0
    arena.tick(times=6)
    assert (one(arena.a["attack_counter"]), one(arena.a["timer"][:, ATTACK_TIMER])) == (-2, 0)
    arena.tick(a=[EAT])  # -3 + 3 is not above 0
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == 0


def test_eating_keeps_the_target_and_drinking_drops_it() -> None:
    arena = eater()
    arena.a["targeting"] = 1
    arena.place(30)
    arena.put(arena.b, 3072, 3540)
    arena.tick(a=[EAT, KARAMBWAN])
    assert one(arena.a["targeting"]) == 1
    arena.tick(times=2)
    arena.tick(a=[BREW])
    assert one(arena.a["targeting"]) == 0


def test_an_attack_order_in_the_same_tick_brings_the_target_back() -> None:
    arena = eater()
    arena.wear(arena.a, "ABYSSAL_WHIP")
    arena.give_set(arena.a, 2, "ABYSSAL_WHIP")
    arena.tick(a=[BREW, *MELEE_ORDER])
    assert one(arena.a["hits_dealt"]) == 1


SKILLS = {"A": ATTACK, "S": STRENGTH, "D": DEFENCE, "R": RANGED_LEVEL, "M": MAGIC_LEVEL, "P": PRAYER}
LEVEL_CASES = [(1, 1), (45, 40), (60, 0), (60, 60), (70, 75), (75, 80), (99, 1), (99, 50), (99, 99), (99, 118), (99, 5)]


def drink(potion: str, order: str, base: int, level: int) -> dict[str, int]:
    """The levels after one dose, when all skills but HP have this base and level."""
    arena = eater(f"{potion}_4", hitpoints=50)
    arena.a["base"][:, :HITPOINTS] = base
    arena.a["level"][:, :HITPOINTS] = level
    arena.tick(a=[order])
    assert carried_names(arena.a) == [f"{potion}_3"]
    return {name: one(arena.a["level"][:, skill]) for name, skill in SKILLS.items()}


def raised(level: int, amount: int, cap: int) -> int:
    return max(level, min(level + amount, cap))


@pytest.mark.parametrize(("base", "level"), LEVEL_CASES)
def test_saradomin_brew(base: int, level: int) -> None:
    defence = floor(2 + 0.2 * base)
    lowered = max(level - (level // 10 + 2), 0)
    assert drink("SARADOMIN_BREW", BREW, base, level) == {
        "A": max(level - (base // 10 + 2), 0),  # by the base, the others by the level
        "S": lowered,
        "D": raised(level, defence, base + defence),
        "R": lowered,
        "M": lowered,
        "P": level,
    }


@pytest.mark.parametrize(("base", "level"), LEVEL_CASES)
def test_super_restore(base: int, level: int) -> None:
    restored = raised(level, 8 + base // 4, base)
    assert drink("SUPER_RESTORE", "use_restore_potion", base, level) == dict.fromkeys(SKILLS, restored)


@pytest.mark.parametrize(("base", "level"), LEVEL_CASES)
def test_super_combat(base: int, level: int) -> None:
    boost = floor(0.15 * base) + 5
    boosted = raised(level, boost, base + boost)
    assert drink("SUPER_COMBAT", "use_combat_potion", base, level) == dict.fromkeys(SKILLS, level) | dict.fromkeys(
        "ASD", boosted
    )


@pytest.mark.parametrize(("base", "level"), LEVEL_CASES)
def test_ranging_potion(base: int, level: int) -> None:
    boost = floor(0.1 * base) + 4
    assert drink("RANGING_POTION", "use_ranged_potion", base, level) == dict.fromkeys(SKILLS, level) | {
        "R": raised(level, boost, base + boost)
    }


@pytest.mark.parametrize(("hitpoints", "after"), [(1, 17), (90, 106), (99, 115), (105, 115), (115, 115), (121, 121)])
def test_brews_heal_above_the_maximum(hitpoints: int, after: int) -> None:
    arena = eater(hitpoints=hitpoints)
    arena.tick(a=[BREW])
    assert arena.hitpoints(arena.a) == after


def test_the_potion_with_the_fewest_doses_is_drunk_first_and_leaves_a_vial() -> None:
    arena = eater("SARADOMIN_BREW_4", "SARADOMIN_BREW_1", "SARADOMIN_BREW_2")
    seen = []
    for _ in range(3):
        arena.tick(a=[BREW], times=3)
        seen.append(carried_names(arena.a))
    assert seen == [
        ["SARADOMIN_BREW_4", "VIAL", "SARADOMIN_BREW_2"],
        ["SARADOMIN_BREW_4", "VIAL", "SARADOMIN_BREW_1"],
        ["SARADOMIN_BREW_4", "VIAL", "VIAL"],
    ]


def test_orders_without_supplies_do_nothing() -> None:
    arena = eater("VIAL")
    arena.a["targeting"] = 1
    arena.tick(a=[EAT, BREW, KARAMBWAN])
    assert arena.hitpoints(arena.a) == 40
    assert timers(arena) == (0, 0, 0)
    assert one(arena.a["targeting"]) == 1


def test_eating_counts_before_the_hits_of_the_tick() -> None:
    """nh-actions.md §5.7: input comes before processing."""
    arena = eater(hitpoints=5)
    arena.wear(arena.b, "ELDER_MAUL")
    arena.a["num_hits"], arena.a["hit_total"][:, 0], arena.a["hit_damage"][:, 0, 0] = 1, 15, 15
    arena.a["hit_numbers"][:, 0] = 1
    arena.tick(a=[EAT])
    assert arena.hitpoints(arena.a) == 10
