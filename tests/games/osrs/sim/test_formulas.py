"""Accuracy and damage (mechanics.md §3) against the test vectors of §20 and a few worked numbers."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import NamedTuple

import numpy as np
import pytest
from arena import ICE_ORDER, MELEE_ORDER, MELEE_SPECIAL_ORDER, RANGED_ORDER, Arena
from formula_probe import Rolls, hit_chance, multiplied, rolls

from sb3_pvp.games.osrs.sim import prayer
from sb3_pvp.games.osrs.sim.spells import ICE_BARRAGE
from sb3_pvp.games.osrs.sim.state import ATTACK, DEFENCE, HITPOINTS, MAGIC_LEVEL, NO_ITEM, RANGED_LEVEL, STRENGTH


class Vector(NamedTuple):
    """One row of mechanics.md §20; a "strike" is (max hit, attack roll, hit chance)."""

    melee: tuple[int, int, float]
    multipliers: tuple[float, float]  # accuracy and strength of the special
    special: tuple[int, int, float]
    ranged: tuple[int, int, float]
    ice: tuple[int, int, float]
    defence_level: int
    magic_defence: int


CLAWS, GODSWORD, DAGGER = (1.35, 1.0), (2.0, 1.375), (1.2, 1.15)
# fmt: off
VECTORS = {
    "PURE": Vector((35, 14229, 0.933), CLAWS, (33, 17875, 0.9467), (40, 28424, 0.9645), (38, 21228, 0.6905),
                   14, 13140),
    "ZERKER": Vector((37, 16368, 0.4338), CLAWS, (34, 18375, 0.487), (40, 33592, 0.6999), (38, 22448, 0.563),
                     72, 19620),
    "MED": Vector((44, 24240, 0.2873), GODSWORD, (75, 50310, 0.5808), (42, 31524, 0.3648), (39, 25344, 0.5936),
                  114, 20600),
    "MAXED": Vector((53, 31439, 0.2809), GODSWORD, (72, 62878, 0.555), (42, 31382, 0.2758), (39, 25344, 0.5394),
                    155, 23345),
    "LMS_PURE": Vector((34, 17360, 0.9604), DAGGER, (32, 17152, 0.9616), (36, 26520, 0.9738), (33, 15738, 0.7309),
                       14, 8468),
    "LMS_ZERKER": Vector((40, 21505, 0.5965), DAGGER, (35, 19564, 0.5712), (36, 25840, 0.6475), (32, 17080, 0.6575),
                         72, 11700),
    "LMS_MED": Vector((43, 29184, 0.5004), DAGGER, (37, 26878, 0.4767), (38, 27690, 0.4522), (32, 19140, 0.6352),
                      121, 13965),
}
# fmt: on


def boosted(build: str) -> Arena:
    """Both drank super combat, A a ranging potion too; B wears its ranged set and prays for it; too far to fight."""
    arena = Arena(build=build)
    arena.place(30)
    arena.a["inventory"][:, -1] = NO_ITEM  # room for a shield
    arena.tick(a=["use_combat_potion"], b=["use_combat_potion"], times=3)
    arena.tick(a=["use_ranged_potion"], b=RANGED_ORDER)
    return arena


def rolls_after(arena: Arena, order: tuple[str, ...], accuracy: float = 1.0, strength: float = 1.0) -> Rolls:
    arena.tick(a=order)
    return rolls(arena.world.state[0], accuracy, strength, ICE_BARRAGE)


def strike(maximum: int, attack: int, defence: int) -> tuple[int, int, float]:
    return maximum, attack, round(hit_chance(attack, defence), 4)


@pytest.mark.parametrize("build", VECTORS)
def test_test_vectors_of_section_20(build: str) -> None:
    expected = VECTORS[build]
    arena = boosted(build)
    melee = rolls_after(arena, MELEE_ORDER)
    special = rolls_after(arena, MELEE_SPECIAL_ORDER, *expected.multipliers)
    ranged = rolls_after(arena, RANGED_ORDER)
    ice = rolls_after(arena, ICE_ORDER)
    assert (
        Vector(
            strike(melee.melee_max, melee.melee_attack, melee.melee_defence),
            expected.multipliers,
            strike(special.melee_max, special.melee_attack, special.melee_defence),
            strike(ranged.ranged_max, ranged.ranged_attack, ranged.ranged_defence),
            strike(ice.magic_max, ice.magic_attack, ice.magic_defence),
            ranged.defence_level,
            ice.magic_defence,
        )
        == expected
    )


@pytest.mark.parametrize(
    ("attack", "defence", "chance"),
    [(0, 0, 0.0), (0, 100, 0.0), (1, 0, 0.5), (100, 100, 100 / 202), (101, 100, 0.5), (20_000, 100, 1 - 102 / 40_002)],
)
def test_hit_chance_of_section_3_3(attack: int, defence: int, chance: float) -> None:
    assert hit_chance(attack, defence) == pytest.approx(chance)


#: prayer: percent by column (attack, strength, defence, ranged accuracy, ranged strength, magic); mechanics.md §3.1
PERCENT = {
    "THICK_SKIN": (100, 100, 105, 100, 100, 100),
    "ROCK_SKIN": (100, 100, 110, 100, 100, 100),
    "STEEL_SKIN": (100, 100, 115, 100, 100, 100),
    "BURST_OF_STRENGTH": (100, 105, 100, 100, 100, 100),
    "SUPERHUMAN_STRENGTH": (100, 110, 100, 100, 100, 100),
    "ULTIMATE_STRENGTH": (100, 115, 100, 100, 100, 100),
    "CLARITY_OF_THOUGHT": (105, 100, 100, 100, 100, 100),
    "IMPROVED_REFLEXES": (110, 100, 100, 100, 100, 100),
    "INCREDIBLE_REFLEXES": (115, 100, 100, 100, 100, 100),
    "SHARP_EYE": (100, 100, 100, 105, 105, 100),
    "HAWK_EYE": (100, 100, 100, 110, 110, 100),
    "EAGLE_EYE": (100, 100, 100, 115, 115, 100),
    "MYSTIC_WILL": (100, 100, 100, 100, 100, 105),
    "MYSTIC_LORE": (100, 100, 100, 100, 100, 110),
    "MYSTIC_MIGHT": (100, 100, 100, 100, 100, 115),
    "CHIVALRY": (115, 118, 120, 100, 100, 100),
    "PIETY": (120, 123, 125, 100, 100, 100),
    "RIGOUR": (100, 100, 125, 120, 123, 100),
    "AUGURY": (100, 100, 125, 100, 100, 125),
    "SMITE": (100, 100, 100, 100, 100, 100),
}
#: Where a float32 product falls just short of the whole number that exact arithmetic gives (mechanics.md §3.7).
FALLS_SHORT = {(105, 60), (105, 100), (105, 120), (118, 50), (118, 100)}


@pytest.mark.parametrize("name", PERCENT)
def test_prayer_multipliers_of_sections_3_1_and_3_7(name: str) -> None:
    arena = Arena()
    arena.a["prayers"] = 1 << getattr(prayer, name)
    for column, percent in enumerate(PERCENT[name]):
        for level in range(122):
            exact = floor(Fraction(level * percent, 100))
            short = (percent, level) in FALLS_SHORT
            assert multiplied(arena.world.state[0], level, column) == exact - short


@pytest.mark.parametrize(("magic", "kept"), [(99, 69), (90, 62), (100, 70), (118, 82), (1, 0)])
def test_seven_tenths_of_magic_defend_against_magic(magic: int, kept: int) -> None:
    """mechanics.md §3.2 and §3.7: floor(0.7 · 90) is 62 in double precision."""
    arena = Arena()
    arena.wear(arena.b)
    arena.b["level"][:, MAGIC_LEVEL] = magic
    arena.b["level"][:, DEFENCE] = 99  # E_def 107, of which 32 count
    assert rolls(arena.world.state[0]).magic_defence == (kept + 32) * 64


@pytest.mark.parametrize(
    ("weapon", "attack_roll", "max_hit"),
    [
        ("DRAGON_SCIMITAR", 107 * (67 + 64), (110 * (66 + 64) + 320) // 640),
        ("ABYSSAL_WHIP", 110 * (82 + 64), (107 * (82 + 64) + 320) // 640),  # the accurate style
        ("GHRAZI_RAPIER", 107 * (94 + 64), (110 * (89 + 64) + 320) // 640),  # stabs
        ("ELDER_MAUL", 107 * (135 + 64), (110 * (147 + 64) + 320) // 640),  # crushes
        ("KODAI_WAND", 107 * 64, (110 * 64 + 320) // 640),  # a bash
    ],
)
def test_fight_styles_of_sections_3_2_and_4_3(weapon: str, attack_roll: int, max_hit: int) -> None:
    arena = Arena()
    arena.wear(arena.a, weapon)
    got = rolls(arena.world.state[0])
    assert (got.melee_attack, got.melee_max) == (attack_roll, max_hit)


@pytest.mark.parametrize(("weapon", "bonus"), [("GHRAZI_RAPIER", 0), ("DRAGON_SCIMITAR", 1), ("ELDER_MAUL", 2)])
def test_the_attackers_style_chooses_the_defence_bonus(weapon: str, bonus: int) -> None:
    """mechanics.md §3.3."""
    arena = Arena()
    arena.wear(arena.a, weapon)
    arena.b["bonus"][:, 5:8] = [10, 20, 30]
    assert rolls(arena.world.state[0]).melee_defence == 107 * ([10, 20, 30][bonus] + 64)


@pytest.mark.parametrize(("hitpoints", "max_hit"), [(99, 29), (50, 43), (1, 57), (120, 22)])
def test_dharoks_set_of_section_3_4(hitpoints: int, max_hit: int) -> None:
    """29 · (1 + (99 - HP)/100 · 99/100), floored."""
    arena = Arena()
    pieces = ("DHAROKS_GREATAXE", "DHAROKS_HELM", "DHAROKS_PLATEBODY", "DHAROKS_PLATELEGS")
    arena.wear(arena.a, *pieces)
    arena.a["level"][:, HITPOINTS] = hitpoints
    assert rolls(arena.world.state[0]).melee_max == max_hit
    arena.wear(arena.a, *pieces[:-1])
    assert rolls(arena.world.state[0]).melee_max == 29


def test_levels_in_the_formulas_are_current_ones() -> None:
    """mechanics.md §3: boosted and drained levels count, not the base."""
    arena = Arena()
    arena.wear(arena.a)
    for skill, name in ((ATTACK, "melee_attack"), (RANGED_LEVEL, "ranged_attack")):
        arena.a["level"][:, skill] = 50
        assert getattr(rolls(arena.world.state[0]), name) == 58 * 64
    arena.a["level"][:, MAGIC_LEVEL] = 50
    assert rolls(arena.world.state[0]).magic_attack == 59 * 64
    arena.a["level"][:, STRENGTH] = 50
    assert rolls(arena.world.state[0]).melee_max == (61 * 64 + 320) // 640


@pytest.mark.parametrize("style", range(3))
def test_a_protection_prayer_leaves_six_tenths(style: int) -> None:
    """mechanics.md §3.5: trunc(0.6 · damage), decided when the attack is made."""
    arena = Arena(2000)
    arena.wear(arena.a, ("ABYSSAL_WHIP", "DARK_BOW", "KODAI_WAND")[style], "DRAGON_ARROW")
    arena.make_certain()
    arena.pid(first=1)
    arena.b["prayers"] = int(prayer.PROTECT_BIT[style])
    plain = (rolls(arena.world.state[0], spell=ICE_BARRAGE))[(2, 5, 8)[style]]
    arena.strike(spell=ICE_BARRAGE if style == 2 else 0)
    possible = np.unique((0.6 * np.arange(plain + 1)).astype(int))
    assert np.unique(arena.b["hit_total"][:, 0]).tolist() == possible.tolist()
