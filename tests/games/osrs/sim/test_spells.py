"""Ice and blood spells, freezing and healing (mechanics.md §8, nh-actions.md §5.9)."""

from __future__ import annotations

import numpy as np
import pytest
from arena import BLOOD_ORDER, ICE_ORDER, MAGIC_SPECIAL_ORDER, NEVER, Arena, one, pending

from sb3_pvp.games.osrs.sim import spells
from sb3_pvp.games.osrs.sim.prayer import PROTECT_BIT
from sb3_pvp.games.osrs.sim.state import (
    ATTACK_TIMER,
    FREEZE_IMMUNITY_TIMER,
    FREEZE_TIMER,
    HITPOINTS,
    MAGIC,
    MAGIC_DAMAGE,
    MAGIC_DEFENCE,
    MAGIC_LEVEL,
)

FIGHTS = 2000
ICE = {  # spell: level, maximum, freeze ticks
    spells.ICE_RUSH: (58, 18, 8),
    spells.ICE_BURST: (70, 22, 16),
    spells.ICE_BLITZ: (82, 26, 24),
    spells.ICE_BARRAGE: (94, 30, 32),
}
BLOOD = {  # spell: level, maximum, healed percent of the damage
    spells.BLOOD_RUSH: (56, 15, 10),
    spells.BLOOD_BURST: (68, 21, 15),
    spells.BLOOD_BLITZ: (80, 25, 20),
    spells.BLOOD_BARRAGE: (92, 29, 25),
}


def caster(staff: str = "ANCIENT_STAFF", distance: int = 5, fights: int = FIGHTS) -> Arena:
    """A holds a staff without magic damage; B acts first, so spells are still on their way at the end of the tick."""
    arena = Arena(fights)
    arena.wear(arena.a, staff)
    arena.wear(arena.b)
    arena.place(distance)
    arena.pid(first=1)
    return arena


@pytest.mark.parametrize(("spell", "level", "maximum"), [(k, *v[:2]) for k, v in (ICE | BLOOD).items()])
def test_maximum_and_level(spell: int, level: int, maximum: int) -> None:
    arena = caster()
    arena.make_certain()
    arena.a["level"][:, MAGIC_LEVEL] = level
    arena.strike(spell=spell)
    assert np.unique(pending(arena.b, 1)).tolist() == list(range(maximum + 1))
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == 5


@pytest.mark.parametrize(("percent", "maximum"), [(15, 34), (5, 31), (25, 37)])
def test_magic_damage_raises_the_maximum(percent: int, maximum: int) -> None:
    """mechanics.md §3.4: floor(30 · (1 + percent/100))."""
    arena = caster()
    arena.make_certain()
    arena.a["bonus"][:, MAGIC_DAMAGE] = percent
    arena.strike(spell=spells.ICE_BARRAGE)
    assert pending(arena.b, 1).max() == maximum


@pytest.mark.parametrize(("spell", "level"), [(k, v[0]) for k, v in (ICE | BLOOD).items()])
def test_a_spell_above_the_current_level_is_not_cast_and_stays_selected(spell: int, level: int) -> None:
    arena = caster(fights=1)
    arena.a["level"][:, MAGIC_LEVEL] = level - 1
    arena.strike(spell=spell)
    assert (one(arena.b["num_hits"]), one(arena.a["targeting"]), one(arena.a["spell"])) == (0, 0, spell)


def test_the_lunar_book_has_no_such_spell() -> None:
    arena = caster(fights=1)
    arena.a["lunar"] = 1
    arena.strike(spell=spells.ICE_BARRAGE)
    assert (one(arena.b["num_hits"]), one(arena.a["targeting"])) == (0, 0)


