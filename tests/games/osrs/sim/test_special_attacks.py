"""Special attacks (mechanics.md §6, nh-actions.md §6.5): cost, hits, delays, damage, accuracy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pytest
from arena import NEVER, Arena, one, pending

from sb3_pvp.games.osrs.sim.prayer import PROTECT_BIT
from sb3_pvp.games.osrs.sim.state import (
    ATTACK_TIMER,
    DEFENCE,
    HITPOINTS,
    MAGIC,
    MAGIC_DEFENCE,
    MAGIC_LEVEL,
    MELEE,
    RANGED,
    RANGED_DEFENCE,
    RANGED_STRENGTH,
    STAB_DEFENCE,
)

FIGHTS = 4000


class Special(NamedTuple):
    """What one special attack of a fighter with all levels 99, no prayers and nothing but the weapon does."""

    weapon: str
    ammo: str
    cost: int
    period: int
    distance: int
    delays: tuple[int, ...]
    damage: Iterable[int]
    protected: Iterable[int]  # against the prayer that protects from its style


#: The nightmare staff's U{1..58} with 15 % magic damage.
NIGHTMARE = sorted({roll * 115 // 100 for roll in range(1, 59)})
# fmt: off
SPECIALS = [
    Special("DRAGON_DAGGER", "", 25, 4, 1, (0, 0), range(21), range(13)),
    Special("DRAGON_DAGGER_POISONED", "", 25, 4, 1, (0, 0), range(21), range(13)),
    Special("ARMADYL_GODSWORD", "", 50, 6, 1, (0,), range(47), range(28)),
    Special("ANCIENT_GODSWORD", "", 50, 6, 1, (0,), range(38), range(23)),
    Special("VESTAS_LONGSWORD", "", 25, 5, 1, (0,), range(6, 38), range(6, 38)),
    Special("STATIUS_WARHAMMER", "", 35, 6, 1, (0,), range(7, 39), range(7, 39)),
    Special("ZARYTE_CROSSBOW", "OPAL_DRAGON_BOLTS_E", 75, 5, 3, (2,), range(11, 43), range(11, 30)),
    Special("ZARYTE_CROSSBOW", "DIAMOND_DRAGON_BOLTS_E", 75, 5, 2, (1,), range(32), range(19)),
    Special("ARMADYL_CROSSBOW", "OPAL_DRAGON_BOLTS_E", 50, 5, 7, (2,), range(41), range(28)),
    Special("HEAVY_BALLISTA", "DRAGON_JAVELIN", 65, 6, 1, (2,), range(49), range(29)),
    Special("HEAVY_BALLISTA", "DRAGON_JAVELIN", 65, 6, 7, (2,), range(49), range(29)),
    Special("LIGHT_BALLISTA", "DRAGON_JAVELIN", 65, 6, 7, (2,), range(46), range(28)),
    Special("MORRIGANS_JAVELIN", "OPAL_DRAGON_BOLTS_E", 50, 5, 5, (1,), range(36), range(22)),
    Special("DRAGON_KNIFE", "OPAL_DRAGON_BOLTS_E", 25, 2, 4, (1, 1), range(17), range(10)),
    Special("DARK_BOW", "DRAGON_ARROW", 55, 8, 1, (1, 2), range(8, 32), range(8, 19)),
    Special("DARK_BOW", "DRAGON_ARROW", 55, 8, 9, (3, 4), range(8, 32), range(8, 19)),
    Special("VOLATILE_NIGHTMARE_STAFF", "", 55, 5, 10, (4,), NIGHTMARE, NIGHTMARE),
]
# fmt: on


def duel(weapon: str, ammo: str = "", distance: int = 1, fights: int = FIGHTS) -> Arena:
    """A wields this weapon; B acts first, so that the hits of a tick are still on their way when it ends."""
    arena = Arena(fights)
    arena.wear(arena.a, *[name for name in (weapon, ammo) if name])
    arena.wear(arena.b)
    arena.place(distance)
    arena.pid(first=1)
    return arena


def style_number(special: Special) -> int:
    return MAGIC if "STAFF" in special.weapon else RANGED if special.ammo else MELEE


@pytest.mark.parametrize("special", SPECIALS, ids=lambda special: f"{special.weapon}-{special.distance}")
@pytest.mark.parametrize("protected", [False, True])
def test_what_an_accurate_special_does(special: Special, protected: bool) -> None:
    arena = duel(special.weapon, special.ammo, special.distance)
    arena.make_certain()
    if protected:
        arena.b["prayers"] = int(PROTECT_BIT[style_number(special)])
    arena.strike(special=True)
    totals = pending(arena.b, len(special.delays))
    assert arena.b["hit_delay"][0, : len(special.delays)].tolist() == list(special.delays)
    for hit in totals.T:
        assert np.unique(hit).tolist() == list(special.protected if protected else special.damage)
    assert one(arena.a["energy"]) == 100 - special.cost
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == special.period
    assert one(arena.a["special_on"]) == 0
    keeps_target = special.weapon != "VOLATILE_NIGHTMARE_STAFF"
    assert one(arena.a["targeting"]) == keeps_target


@pytest.mark.parametrize("special", SPECIALS, ids=lambda special: f"{special.weapon}-{special.distance}")
def test_a_special_that_misses_costs_as_much(special: Special) -> None:
    arena = duel(special.weapon, special.ammo, special.distance)
    arena.make_hopeless()
    arena.strike(special=True)
    totals = pending(arena.b, len(special.delays))
    assert one(arena.a["energy"]) == 100 - special.cost
    if special.weapon == "DARK_BOW":  # each arrow does eight and counts as accurate
        assert one(totals) == 8
        assert one(arena.b["hit_accurate"][:, :2]) == 1
    else:
        assert one(arena.b["hit_accurate"][:, : len(special.delays)]) == 0
        assert set(np.unique(totals)) <= ({0, 9, 11} if "OPAL" in special.ammo and "BOW" in special.weapon else {0})


@pytest.mark.parametrize("special", SPECIALS, ids=lambda special: f"{special.weapon}-{special.distance}")
def test_a_special_without_the_energy_is_given_up(special: Special) -> None:
    """mechanics.md §4.2, step 4."""
    arena = duel(special.weapon, special.ammo, special.distance, fights=1)
    arena.a["energy"] = special.cost - 1
    arena.strike(special=True)
    assert one(arena.b["num_hits"]) == 0
    assert (one(arena.a["special_on"]), one(arena.a["targeting"])) == (0, 0)
    assert one(arena.a["energy"]) == special.cost - 1


def test_a_dark_bow_arrow_does_at_most_48() -> None:
    arena = duel("DARK_BOW", "DRAGON_ARROW", 5)
    arena.make_certain()
    arena.a["bonus"][:, RANGED_STRENGTH] = 500
    arena.strike(special=True)
    totals = pending(arena.b, 2)
    assert (totals.min(), totals.max()) == (8, 48)
    assert (totals == 48).mean() > 0.5


def chance(attack: int, defence: int) -> float:
    """mechanics.md §3.3."""
    return 1 - (defence + 2) / (2 * (attack + 1)) if attack > defence else attack / (2 * (defence + 1))


#: The defender's roll in every row: E_def 107 (or magic 69 + 32) times a bonus of 200 + 64.
PHYSICAL, MAGICAL = 107 * 264, 101 * 264
ACCURACIES = [
    ("DRAGON_DAGGER", "", 1, 128 * (40 + 64), PHYSICAL),  # 107 · 1.2, stab
    ("ARMADYL_GODSWORD", "", 1, 214 * (132 + 64), PHYSICAL),
    ("ANCIENT_GODSWORD", "", 1, 214 * (132 + 64), PHYSICAL),
    ("VESTAS_LONGSWORD", "", 1, 107 * (121 + 64), PHYSICAL // 4),
    ("STATIUS_WARHAMMER", "", 1, 107 * (123 + 64), PHYSICAL),
    ("ZARYTE_CROSSBOW", "OPAL_DRAGON_BOLTS_E", 3, 107 * (110 + 64), PHYSICAL),  # its multiplier is inert
    ("ARMADYL_CROSSBOW", "OPAL_DRAGON_BOLTS_E", 3, 107 * (100 + 64), PHYSICAL),
    ("HEAVY_BALLISTA", "DRAGON_JAVELIN", 3, 107 * (125 + 64), PHYSICAL),
    ("MORRIGANS_JAVELIN", "", 3, 107 * (105 + 64), PHYSICAL),
    ("DRAGON_KNIFE", "", 3, 107 * (28 + 64), PHYSICAL),
    ("VOLATILE_NIGHTMARE_STAFF", "", 3, 108 * (16 + 64), MAGICAL),
]


@pytest.mark.parametrize(("weapon", "ammo", "distance", "attack", "defence"), ACCURACIES)
def test_how_often_a_special_is_accurate(weapon: str, ammo: str, distance: int, attack: int, defence: int) -> None:
    arena = duel(weapon, ammo, distance, fights=2 * FIGHTS)
    arena.b["bonus"][:, STAB_DEFENCE : RANGED_DEFENCE + 1] = 200
    arena.strike(special=True)
    accurate = arena.b["hit_accurate"][:, 0].mean()
    assert accurate == pytest.approx(chance(attack, defence), abs=0.022)  # four standard deviations


def test_vestas_longsword_aims_at_the_stab_defence() -> None:
    """mechanics.md §6.4: it slashes, but a quarter of the stab defence roll defends."""
    arena = duel("VESTAS_LONGSWORD")
    arena.b["bonus"][:, STAB_DEFENCE : MAGIC_DEFENCE + 1] = [-64, NEVER, NEVER, NEVER]
    arena.strike(special=True)
    assert arena.b["hit_accurate"][:, 0].mean() > 0.99


@pytest.mark.parametrize(("defence", "left"), [(99, 69), (90, 62), (118, 82), (10, 7), (1, 0)])
def test_statius_warhammer_drains_defence_when_it_lands(defence: int, left: int) -> None:
    """mechanics.md §6 and §3.7: trunc(0.7 · current), in double precision."""
    arena = duel("STATIUS_WARHAMMER", fights=1)
    arena.make_certain()
    arena.b["level"][:, DEFENCE] = defence
    arena.strike(special=True)
    assert one(arena.b["level"][:, DEFENCE]) == defence
    arena.tick()
    assert one(arena.b["level"][:, DEFENCE]) == left


def test_a_missed_statius_warhammer_drains_nothing() -> None:
    arena = duel("STATIUS_WARHAMMER", fights=1)
    arena.make_hopeless()
    arena.strike(special=True)
    arena.tick()
    assert one(arena.b["level"][:, DEFENCE]) == 99


@pytest.mark.parametrize(("magic", "maximum"), [(99, 58), (70, 42), (50, 30), (120, 58)])
def test_the_nightmare_staff_follows_the_magic_level(magic: int, maximum: int) -> None:
    """mechanics.md §6.6: min(floor(M · 263/449 + 1), 58), then the magic damage bonus."""
    arena = duel("VOLATILE_NIGHTMARE_STAFF", distance=5)
    arena.make_certain()
    arena.a["level"][:, MAGIC_LEVEL] = magic
    arena.strike(special=True)
    totals = pending(arena.b, 1)
    assert (totals.min(), totals.max()) == (1, maximum * 115 // 100)


class TestDragonClaws:
    """mechanics.md §6.1: four numbers, decided by the first of four rolls that does damage."""

    @staticmethod
    def numbers(arena: Arena) -> np.ndarray:
        """(N, 4) numbers of the claws' only hit."""
        arena.strike(special=True)
        totals = pending(arena.b, 1)[:, 0]
        assert one(arena.b["hit_numbers"][:, 0]) == 4
        numbers = arena.b["hit_damage"][:, 0].copy()
        assert (numbers.sum(axis=1) == totals).all()
        return numbers

    @pytest.mark.parametrize(
        ("protected", "bounds", "success"),
        # Max 21: of the rolls U{0..21} all but 0 succeed; trunc(0.6 · 21) = 12: all but 0 and 1.
        [
            (False, [(11, 20), (8, 18), (5, 16), (5, 26)], 21 / 22),
            (True, [(6, 11), (5, 11), (3, 9), (3, 15)], 20 / 22),
        ],
    )
    def test_the_four_cases(self, protected: bool, bounds: list[tuple[int, int]], success: float) -> None:
        arena = duel("DRAGON_CLAWS", fights=5 * FIGHTS)
        arena.b["bonus"][:, STAB_DEFENCE : RANGED_DEFENCE + 1] = 200
        if protected:
            arena.b["prayers"] = int(PROTECT_BIT[MELEE])
        numbers = self.numbers(arena)
        h1, h2, h3, h4 = numbers.T
        first = h1 > 0
        second = ~first & (h2 > 0)
        third = ~first & ~second & (h3 > 1)
        fourth = ~first & ~second & (h3 == 0) & (h4 > 1)
        nothing = ~(first | second | third | fourth)
        for case, hit, (low, high) in zip((first, second, third, fourth), numbers.T, bounds, strict=True):
            assert np.unique(hit[case]).tolist() == list(range(low, high + 1))
        assert (h2[first] == h1[first] // 2).all()
        assert (h3[first | second] == h2[first | second] // 2).all()
        for case in (first, second, third):
            coin = h4[case] - h3[case]
            assert set(np.unique(coin)) == {0, 1}
            assert coin.mean() == pytest.approx(0.5, abs=0.05)
        assert (h3[nothing] == h4[nothing]).all()
        assert set(np.unique(h4[nothing])) == {0, 1}
        p = success * chance(144 * (57 + 64), PHYSICAL)  # floor(107 · 1.35)
        frequencies = [case.mean() for case in (first, second, third, fourth, nothing)]
        assert frequencies == pytest.approx(
            [p, (1 - p) * p, (1 - p) ** 2 * p, (1 - p) ** 3 * p, (1 - p) ** 4], abs=0.014
        )

    def test_the_last_roll_decides_whether_the_hit_counts_as_accurate(self) -> None:
        """mechanics.md §5."""
        arena = duel("DRAGON_CLAWS")
        arena.b["bonus"][:, STAB_DEFENCE : RANGED_DEFENCE + 1] = 200
        first = self.numbers(arena)[:, 0] > 0
        accurate = arena.b["hit_accurate"][:, 0]
        expected = chance(144 * (57 + 64), PHYSICAL)
        assert accurate[first].mean() == pytest.approx(expected, abs=0.045)
        assert accurate[~first].mean() == pytest.approx(expected, abs=0.045)

    def test_cost_and_period(self) -> None:
        arena = duel("DRAGON_CLAWS", fights=1)
        self.numbers(arena)
        assert (one(arena.a["energy"]), one(arena.a["timer"][:, ATTACK_TIMER])) == (50, 4)


class TestAncientGodsword:
    """mechanics.md §6.2: eight ticks after it landed, 25 damage and 25 healing."""

    @staticmethod
    def marked(fights: int = 1) -> Arena:
        arena = duel("ANCIENT_GODSWORD", fights=fights)
        arena.pid(first=0)  # lands at once
        arena.make_certain()
        arena.a["level"][:, HITPOINTS] = 50
        arena.strike(special=True)
        arena.a["targeting"] = 0
        return arena

    def test_it_takes_effect_after_eight_ticks(self) -> None:
        arena = self.marked()
        left = arena.hitpoints(arena.b)
        arena.tick(times=7)
        assert (arena.hitpoints(arena.a), arena.hitpoints(arena.b)) == (50, left)
        arena.tick()
        assert (arena.hitpoints(arena.a), arena.hitpoints(arena.b)) == (75, left - 25)
        arena.tick(times=20)
        assert (arena.hitpoints(arena.a), arena.hitpoints(arena.b)) == (75, left - 25)

    def test_the_heal_stops_at_the_maximum(self) -> None:
        arena = self.marked()
        arena.a["level"][:, HITPOINTS] = 90
        arena.tick(times=8)
        assert arena.hitpoints(arena.a) == 99

    @pytest.mark.parametrize(("distance", "cancelled"), [(4, False), (5, True)])
    @pytest.mark.parametrize("tick", [1, 7])
    def test_five_tiles_away_cancel_it(self, distance: int, cancelled: bool, tick: int) -> None:
        arena = self.marked()
        left = arena.hitpoints(arena.b)
        arena.tick(times=tick - 1)
        arena.place(0, distance)
        arena.tick()
        arena.place(1)
        arena.tick(times=10)
        assert arena.hitpoints(arena.b) == (left if cancelled else left - 25)

    def test_an_accurate_nought_marks_too_but_a_miss_does_not(self) -> None:
        arena = self.marked(FIGHTS)
        assert (arena.b["level"][:, HITPOINTS] == 99).any()
        assert one(arena.b["mark_ticks"][:, 0]) == 1
        arena = duel("ANCIENT_GODSWORD", fights=1)
        arena.make_hopeless()
        arena.strike(special=True)
        arena.tick()
        assert one(arena.b["mark_ticks"]) == 0
