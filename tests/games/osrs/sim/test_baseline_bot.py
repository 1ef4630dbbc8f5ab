"""The server's own bot, condition by condition (scripted-bots.md A)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from arena import HOPELESS, NEVER, Arena, carried_names, one, worn_names

from sb3_pvp.games.osrs.sim import SimWorld, items, prayer
from sb3_pvp.games.osrs.sim.builds import BUILD_NAMES
from sb3_pvp.games.osrs.sim.spells import ICE_BARRAGE
from sb3_pvp.games.osrs.sim.state import (
    ATTACK_TIMER,
    FOOD_TIMER,
    FREEZE_IMMUNITY_TIMER,
    FREEZE_TIMER,
    HITPOINTS,
    MAGIC,
    MAGIC_DEFENCE,
    MAGIC_LEVEL,
    MELEE,
    NO_ITEM,
    POTION_TIMER,
    PRAYER,
    RANGED,
    RANGED_DEFENCE,
    RANGED_LEVEL,
    SLASH_DEFENCE,
    STRENGTH,
)

PROTECTS = {
    name: int(prayer.PROTECT_BIT[style]) for name, style in (("melee", MELEE), ("ranged", RANGED), ("magic", MAGIC))
}
ANY_PROTECTION = sum(PROTECTS.values())


def met(fights: int = 1, build: str = "MED", awake: bool = True) -> Arena:
    """B is a bot next to A that has neither food nor potions, and knows its enemy if ``awake``."""
    arena = Arena(fights, build, bots=(None, "baseline"))
    keep = items.SLOT[arena.b["inventory"]] != NO_ITEM
    arena.b["inventory"] = np.where(keep, arena.b["inventory"], NO_ITEM)
    arena.b["enemy_known"] = int(awake)
    return arena


# -- A.0 and A.1 --------------------------------------------------------------------------------------------------

SUPPLIES = {  # anglerfish, sharks, karambwans, super restores, brews
    "PURE": (6, 0, 0, 2, 0), "ZERKER": (6, 0, 0, 2, 0), "MED": (6, 0, 0, 2, 0), "MAXED": (6, 0, 0, 2, 0),
    "LMS_PURE": (1, 0, 2, 1, 0), "LMS_ZERKER": (1, 0, 2, 1, 0), "LMS_MED": (1, 0, 2, 2, 0),
}  # fmt: skip


@pytest.mark.parametrize("build", BUILD_NAMES)
def test_food_takes_the_place_of_brews_and_spare_restores(build: str) -> None:
    arena = Arena(build=build, bots=(None, "baseline"))
    agent, bot = Counter(carried_names(arena.a)), Counter(carried_names(arena.b))
    fish, _, karambwans, restores, brews = SUPPLIES[build]
    assert bot["ANGLERFISH"] - agent["ANGLERFISH"] == fish
    assert (bot["SHARK"], bot["KARAMBWAN"]) == (agent["SHARK"], karambwans)
    assert (bot["SUPER_RESTORE_4"], bot["SARADOMIN_BREW_4"]) == (restores, brews)
    assert worn_names(arena.a) == worn_names(arena.b)


def test_it_has_the_build_and_the_rolled_gear_of_its_agent() -> None:
    world = SimWorld(40, reset_params={"randomizeBuild": True, "randomizeGear": True})
    world.reset(options={"bots": (None, "baseline")})
    agent, bot = world.state.T
    for name in ("build", "gear_set", "base", "lunar"):
        assert (agent[name] == bot[name]).all()


@pytest.mark.parametrize("maintained", [True, False])
def test_its_prayer_is_refilled_only_with_a_maintained_environment(maintained: bool) -> None:
    world = SimWorld(reset_params={"accountBuild": "LMS_MED"})
    world.reset(options={"bots": (None, "baseline"), "maintain_target_environment": maintained})
    world.state["level"][:, :, PRAYER] = 60
    world.step(np.zeros((1, 2, 12), np.int64))
    assert world.state["level"][0, :, PRAYER].tolist() == [99, 99 if maintained else 60]


def test_it_is_passive_until_a_hit_lands() -> None:
    arena = met(200, awake=False)
    arena.tick(times=20)
    assert one(arena.b["hits_dealt"]) == one(arena.b["prayers"]) == 0


def test_even_a_miss_wakes_it() -> None:
    arena = met(awake=False)
    arena.place(2)
    arena.wear(arena.a, "RUNE_CROSSBOW", "DIAMOND_BOLTS_E")
    arena.make_hopeless()
    arena.strike()
    arena.a["targeting"] = 0
    assert one(arena.b["enemy_known"]) == 0
    arena.tick()  # it lands in this tick, after the bot has thought
    assert (one(arena.b["enemy_known"]), one(arena.b["attacked_ticks"])) == (0, 10)
    arena.tick()
    assert (one(arena.b["enemy_known"]), one(arena.a["hits_received"])) == (1, 1)


def test_it_forgets_an_enemy_that_is_out_of_the_question() -> None:
    arena = met()
    arena.place(40)
    arena.tick()
    assert one(arena.b["enemy_known"]) == 0
    arena.b["prayers"] = 1
    arena.tick()
    assert one(arena.b["prayers"]) == 0  # no enemy: all prayers off


# -- A.2, row 1: the overhead -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weapon", "spell", "distance", "overhead"),
    [
        ("ABYSSAL_WHIP", 0, 1, "melee"), ("ABYSSAL_WHIP", 0, 2, "magic"), ("RUNE_CROSSBOW", 0, 1, "ranged"),
        ("RUNE_CROSSBOW", 0, 9, "ranged"), ("KODAI_WAND", ICE_BARRAGE, 1, "magic"),
        ("RUNE_CROSSBOW", ICE_BARRAGE, 1, "magic"), ("KODAI_WAND", 0, 1, "melee"),
    ],
)  # fmt: skip
def test_one_tick_in_five_it_prays_against_the_present_method(
    weapon: str, spell: int, distance: int, overhead: str
) -> None:
    arena = met(3000)
    arena.wear(arena.a, weapon)
    arena.a["spell"] = spell
    arena.place(distance)
    arena.tick()
    prayers = arena.b["prayers"] & ANY_PROTECTION
    assert set(np.unique(prayers)) == {0, PROTECTS[overhead]}
    assert (prayers > 0).mean() == pytest.approx(0.2, abs=0.025)


# -- A.2, row 2: the special --------------------------------------------------------------------------------------


def set_enemy_hitpoints(hitpoints: int) -> Callable[[Arena], None]:
    def change(arena: Arena) -> None:
        arena.a["level"][:, HITPOINTS] = hitpoints

    return change


def damage_on_its_way(delay: int) -> Callable[[Arena], None]:
    def change(arena: Arena) -> None:
        arena.a["level"][:, HITPOINTS] = 70
        arena.a["num_hits"], arena.a["hit_delay"][:, 0], arena.a["hit_total"][:, 0] = 1, delay, 11

    return change


def waiting_damage(arena: Arena) -> None:
    arena.a["level"][:, HITPOINTS] = 70
    arena.a["num_damage"], arena.a["damage"][:, 0] = 1, 11


def field(seat: str, name: str, value: int, index: int | None = None) -> Callable[[Arena], None]:
    def change(arena: Arena) -> None:
        if index is None:
            getattr(arena, seat)[name] = value
        else:
            getattr(arena, seat)[name][:, index] = value

    return change


SPECIAL = [
    (set_enemy_hitpoints(59), True), (set_enemy_hitpoints(60), False),
    (damage_on_its_way(0), True), (damage_on_its_way(1), True), (damage_on_its_way(2), False), (waiting_damage, True),
    (field("b", "timer", 1, ATTACK_TIMER), True), (field("b", "timer", 2, ATTACK_TIMER), False),
    (field("b", "energy", 50), True), (field("b", "energy", 49), False),
    (field("b", "timer", 5, FREEZE_TIMER), False),
    (field("a", "prayers", PROTECTS["melee"]), False), (field("a", "prayers", PROTECTS["magic"]), True),
]  # fmt: skip


@pytest.mark.parametrize(("change", "special"), SPECIAL)
def test_the_special_comes_first(change: Callable[[Arena], None], special: bool) -> None:
    arena = met()
    set_enemy_hitpoints(50)(arena)
    change(arena)
    energy = one(arena.b["energy"])
    arena.tick()
    assert ("ARMADYL_GODSWORD" in worn_names(arena.b)) == special
    assert (one(arena.b["energy"]) == energy - 50) == special


# -- A.2, rows 3 to 5 ---------------------------------------------------------------------------------------------


def cornering(fights: int = 1) -> Arena:
    """The enemy is frozen next to the bot and holds a whip; the bot has to wait."""
    arena = met(fights)
    arena.wear(arena.a, "ABYSSAL_WHIP")
    arena.a["timer"][:, FREEZE_TIMER] = 9
    arena.b["timer"][:, ATTACK_TIMER] = 3
    return arena


def test_it_steps_away_west_east_or_north() -> None:
    arena = cornering(3000)
    arena.tick()
    steps = Counter(zip((arena.b["x"] - 3061).tolist(), (arena.b["y"] - 3540).tolist(), strict=True))
    assert set(steps) == {(-2, 0), (2, 0), (0, 2)}
    assert min(steps.values()) > 900
    assert np.abs(arena.b["goal_x"] - 3061 + arena.b["goal_y"] - 3540).min() == 3


STAYS = [
    field("b", "timer", 2, ATTACK_TIMER), field("a", "timer", 0, FREEZE_TIMER), field("b", "walking", 1),
    field("b", "targeting", 1), lambda arena: arena.place(2), lambda arena: arena.place(1, 1),
]  # fmt: skip


@pytest.mark.parametrize("change", STAYS)
def test_it_does_not_step_away_otherwise(change: Callable[[Arena], None]) -> None:
    arena = cornering(30)
    change(arena)
    x, y = one(arena.b["x"]), one(arena.b["y"])
    arena.tick()
    assert (one(arena.b["x"]), one(arena.b["y"])) == (x, y)


def thirsty(prayer_points: int, *potions: str) -> Arena:
    """A bot that would freeze its enemy otherwise."""
    arena = met(build="MAXED")
    arena.carry(arena.b, *potions)
    arena.b["level"][:, [RANGED_LEVEL, STRENGTH]] = 120
    arena.b["level"][:, PRAYER] = prayer_points
    arena.b["targeting"] = 1
    return arena


@pytest.mark.parametrize(("points", "drinks"), [(49, True), (50, False)])
def test_it_restores_below_fifty_points(points: int, drinks: bool) -> None:
    arena = thirsty(points, "SUPER_RESTORE_3", "SUPER_RESTORE_4")
    arena.tick()
    assert (carried_names(arena.b) == ["SUPER_RESTORE_3", "SUPER_RESTORE_3"]) == drinks
    assert (one(arena.b["hits_dealt"]) == 0) == drinks
    if drinks:
        assert (one(arena.b["level"][:, PRAYER]), one(arena.b["targeting"])) == (points + 32, 0)


def test_the_wish_to_restore_stops_the_scan_even_when_it_cannot_drink() -> None:
    arena = thirsty(20, "SUPER_RESTORE_4")
    arena.b["timer"][:, POTION_TIMER] = 3
    arena.b["targeting"] = 0
    arena.tick()
    assert carried_names(arena.b) == ["SUPER_RESTORE_4"]
    assert (one(arena.b["hits_dealt"]), one(arena.b["spell"])) == (0, 0)


def test_without_restores_it_fights_on() -> None:
    arena = thirsty(20)
    arena.tick()
    assert one(arena.b["hits_dealt"]) == 1


FREEZES = [
    (field("b", "energy", 100), True), (field("b", "timer", 1, ATTACK_TIMER), True),
    (field("b", "timer", 2, ATTACK_TIMER), False), (field("a", "timer", 3, FREEZE_TIMER), False),
    (field("a", "timer", 3, FREEZE_IMMUNITY_TIMER), False), (field("b", "level", 94, MAGIC_LEVEL), True),
    (field("b", "level", 93, MAGIC_LEVEL), False), (field("b", "lunar", 1), False),
]  # fmt: skip


@pytest.mark.parametrize(("change", "freezes"), FREEZES)
def test_it_freezes_who_can_move(change: Callable[[Arena], None], freezes: bool) -> None:
    arena = met()
    arena.a["bonus"][:, MAGIC_DEFENCE] = NEVER  # the style swap would not choose magic
    change(arena)
    arena.tick()
    assert (one(arena.b["dealt_style"][:, MAGIC]) == 1) == freezes
    if freezes:
        assert one(arena.b["timer"][:, ATTACK_TIMER]) == 5
        assert "TOXIC_STAFF_OF_THE_DEAD" in worn_names(arena.b)


# -- A.2, row 6: the style swap -----------------------------------------------------------------------------------

EASY = {"magic": MAGIC_DEFENCE, "ranged": RANGED_DEFENCE, "melee": SLASH_DEFENCE}
HARD = 400
SWAPS = [
    # easiest style, enemy's overhead, enemy's HP, bot frozen, chosen style
    ("magic", "", 99, False, MAGIC),
    ("ranged", "", 99, False, RANGED),
    ("melee", "", 46, False, MAGIC),
    ("melee", "", 45, False, MELEE),
    ("melee", "", 45, True, MAGIC),
    ("melee", "melee", 45, False, MAGIC),
    ("magic", "magic", 99, False, RANGED),
    ("ranged", "ranged", 99, False, MAGIC),
    ("ranged", "magic", 45, False, RANGED),
]


@pytest.mark.parametrize(("easiest", "overhead", "hitpoints", "frozen", "style"), SWAPS)
def test_the_style_swap(easiest: str, overhead: str, hitpoints: int, frozen: bool, style: int) -> None:
    arena = met(build="MAXED")
    arena.a["timer"][:, FREEZE_TIMER] = 9  # nothing to freeze
    arena.b["energy"] = 0  # no special
    arena.b["timer"][:, FREEZE_TIMER] = 9 * frozen
    # Hard enough for both others; magic is defended by 101 levels, the others by 107.
    arena.a["bonus"][:, [MAGIC_DEFENCE, RANGED_DEFENCE, SLASH_DEFENCE]] = HARD, HARD, HARD
    arena.a["bonus"][:, EASY[easiest]] = HOPELESS
    arena.a["prayers"] = PROTECTS.get(overhead, 0)
    arena.a["level"][:, HITPOINTS] = hitpoints
    arena.b["inventory"][:, -1] = NO_ITEM
    arena.tick()
    dealt = arena.b["dealt_style"][0].tolist()
    assert dealt == [int(style == each) for each in (MELEE, RANGED, MAGIC)]


def test_it_only_adds_items() -> None:
    """Nothing is taken off explicitly: a ring that its ranged set does not hold stays on."""
    arena = met(build="MAXED")
    arena.wear(arena.b, "RING_OF_RECOIL")
    arena.b["gear_set"][:, 1, :] = NO_ITEM
    arena.give_set(arena.b, 1, "RUNE_CROSSBOW")
    arena.b["inventory"][:, 0] = items.item_named("RUNE_CROSSBOW")
    arena.a["timer"][:, FREEZE_TIMER] = 9
    arena.b["lunar"] = 1
    arena.tick()
    assert worn_names(arena.b) == {"RING_OF_RECOIL", "RUNE_CROSSBOW"}


# -- A.3 to A.5 ---------------------------------------------------------------------------------------------------


def land_on_bot(arena: Arena, total: int) -> None:
    """A hit of A lands in the next tick."""
    arena.b["num_hits"], arena.b["hit_delay"][:, 0], arena.b["hit_numbers"][:, 0] = 1, 0, 1
    arena.b["hit_total"][:, 0] = arena.b["hit_damage"][:, 0, 0] = total
    arena.b["hit_accurate"][:, 0] = 1
    arena.tick()


@pytest.mark.parametrize(
    ("hitpoints", "total", "eats"), [(99, 35, True), (99, 34, False), (40, 5, True), (20, 20, False)]
)
def test_it_eats_when_a_hit_would_leave_too_little(hitpoints: int, total: int, eats: bool) -> None:
    arena = met(awake=False)
    arena.carry(arena.b, "SHARK")
    arena.b["level"][:, HITPOINTS] = hitpoints
    arena.b["timer"][:, FOOD_TIMER] = 1  # keeps the brain's own hands off; free again when the hit lands
    land_on_bot(arena, total)
    assert (carried_names(arena.b) == []) == eats
    assert arena.hitpoints(arena.b) == max(min(hitpoints + 20 * eats, 99) - total, 0)


@pytest.mark.parametrize(
    ("food", "left"),
    [
        (("SHARK", "SHARK", "KARAMBWAN", "KARAMBWAN"), ["SHARK", "KARAMBWAN"]),
        (("KARAMBWAN", "KARAMBWAN", "SHARK"), ["KARAMBWAN"]),
        (("KARAMBWAN", "KARAMBWAN"), ["KARAMBWAN"]),
        (("SHARK", "SHARK"), ["SHARK"]),
    ],
)
def test_what_it_eats(food: tuple[str, ...], left: list[str]) -> None:
    """The first of shark, karambwan and anglerfish, and a karambwan on top."""
    arena = met(awake=False)
    arena.carry(arena.b, *food)
    arena.b["level"][:, HITPOINTS] = 60
    land_on_bot(arena, 1)
    assert carried_names(arena.b) == left


@pytest.mark.parametrize(("hitpoints", "eats"), [(29, True), (30, False)])
def test_it_eats_in_an_emergency(hitpoints: int, eats: bool) -> None:
    arena = met(awake=False)
    arena.carry(arena.b, "SHARK")
    arena.b["level"][:, HITPOINTS] = hitpoints
    arena.tick()
    assert arena.hitpoints(arena.b) == hitpoints + 20 * eats


POTIONS = ("ANGLERFISH", "RANGING_POTION_2", "RANGING_POTION_3", "SUPER_COMBAT_4")
POTS = [
    # HP, ranged, strength, what is left
    (99, 99, 99, ["RANGING_POTION_2", "RANGING_POTION_3", "SUPER_COMBAT_4"]),
    (100, 99, 99, ["ANGLERFISH", "RANGING_POTION_2", "RANGING_POTION_2", "SUPER_COMBAT_4"]),
    (100, 100, 99, ["ANGLERFISH", "RANGING_POTION_2", "RANGING_POTION_3", "SUPER_COMBAT_3"]),
    (100, 100, 100, list(POTIONS)),
]


@pytest.mark.parametrize(("hitpoints", "ranged", "strength", "left"), POTS)
def test_it_pots_up_one_thing_a_tick(hitpoints: int, ranged: int, strength: int, left: list[str]) -> None:
    arena = met(awake=False)
    arena.carry(arena.b, *POTIONS)
    for skill, level in ((HITPOINTS, hitpoints), (RANGED_LEVEL, ranged), (STRENGTH, strength)):
        arena.b["level"][:, skill] = level
    arena.tick()
    assert carried_names(arena.b) == left


def test_an_anglerfish_that_must_wait_stops_the_pots_too() -> None:
    arena = met(awake=False)
    arena.carry(arena.b, *POTIONS)
    arena.b["timer"][:, FOOD_TIMER] = 3
    arena.tick()
    assert carried_names(arena.b) == list(POTIONS)


@pytest.mark.parametrize(("moving", "retaliates"), [(0, True), (1, False)])
def test_it_retaliates_one_tick_after_the_landing(moving: int, retaliates: bool) -> None:
    arena = met(awake=False)
    arena.b["timer"][:, ATTACK_TIMER] = 20  # its brain has nothing to do
    if moving:
        arena.b["goal_x"], arena.b["walking"] = 3071, 1
    land_on_bot(arena, 1)
    assert one(arena.b["targeting"]) == 0
    arena.tick()
    assert one(arena.b["targeting"]) == retaliates


def test_it_wanders_around_its_spawn_tile_while_nobody_bothers_it() -> None:
    arena = met(4000, awake=False)
    arena.b["spawn_x"], arena.b["spawn_y"] = arena.b["x"], arena.b["y"]
    x, y = arena.b["x"].copy(), arena.b["y"].copy()
    arena.tick()
    assert (arena.b["walking"] > 0).mean() == pytest.approx(np.mean([2 / (n + 1) for n in range(40, 81)]), abs=0.01)
    far = 0
    for _ in range(200):
        arena.tick()
        far = max(far, np.abs(arena.b["x"] - x).max(), np.abs(arena.b["y"] - y).max())
    assert far == 6
    calm = met(300, awake=False)
    calm.b["targeting"] = 1
    calm.wear(calm.b)
    calm.tick(times=30)
    assert one(calm.b["x"]) == 3061
