"""Prayers: exclusion, requirements, drain, smite and redemption (mechanics.md §9 and §5, nh-actions.md §5.2, §5.3)."""

from __future__ import annotations

import numpy as np
import pytest
from arena import ICE_ORDER, MELEE_ORDER, RANGED_ORDER, Arena, one, pending

from sb3_pvp.games.osrs.sim import prayer
from sb3_pvp.games.osrs.sim.state import HITPOINTS, PRAYER, PRAYER_BONUS

OVERHEADS = {
    "mage_prayer": prayer.PROTECT_FROM_MAGIC,
    "ranged_prayer": prayer.PROTECT_FROM_MISSILES,
    "melee_prayer": prayer.PROTECT_FROM_MELEE,
    "smite_prayer": prayer.SMITE,
    "redemption_prayer": prayer.REDEMPTION,
}
ORDERS = {"mage": ICE_ORDER, "ranged": RANGED_ORDER, "melee": MELEE_ORDER}
STYLE_PRAYERS = {  # by build: low or high level (loadouts.md §1)
    "ZERKER": {
        "mage": {"MYSTIC_MIGHT", "STEEL_SKIN"},
        "ranged": {"EAGLE_EYE", "STEEL_SKIN"},
        "melee": {"INCREDIBLE_REFLEXES", "ULTIMATE_STRENGTH", "STEEL_SKIN"},
    },
    "MED": {"mage": {"AUGURY"}, "ranged": {"RIGOUR"}, "melee": {"PIETY"}},
}
#: What else is switched off by what (nh-actions.md §5.2).
SKINS = {"THICK_SKIN", "ROCK_SKIN", "STEEL_SKIN"}
STRENGTHS = {"BURST_OF_STRENGTH", "SUPERHUMAN_STRENGTH", "ULTIMATE_STRENGTH"}
REFLEXES = {"CLARITY_OF_THOUGHT", "IMPROVED_REFLEXES", "INCREDIBLE_REFLEXES"}
EYES = {"SHARP_EYE", "HAWK_EYE", "EAGLE_EYE"}
MYSTICS = {"MYSTIC_WILL", "MYSTIC_LORE", "MYSTIC_MIGHT"}
GREAT = {"CHIVALRY", "PIETY", "RIGOUR", "AUGURY"}
OVERHEAD_NAMES = {
    "RETRIBUTION", "REDEMPTION", "SMITE", "PROTECT_FROM_MAGIC", "PROTECT_FROM_MISSILES", "PROTECT_FROM_MELEE",
}  # fmt: skip
EXCLUDED = {
    **dict.fromkeys(SKINS, SKINS | GREAT),
    **dict.fromkeys(STRENGTHS, STRENGTHS | EYES | MYSTICS | GREAT),
    **dict.fromkeys(REFLEXES, REFLEXES | EYES | MYSTICS | GREAT),
    **dict.fromkeys(EYES | MYSTICS, STRENGTHS | REFLEXES | EYES | MYSTICS | GREAT),
    **dict.fromkeys(GREAT, SKINS | STRENGTHS | REFLEXES | EYES | MYSTICS | GREAT),
    **dict.fromkeys(OVERHEAD_NAMES, OVERHEAD_NAMES),
}


def names(bits: int) -> set[str]:
    return {name for name in EXCLUDED if bits >> getattr(prayer, name) & 1}


@pytest.mark.parametrize("name", sorted(EXCLUDED))
def test_exclusion_groups(name: str) -> None:
    assert names(int(prayer.EXCLUDES[getattr(prayer, name)])) == EXCLUDED[name] - {name}


@pytest.mark.parametrize("order", OVERHEADS)
@pytest.mark.parametrize("before", OVERHEADS)
def test_one_overhead_at_a_time(order: str, before: str) -> None:
    arena = Arena()
    arena.tick(a=[before])
    assert one(arena.a["prayers"]) == 1 << OVERHEADS[before]
    arena.tick(a=[order])
    assert one(arena.a["prayers"]) == 1 << OVERHEADS[order]


@pytest.mark.parametrize("build", STYLE_PRAYERS)
@pytest.mark.parametrize(("first", "second"), [("mage", "ranged"), ("ranged", "melee"), ("melee", "mage")])
def test_an_order_switches_to_the_prayers_of_its_style(build: str, first: str, second: str) -> None:
    arena = Arena(build=build)
    arena.place(30)
    arena.tick(a=[*ORDERS[first], "mage_prayer"])
    assert names(one(arena.a["prayers"])) == STYLE_PRAYERS[build][first] | {"PROTECT_FROM_MAGIC"}
    arena.tick(a=ORDERS[second])
    assert names(one(arena.a["prayers"])) == STYLE_PRAYERS[build][second] | {"PROTECT_FROM_MAGIC"}


