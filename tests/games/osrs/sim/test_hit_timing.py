"""When hits land and attacks repeat: delays, order of play, periods, hitsplats (mechanics.md §1, §4.3, §4.5, §5)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from arena import Arena, one, pending

from sb3_pvp.games.osrs.sim.prayer import PROTECT_BIT, REDEMPTION_BIT
from sb3_pvp.games.osrs.sim.spells import BLOOD_RUSH, ICE_BARRAGE
from sb3_pvp.games.osrs.sim.state import ATTACK_TIMER, HITPOINTS, MELEE

CROSSBOW, DARK_BOW, KNIFE = "RUNE_CROSSBOW", "DARK_BOW", "DRAGON_KNIFE"
JAVELIN, BALLISTA, STAFF = "MORRIGANS_JAVELIN", "HEAVY_BALLISTA", "KODAI_WAND"
DELAYS: list[tuple[str, int, range, Callable[[int], int]]] = [
    # weapon, spell, distances, ticks of the (first) hit (mechanics.md §4.5)
    ("ABYSSAL_WHIP", 0, range(1, 2), lambda _: 0),
    (STAFF, ICE_BARRAGE, range(1, 11), lambda d: 1 + (1 + d) // 3),
    (STAFF, BLOOD_RUSH, range(1, 11), lambda d: 1 + (1 + d) // 3),
    (CROSSBOW, 0, range(1, 8), lambda d: 1 + (3 + d) // 6),
    (DARK_BOW, 0, range(1, 10), lambda d: 1 + (3 + d) // 6),
    (KNIFE, 0, range(1, 5), lambda d: 1 + d // 6),
    (JAVELIN, 0, range(1, 6), lambda d: 1 + d // 6),
    (BALLISTA, 0, range(1, 8), lambda d: 2 + (1 + d) // 6),
]
CASES = [(weapon, spell, d, delay(d)) for weapon, spell, distances, delay in DELAYS for d in distances]


def shot(weapon: str, spell: int, distance: int, first: int) -> Arena:
    """A has just attacked from this far away; ten fights."""
    arena = Arena(10)
    arena.wear(arena.a, weapon, "DRAGON_ARROW")
    arena.wear(arena.b)
    arena.place(distance)
    arena.pid(first)
    arena.make_certain()
    arena.strike(spell=spell)
    arena.a["targeting"] = 0
    return arena


@pytest.mark.parametrize(("weapon", "spell", "distance", "delay"), CASES)
@pytest.mark.parametrize("first", [0, 1])
def test_a_hit_lands_after_its_delay_and_one_tick_later_without_pid(
    weapon: str, spell: int, distance: int, delay: int, first: int
) -> None:
    arena = shot(weapon, spell, distance, first)
    for _ in range(delay + first):
        assert one(arena.b["splat_serial"]) == 0
        arena.tick()
    assert (arena.b["splat_serial"][:, 0] > 0).all()


@pytest.mark.parametrize("distance", range(1, 10))
def test_the_second_arrow_of_a_dark_bow(distance: int) -> None:
    arena = shot(DARK_BOW, 0, distance, first=1)
    pending(arena.b, 2)
    assert one(arena.b["hit_delay"][:, 1]) == 1 + (2 + distance) // 3


PERIODS = [
    ("DRAGON_SCIMITAR", 4), ("ABYSSAL_WHIP", 4), ("ABYSSAL_TENTACLE", 4), ("DRAGON_DAGGER", 4), ("GHRAZI_RAPIER", 4),
    ("DRAGON_CLAWS", 4), ("VESTAS_LONGSWORD", 5), ("ARMADYL_GODSWORD", 6), ("STATIUS_WARHAMMER", 6),
    ("ELDER_MAUL", 6), ("GRANITE_MAUL", 7), ("DHAROKS_GREATAXE", 7), ("KODAI_WAND", 5), ("ANCIENT_STAFF", 4),
    ("", 4), (CROSSBOW, 5), (BALLISTA, 6), (DARK_BOW, 7), (KNIFE, 2), (JAVELIN, 5),
]  # fmt: skip


@pytest.mark.parametrize(("weapon", "period"), PERIODS)
def test_attacks_repeat_with_the_period_of_the_weapon(weapon: str, period: int) -> None:
    """mechanics.md §4.3; melee and ranged keep the target."""
    arena = Arena()
    arena.wear(arena.a, *([weapon] if weapon else []))
    arena.make_hopeless()
    arena.a["targeting"] = 1
    attacks = []
    for tick in range(3 * period):
        before = one(arena.a["hits_dealt"])
        arena.tick()
        if one(arena.a["hits_dealt"]) > before:
            attacks.append(tick)
            assert one(arena.a["timer"][:, ATTACK_TIMER]) == period
    assert attacks == [0, period, 2 * period]


def test_damage_and_protection_are_decided_when_the_attack_is_made() -> None:
    """mechanics.md §1: the prayer counts at the roll, even if it is switched on in the same tick."""
    arena = Arena(3000)
    arena.wear(arena.a, "ELDER_MAUL")
    arena.wear(arena.b)
    arena.pid(first=1)
    arena.make_certain()
    arena.strike()
    plain = pending(arena.b, 1).max()
    arena.tick(b=["melee_prayer"])
    assert 99 - arena.b["level"][:, HITPOINTS].min() == plain
    arena.b["prayers"] = 0
    arena.make_ready()
    arena.a["targeting"] = 1
    arena.tick(b=["melee_prayer"])
    assert one(arena.b["prayers"]) == PROTECT_BIT[MELEE]
    assert pending(arena.b, 1).max() == int(0.6 * plain)


def queue(seat: np.ndarray, total: int, *numbers: int, accurate: bool = True, style: int = MELEE) -> None:
    """Puts a hit on its way that lands at the next inspection."""
    place = one(seat["num_hits"])
    seat["num_hits"] += 1
    seat["hit_delay"][:, place], seat["hit_total"][:, place] = 0, total
    seat["hit_accurate"][:, place], seat["hit_style"][:, place] = accurate, style
    seat["hit_numbers"][:, place], seat["hit_effect"][:, place] = len(numbers), 0
    seat["hit_damage"][:, place, : len(numbers)] = numbers


def idle_arena() -> Arena:
    arena = Arena()
    arena.wear(arena.a)
    arena.wear(arena.b)
    return arena


@pytest.mark.parametrize(
    ("hits", "left"),
    [
        ([(30, 16, 8, 4, 2)], [75, 69, 69]),  # claws: two ticks
        ([(5, 5), (6, 6), (7, 7)], [88, 81, 81]),
        ([(0, 0), (0, 0), (9, 9)], [99, 90, 90]),  # noughts take up hitsplats
    ],
)
def test_two_numbers_a_tick(hits: list[tuple[int, ...]], left: list[int]) -> None:
    arena = idle_arena()
    for total, *numbers in hits:
        queue(arena.b, total, *numbers)
    seen = []
    for _ in left:
        arena.tick()
        seen.append(arena.hitpoints(arena.b))
    assert seen == left


def test_all_landings_of_a_tick_come_before_its_damage() -> None:
    """mechanics.md §5: redemption looks at the HP before the other hit of the tick."""
    arena = idle_arena()
    arena.b["level"][:, HITPOINTS] = 30
    arena.b["prayers"] = REDEMPTION_BIT
    queue(arena.b, 15, 15)
    queue(arena.b, 12, 12)  # either alone leaves more than 9
    arena.tick()
    assert arena.hitpoints(arena.b) == 3
    assert one(arena.b["prayers"]) == REDEMPTION_BIT


def test_damage_stops_at_zero() -> None:
    arena = idle_arena()
    arena.b["level"][:, HITPOINTS] = 10
    queue(arena.b, 50, 50)
    arena.tick()
    assert arena.hitpoints(arena.b) == 0
    assert one(arena.b["splat_damage"][:, 0]) == 10


def test_hits_stay_in_their_order() -> None:
    arena = idle_arena()
    for number in range(1, 7):
        queue(arena.b, number, number)
    arena.b["hit_delay"][:, :6] = [1, 0, 2, 0, 1, 0]
    shown = []
    for _ in range(4):
        arena.tick()
        shown.append(arena.b["splat_damage"][0].tolist())
    assert shown == [[2, 4], [6, 1], [5, 3], [5, 3]]
