"""Enchanted bolts (mechanics.md §7) and the javelin's bleeding (§6.5)."""

from __future__ import annotations

import numpy as np
import pytest
from arena import HOPELESS, Arena, one, pending

from sb3_pvp.games.osrs.sim.prayer import PROTECT_BIT
from sb3_pvp.games.osrs.sim.state import HITPOINTS, MAGIC, RANGED_LEVEL, RANGED_STRENGTH

FIGHTS = 8000
RUNE, ARMADYL, ZARYTE = "RUNE_CROSSBOW", "ARMADYL_CROSSBOW", "ZARYTE_CROSSBOW"
OPAL, DRAGONSTONE = "OPAL_DRAGON_BOLTS_E", "DRAGONSTONE_DRAGON_BOLTS_E"


def crossbow(weapon: str, ammo: str, strength: int = HOPELESS) -> Arena:
    """A shoots with a maximum hit of zero (or of ``strength``), so that the damage is the bolt's own."""
    arena = Arena(FIGHTS)
    arena.wear(arena.a, weapon, ammo)
    arena.wear(arena.b)
    arena.place(3)
    arena.pid(first=1)
    arena.make_certain()
    arena.a["bonus"][:, RANGED_STRENGTH] = strength
    return arena


# fmt: off
EXTRA_DAMAGE = [
    # weapon, ammo, special, accurate, ranged level, extra, how often
    (RUNE, OPAL, False, True, 99, 9, 0.05),
    (RUNE, "OPAL_BOLTS_E", False, True, 112, 11, 0.05),
    (RUNE, OPAL, False, False, 99, 9, 0.05),  # also on a miss
    (ZARYTE, OPAL, False, True, 99, 11, 0.05),
    (ZARYTE, OPAL, True, True, 99, 11, 1.0),
    (ZARYTE, OPAL, True, False, 112, 12, 0.05),
    (ARMADYL, OPAL, False, True, 99, 9, 0.05),
    (ARMADYL, OPAL, True, True, 99, 9, 0.10),
    (ARMADYL, OPAL, True, False, 99, 9, 0.10),
    (RUNE, DRAGONSTONE, False, True, 99, 19, 0.06),
    (RUNE, "DRAGONSTONE_BOLTS_E", False, True, 112, 22, 0.06),
    (RUNE, DRAGONSTONE, False, False, 99, 19, 0.0),
    (ZARYTE, DRAGONSTONE, False, True, 112, 24, 0.06),
    (ZARYTE, DRAGONSTONE, True, True, 99, 21, 1.0),
    (ZARYTE, DRAGONSTONE, True, False, 99, 21, 0.0),
    (ARMADYL, DRAGONSTONE, True, True, 99, 19, 0.12),
    (ZARYTE, "DIAMOND_DRAGON_BOLTS_E", True, True, 99, 0, 0.0),  # no effect is implemented
]
# fmt: on


@pytest.mark.parametrize(("weapon", "ammo", "special", "accurate", "level", "extra", "frequency"), EXTRA_DAMAGE)
def test_extra_damage(
    weapon: str, ammo: str, special: bool, accurate: bool, level: int, extra: int, frequency: float
) -> None:
    arena = crossbow(weapon, ammo)
    if not accurate:
        arena.make_hopeless()
    arena.a["level"][:, RANGED_LEVEL] = level
    arena.strike(special)
    totals = pending(arena.b, 1)
    assert set(np.unique(totals)) == ({0, extra} if 0 < frequency < 1 else {extra if frequency else 0})
    assert (totals > 0).mean() == pytest.approx(frequency, abs=0.014)
    assert one(arena.b["hit_accurate"][:, 0]) == accurate


@pytest.mark.parametrize(("ammo", "blocked"), [(OPAL, False), (DRAGONSTONE, True)])
def test_protect_from_magic_stops_dragonstones_only(ammo: str, blocked: bool) -> None:
    arena = crossbow(ZARYTE, ammo)
    arena.b["prayers"] = int(PROTECT_BIT[MAGIC])
    arena.strike(special=True)
    assert (pending(arena.b, 1) == 0).all() == blocked