def test_tank_gear_brings_the_mage_prayers() -> None:
    arena = Arena(build="MED")
    arena.tick(a=["use_tank_gear"])
    assert names(one(arena.a["prayers"])) == {"AUGURY"}


LEVELS = {"mage_prayer": 37, "ranged_prayer": 40, "melee_prayer": 43, "smite_prayer": 52, "redemption_prayer": 49}


@pytest.mark.parametrize(("order", "level"), LEVELS.items())
def test_requirements(order: str, level: int) -> None:
    arena = Arena()
    arena.a["base"][:, PRAYER] = level - 1
    arena.tick(a=[order])
    assert one(arena.a["prayers"]) == 0
    arena.a["base"][:, PRAYER] = level
    arena.a["level"][:, PRAYER] = 0
    arena.tick(a=[order])
    assert one(arena.a["prayers"]) == 0
    arena.a["level"][:, PRAYER] = 1
    arena.tick(a=[order])
    assert one(arena.a["prayers"]) == 1 << OVERHEADS[order]


#: prayer: points per minute (mechanics.md §9)
RATES = {
    "THICK_SKIN": 5, "BURST_OF_STRENGTH": 5, "CLARITY_OF_THOUGHT": 5, "SHARP_EYE": 5, "MYSTIC_WILL": 5,
    "ROCK_SKIN": 10, "SUPERHUMAN_STRENGTH": 10, "IMPROVED_REFLEXES": 10, "HAWK_EYE": 10, "MYSTIC_LORE": 10,
    "STEEL_SKIN": 20, "ULTIMATE_STRENGTH": 20, "INCREDIBLE_REFLEXES": 20, "EAGLE_EYE": 20, "MYSTIC_MIGHT": 20,
    "PROTECT_FROM_MAGIC": 20, "PROTECT_FROM_MISSILES": 20, "PROTECT_FROM_MELEE": 20, "SMITE": 30, "REDEMPTION": 10,
    "RETRIBUTION": 5, "CHIVALRY": 40, "PIETY": 40, "RIGOUR": 40, "AUGURY": 40,
}  # fmt: skip


def drain_ticks(prayers: int, bonus: int, ticks: int) -> list[int]:
    """The ticks after switching on in which a point went."""
    arena = Arena()
    arena.a["prayers"], arena.a["prayer_drain_running"] = prayers, 1
    arena.a["bonus"][:, PRAYER_BONUS] = bonus
    drained = []
    for tick in range(1, ticks + 1):
        before = one(arena.a["level"][:, PRAYER])
        arena.tick()
        drained += [tick] * (before - one(arena.a["level"][:, PRAYER]))
    return drained


def expected_drain(rate: float, bonus: int, ticks: int) -> list[int]:
    """The literal text of §9, whose sum in double precision may reach a whole number one tick late."""
    drained, points = [], 0.0
    for tick in range(1, ticks + 1):
        points += rate / 100 / (1 + 0.0333 * bonus)
        drained += [tick] * int(points)
        points -= int(points)
    return drained


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("bonus", [0, 15])
def test_drain_rates(name: str, bonus: int) -> None:
    drained = drain_ticks(1 << getattr(prayer, name), bonus, 60)
    assert drained == expected_drain(RATES[name], bonus, 60)
    assert len(drained) == pytest.approx(60 * RATES[name] / 100 / (1 + 0.0333 * bonus), abs=1)


def test_the_rates_of_all_prayers_add_up() -> None:
    bits = 1 << prayer.PIETY | 1 << prayer.PROTECT_FROM_MAGIC  # 0.6 a tick
    assert drain_ticks(bits, 0, 10) == [2, 4, 5, 7, 9, 10]


def test_the_drain_starts_one_tick_after_the_prayer_and_keeps_its_fraction() -> None:
    arena = Arena()
    arena.wear(arena.a)
    arena.tick(a=["mage_prayer"], times=5)
    assert one(arena.a["level"][:, PRAYER]) == 99
    arena.tick(a=["ranged_prayer"])  # the fifth drain of 0.2
    assert one(arena.a["level"][:, PRAYER]) == 98
    arena.tick(times=4)
    arena.tick(a=["mage_prayer"])
    assert one(arena.a["level"][:, PRAYER]) == 97


def test_without_points_all_prayers_go_off() -> None:
    arena = Arena()
    arena.wear(arena.a)
    arena.a["level"][:, PRAYER] = 1
    arena.a["prayers"], arena.a["prayer_drain_running"] = 1 << prayer.PIETY | 1 << prayer.SMITE, 1
    arena.tick()
    assert one(arena.a["prayers"]) != 0
    arena.tick()
    assert (one(arena.a["prayers"]), one(arena.a["level"][:, PRAYER])) == (0, 0)
    assert (one(arena.a["prayer_drain_running"]), float(arena.a["prayer_drain"][0])) == (0, 0.0)