@pytest.mark.parametrize(("order", "family"), [(ICE_ORDER, ICE), (BLOOD_ORDER, BLOOD)])
@pytest.mark.parametrize("rank", range(5))
def test_an_order_selects_the_strongest_castable_spell(order: tuple[str, str], family: dict, rank: int) -> None:
    """nh-actions.md §5.9; below the level of the rush, the rush is selected and not cast."""
    steps = sorted(family)
    level = family[steps[rank]][0] - 1 if rank < 4 else 99
    arena = caster(distance=14, fights=1)
    arena.a["level"][:, MAGIC_LEVEL] = level
    arena.tick(a=order)
    assert one(arena.a["spell"]) == steps[max(rank - 1, 0)]


def test_casting_ends_everything() -> None:
    """mechanics.md §4.2: spell, target and movement are cleared."""
    arena = caster(fights=1)
    arena.tick(a=ICE_ORDER)
    assert (one(arena.a["spell"]), one(arena.a["targeting"]), one(arena.a["walking"])) == (0, 0, 0)
    arena.tick(times=10)
    assert one(arena.a["hits_dealt"]) == 1


def test_the_staffs_special_needs_the_staff() -> None:
    """[seen live]: with another staff the order makes the fighter walk up and bash."""
    arena = caster("KODAI_WAND", distance=5, fights=1)
    arena.give_set(arena.a, 0, "KODAI_WAND")
    arena.tick(a=MAGIC_SPECIAL_ORDER, times=2)
    assert one(arena.b["num_hits"]) == 1
    assert one(arena.b["hit_style"][:, 0]) == 0
    assert one(arena.a["timer"][:, ATTACK_TIMER]) == 5
    assert one(arena.a["energy"]) == 100


@pytest.mark.parametrize(("spell", "ticks"), [(k, v[2]) for k, v in ICE.items()])
def test_an_accurate_ice_spell_freezes_at_once(spell: int, ticks: int) -> None:
    arena = caster()
    arena.make_certain()
    arena.b["goal_x"], arena.b["walking"], arena.b["moving"] = 3070, 1, 1
    arena.pid(first=0)
    arena.strike(spell=spell)
    assert (one(arena.b["timer"][:, FREEZE_TIMER]), one(arena.b["timer"][:, FREEZE_IMMUNITY_TIMER])) == (
        ticks,
        ticks + 5,
    )
    assert (one(arena.b["walking"]), one(arena.b["moving"])) == (0, 0)
    assert one(arena.b["x"]) == 3065  # the caster goes first: the victim did not move any more
    assert (arena.b["hit_total"][:, 0] == 0).any()  # also with damage 0


def test_a_victim_that_goes_first_has_moved_before_it_freezes() -> None:
    arena = caster(fights=1)
    arena.make_certain()
    arena.b["goal_x"], arena.b["walking"] = 3070, 1
    arena.strike(spell=spells.ICE_BARRAGE)
    assert one(arena.b["x"]) == 3067
    arena.tick(times=3)
    assert one(arena.b["x"]) == 3067


@pytest.mark.parametrize("spell", [spells.ICE_BARRAGE, spells.BLOOD_BARRAGE])
def test_a_splash_does_nothing(spell: int) -> None:
    """No freeze, no heal, no hitsplat."""
    arena = caster(fights=1)
    arena.make_hopeless()
    arena.a["level"][:, HITPOINTS] = 50
    arena.strike(spell=spell)
    assert (pending(arena.b, 1)[0, 0], one(arena.b["hit_accurate"][:, 0])) == (0, 0)
    assert one(arena.b["timer"][:, FREEZE_TIMER]) == 0
    arena.tick(times=6)
    assert one(arena.b["splat_serial"]) == 0
    assert (arena.hitpoints(arena.a), arena.hitpoints(arena.b)) == (50, 99)


def test_an_accurate_nought_shows_a_hitsplat() -> None:
    arena = caster(distance=1)
    arena.make_certain()
    arena.strike(spell=spells.ICE_BARRAGE)
    nought = arena.b["hit_total"][:, 0] == 0
    assert nought.any()
    arena.tick(times=4)
    assert (arena.b["splat_serial"][nought, 0] > 0).all()