@pytest.mark.parametrize(
    ("weapon", "special", "factor", "frequency"),
    [(RUNE, False, 1.15, 0.10), (ARMADYL, True, 1.15, 0.20), (ZARYTE, False, 1.25, 0.10), (ZARYTE, True, 1.25, 1.0)],
)
def test_diamonds_multiply_the_damage(weapon: str, special: bool, factor: float, frequency: float) -> None:
    arena = crossbow(weapon, "DIAMOND_BOLTS_E", strength=4000)
    maximum = (107 * 4064 + 320) // 640
    arena.strike(special)
    totals = pending(arena.b, 1)
    assert totals.max() == pytest.approx(factor * maximum, rel=0.03)
    assert totals.max() <= factor * maximum
    share_above = 1 - 1 / factor
    assert (totals > maximum).mean() == pytest.approx(frequency * share_above, abs=0.012)


def test_diamonds_make_nothing_of_a_miss() -> None:
    arena = crossbow(ZARYTE, "DIAMOND_BOLTS_E", strength=4000)
    arena.make_hopeless()
    arena.strike(special=True)
    assert one(pending(arena.b, 1)) == 0


def test_bolts_need_a_crossbow() -> None:
    arena = crossbow("HEAVY_BALLISTA", OPAL)
    arena.strike(special=True)
    assert one(pending(arena.b, 1)) == 0


class TestBleeding:
    @staticmethod
    def javelin(fights: int = 200) -> Arena:
        arena = Arena(fights)
        arena.wear(arena.a, "MORRIGANS_JAVELIN")
        arena.wear(arena.b)
        arena.place(3)  # one tick of flight
        arena.make_certain()
        return arena

    def test_five_damage_every_third_tick_until_the_hit_is_doubled(self) -> None:
        arena = self.javelin()
        arena.strike(special=True)
        arena.a["targeting"] = 0
        totals = pending(arena.b, 1)[:, 0]
        arena.tick()
        for tick in range(30):
            bled = np.minimum(totals, 5 * (tick // 3))
            assert (arena.b["level"][:, HITPOINTS] == 99 - totals - bled).all()
            arena.tick()
        assert (arena.b["level"][:, HITPOINTS] == 99 - 2 * totals).all()

    def test_two_wounds_bleed_at_once(self) -> None:
        arena = self.javelin()
        arena.b["level"][:, HITPOINTS] = 900
        totals = np.zeros(arena.world.num_fights, np.int64)
        for _ in range(2):
            arena.make_ready()
            arena.strike(special=True)
            totals += arena.b["hit_total"][:, arena.b["num_hits"][0] - 1]
        arena.a["targeting"] = 0
        arena.tick(times=40)
        assert (arena.b["level"][:, HITPOINTS] == 900 - 2 * totals).all()

    def test_a_plain_throw_or_a_miss_does_not_bleed(self) -> None:
        arena = self.javelin(1)
        arena.strike()
        arena.tick()
        assert one(arena.b["bleed_left"]) == 0
        arena = self.javelin(1)
        arena.make_hopeless()
        arena.strike(special=True)
        arena.tick()
        assert one(arena.b["bleed_left"]) == 0

    @pytest.mark.parametrize("dying", ["a", "b"])
    def test_it_stops_when_either_is_dying(self, dying: str) -> None:
        arena = self.javelin(1)
        arena.b["bleed_left"][:, 0] = 30
        seat = getattr(arena, dying)
        seat["level"][:, HITPOINTS], seat["dying"] = 0, 1
        left = arena.hitpoints(arena.b)
        arena.tick(times=9)
        assert arena.hitpoints(arena.b) == left
        assert one(arena.b["bleed_left"]) == 0