def test_the_fraction_is_forgotten_when_no_prayer_is_left() -> None:
    arena = Arena()
    arena.wear(arena.a)
    arena.tick(a=["mage_prayer"], times=5)  # four fifths of a point
    arena.a["prayers"] = 0
    arena.tick()
    arena.tick(a=["mage_prayer"], times=5)
    assert one(arena.a["level"][:, PRAYER]) == 99
    arena.tick()
    assert one(arena.a["level"][:, PRAYER]) == 98


@pytest.mark.parametrize(("build", "refilled"), [("LMS_MED", True), ("MED", False)])
def test_lms_refills_the_points_at_the_end_of_every_tick(build: str, refilled: bool) -> None:
    arena = Arena(build=build)
    arena.a["level"][:, PRAYER] = 10
    arena.tick()
    assert one(arena.a["level"][:, PRAYER]) == (one(arena.a["base"][:, PRAYER]) if refilled else 10)


def struck(prayers_of_a: int = 0, prayers_of_b: int = 0, weapon: str = "ELDER_MAUL", hopeless: bool = False) -> Arena:
    """A's hits are on their way to B; they land in the next tick."""
    arena = Arena(1000)
    arena.wear(arena.a, weapon, "OPAL_DRAGON_BOLTS_E")
    arena.wear(arena.b)
    arena.pid(first=1)
    arena.make_hopeless() if hopeless else arena.make_certain()
    arena.strike()
    arena.a["targeting"] = 0
    arena.a["prayers"], arena.b["prayers"] = prayers_of_a, prayers_of_b
    return arena


def test_smite_takes_a_quarter_of_the_hit() -> None:
    arena = struck(prayers_of_a=prayer.SMITE_BIT)
    arena.b["level"][:, HITPOINTS] = 2  # the whole hit counts, not only the hitpoints that are left
    totals = pending(arena.b, 1)[:, 0]
    arena.tick()
    assert (99 - arena.b["level"][:, PRAYER] == totals // 4).all()


def test_smite_needs_an_accurate_hit_and_the_prayer_at_landing() -> None:
    arena = struck(prayers_of_a=prayer.SMITE_BIT, weapon="ZARYTE_CROSSBOW", hopeless=True)
    assert (pending(arena.b, 1) == 11).any()  # opal on a miss
    arena.tick(times=3)
    assert one(arena.b["level"][:, PRAYER]) == 99
    arena = struck()
    arena.tick()
    assert one(arena.b["level"][:, PRAYER]) == 99


def test_points_smitten_to_zero_leave_prayers_on_until_the_next_drain() -> None:
    arena = struck(prayers_of_a=prayer.SMITE_BIT, prayers_of_b=1 << prayer.PROTECT_FROM_MAGIC)
    arena.b["prayer_drain_running"] = 1
    arena.b["level"][:, PRAYER] = 1
    arena.tick()
    smitten = arena.b["level"][:, PRAYER] == 0
    assert smitten.mean() > 0.7
    assert one(arena.b["prayers"]) == 1 << prayer.PROTECT_FROM_MAGIC
    arena.tick(times=5)
    assert one(arena.b["prayers"][smitten]) == 0


@pytest.mark.parametrize(("hitpoints", "maximum"), [(40, 9), (12, 9)])
def test_redemption_heals_who_would_be_left_with_a_tenth(hitpoints: int, maximum: int) -> None:
    """0 < HP - X <= HPmax div 10: heal floor(0.25 · base prayer), no points, no prayers."""
    arena = struck(prayers_of_b=prayer.REDEMPTION_BIT | 1 << prayer.PIETY)
    arena.b["base"][:, PRAYER] = 77
    arena.b["level"][:, HITPOINTS] = hitpoints
    left = hitpoints - pending(arena.b, 1)[:, 0]
    arena.tick()
    redeemed = (left > 0) & (left <= maximum)
    assert redeemed.any() and (~redeemed).any()
    assert (arena.b["level"][redeemed, HITPOINTS] == left[redeemed] + 19).all()
    assert one(arena.b["level"][redeemed, PRAYER]) == one(arena.b["prayers"][redeemed]) == 0
    assert (arena.b["level"][~redeemed, HITPOINTS] == np.maximum(left[~redeemed], 0)).all()
    assert one(arena.b["prayers"][~redeemed]) == prayer.REDEMPTION_BIT | 1 << prayer.PIETY


def test_redemption_comes_before_smite() -> None:
    arena = struck(prayers_of_a=prayer.SMITE_BIT, prayers_of_b=prayer.REDEMPTION_BIT)
    arena.b["level"][:, HITPOINTS] = 30
    left = 30 - pending(arena.b, 1)[:, 0]
    arena.tick()
    redeemed = (left > 0) & (left <= 9)
    assert one(arena.b["level"][redeemed, PRAYER]) == 0
    assert one(arena.b["dying"][redeemed]) == 0