def test_a_frozen_fighter_can_be_frozen_again_five_ticks_after_it_may_move() -> None:
    """Frozen through tick t+31, free to move in t+32, frozen again from t+37 on."""
    arena = caster(fights=1)
    arena.make_certain()
    arena.pid(first=0)
    arena.strike(spell=spells.ICE_BARRAGE)
    arena.b["level"][:, HITPOINTS] = NEVER
    moved = []
    for tick in range(1, 38):
        arena.b["goal_x"], arena.b["walking"] = one(arena.b["x"]) + (1 if tick % 2 else -1), 1
        before = one(arena.b["x"])
        arena.make_ready()
        arena.strike(spell=spells.ICE_BARRAGE)
        if one(arena.b["x"]) != before:
            moved.append(tick)
    assert moved == [32, 33, 34, 35, 36]
    assert one(arena.b["timer"][:, FREEZE_TIMER]) == 32


@pytest.mark.parametrize("timer", [FREEZE_TIMER, FREEZE_IMMUNITY_TIMER])
def test_neither_a_frozen_nor_an_immune_fighter_is_frozen(timer: int) -> None:
    arena = caster(fights=1)
    arena.make_certain()
    arena.b["timer"][:, timer] = 4
    arena.strike(spell=spells.ICE_BARRAGE)
    assert one(arena.b["timer"][:, timer]) == 3
    assert one(arena.b["timer"][:, FREEZE_TIMER + FREEZE_IMMUNITY_TIMER - timer]) == 0


@pytest.mark.parametrize(("spell", "percent"), [(k, v[2]) for k, v in BLOOD.items()])
@pytest.mark.parametrize("staff", ["ANCIENT_STAFF", "ZURIELS_STAFF"])
@pytest.mark.parametrize("protected", [False, True])
def test_blood_heals_at_once_by_a_share_of_the_damage(spell: int, percent: int, staff: str, protected: bool) -> None:
    """trunc(damage · share), half as much again with Zuriel's staff, of what the victim's prayer leaves."""
    arena = caster(staff)
    arena.make_certain()
    arena.b["prayers"] = int(PROTECT_BIT[MAGIC]) * protected
    arena.a["level"][:, HITPOINTS] = 50
    arena.strike(spell=spell)
    totals = pending(arena.b, 1)[:, 0]
    share = percent * (3 if staff == "ZURIELS_STAFF" else 2)
    assert (arena.a["level"][:, HITPOINTS] - 50 == totals * share // 200).all()


@pytest.mark.parametrize(("hitpoints", "most"), [(97, 99), (99, 99), (110, 110)])
def test_blood_never_overheals(hitpoints: int, most: int) -> None:
    arena = caster()
    arena.make_certain()
    arena.a["level"][:, HITPOINTS] = hitpoints
    arena.strike(spell=spells.BLOOD_BARRAGE)
    assert arena.a["level"][:, HITPOINTS].max() == most


@pytest.mark.parametrize(
    ("staff", "spell", "factor"),
    [
        ("ZURIELS_STAFF", spells.ICE_BARRAGE, 1.1),
        ("ZURIELS_STAFF", spells.BLOOD_BARRAGE, 1.0),
        ("AHRIMS_STAFF_100", spells.ICE_BARRAGE, 1.0),
    ],
)
def test_zuriels_staff_makes_ice_more_accurate(staff: str, spell: int, factor: float) -> None:
    arena = caster(staff, fights=30_000)
    arena.a["bonus"][:, :5] = 18
    arena.b["bonus"][:, MAGIC_DEFENCE] = 36
    arena.strike(spell=spell)
    attack, defence = int(108 * (18 + 64) * factor), (69 + 32) * (36 + 64)
    assert arena.b["hit_accurate"][:, 0].mean() == pytest.approx(attack / (2 * (defence + 1)), abs=0.012)
