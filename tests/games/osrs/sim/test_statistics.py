"""The memory of hits and hitsplats on both sides, against contract.md §4.2 and §4.3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from entry_points import ME, TARGET, clear_tick, record_hit, refresh_hitsplats, start_memory
from hand_built import HandBuiltFight

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.prayer import PROTECT_BIT, SMITE_BIT
from sb3_pvp.games.osrs.sim.state import (
    HITPOINTS,
    MAGIC,
    MAGIC_ATTACK,
    MELEE,
    MELEE_STRENGTH,
    NO_STYLE,
    RANGED,
    RANGED_ATTACK,
    SEAT,
    SLASH_ATTACK,
    TICK_FIELD_NAMES,
)


@pytest.fixture
def fight() -> HandBuiltFight:
    return HandBuiltFight()


def test_clear_tick_clears_every_field_of_the_tick() -> None:
    seats = np.zeros(2, SEAT)
    for name in SEAT.names or ():
        seats[name] = 7
    clear_tick(seats)
    no_style = {"hit_style_now", "hit_prayer_now"}
    assert all((seats[name] == (NO_STYLE if name in no_style else 0)).all() for name in TICK_FIELD_NAMES)
    assert (seats["hits_dealt"] == 7).all()


def test_start_memory_forgets_everything() -> None:
    fresh, used = np.zeros(2, SEAT), np.zeros(2, SEAT)
    memory = list(SEAT.names or ())
    memory = memory[memory.index("hits_received") : memory.index("target_hp_before") + 1]
    for name in memory:
        used[name] = 7
    start_memory(fresh)
    start_memory(used)
    assert (fresh == used).all()
    assert (fresh["target_gear"] == -1).all()


def test_both_sides_count_a_hit(fight: HandBuiltFight) -> None:
    fight.target["prayers"] = PROTECT_BIT[RANGED]
    record_hit(fight.seats, ME, MAGIC, 12, 5)
    record_hit(fight.seats, ME, RANGED, 20, 5)
    obs = fight.obs
    assert obs["target_prayer_confidence"] == pytest.approx(2 / 20)
    assert (obs["player_magic_hit_percent"], obs["player_ranged_hit_percent"]) == (0.5, 0.5)
    assert (obs["target_ranged_prayer_percent"], obs["target_correct_pray_percent"]) == (1, 0.5)
    assert obs["recent_player_magic_hit_percent"] == pytest.approx(0.2)
    assert obs["recent_target_correct_pray_percent"] == pytest.approx(0.2)
    assert (obs["player_just_attacked"], obs["target_just_attacked"], obs["target_prayer_correct"]) == (1, 0, 1)
    assert obs["tick_new_attack_damage"] == pytest.approx(20 / 90)
    assert fight.meta["damage_generated_on_target_scale"] == pytest.approx(32 / 90)
    other = seen_by_target(fight).obs
    assert other["target_attack_confidence"] == pytest.approx(0.1)
    assert other["target_prayer_confidence"] == 0
    assert (other["target_number_of_hits_off_prayer"], other["player_ranged_prayer_percent"]) == (0.5, 1)
    assert (other["target_just_attacked"], other["player_prayer_correct"]) == (1, 1)


def seen_by_target(fight: HandBuiltFight) -> HandBuiltFight:
    fight.seats[:] = fight.seats[::-1].copy()
    return fight


def test_smite_is_no_protection(fight: HandBuiltFight) -> None:
    fight.target["prayers"] = SMITE_BIT
    record_hit(fight.seats, ME, MELEE, 3, 4)
    obs = fight.obs
    assert [obs[f"target_{style}_prayer_percent"] for style in ("magic", "ranged", "melee")] == [0, 0, 0]
    assert obs["target_correct_pray_percent"] == 0


def test_recent_entries_are_five(fight: HandBuiltFight) -> None:
    for style in (MELEE, MELEE, MAGIC, MAGIC, MAGIC, RANGED, RANGED):
        record_hit(fight.seats, TARGET, style, 1, 4)
    obs = fight.obs
    recent = [obs[f"recent_target_{style}_hit_percent"] for style in ("melee", "magic", "ranged")]
    assert recent == pytest.approx([0, 0.6, 0.4])
    assert obs["target_melee_hit_percent"] == pytest.approx(2 / 7)
    assert obs["recent_target_number_of_hits_off_prayer"] == 1


def test_confidence_ends_at_twenty_hits(fight: HandBuiltFight) -> None:
    for _ in range(25):
        record_hit(fight.seats, TARGET, MELEE, 1, 4)
    assert fight.obs["target_attack_confidence"] == 1


def test_gear_is_remembered_by_style(fight: HandBuiltFight) -> None:
    ring = items.item_named("SEERS_RING_IMBUED")
    fight.wear(fight.target, items.ZURIELS_STAFF, ring)
    record_hit(fight.seats, TARGET, MAGIC, 1, 5)
    fight.wear(fight.target, items.DRAGON_DEFENDER)
    obs = fight.obs
    assert obs["target_magic_accuracy"] == items.BONUSES[items.ZURIELS_STAFF, MAGIC_ATTACK]
    assert obs["target_ranged_accuracy"] == fight.me["set_bonus"][1, RANGED_ATTACK]


def test_weaker_melee_gear_is_not_remembered(fight: HandBuiltFight) -> None:
    for weapon in (items.DRAGON_DAGGER, items.ABYSSAL_WHIP, items.DRAGON_DAGGER):
        fight.wear(fight.target, weapon)
        record_hit(fight.seats, TARGET, MELEE, 1, 4)
    obs = fight.obs
    assert obs["target_melee_strength"] == items.BONUSES[items.ABYSSAL_WHIP, MELEE_STRENGTH]
    assert obs["target_melee_accuracy"] == items.BONUSES[items.ABYSSAL_WHIP, SLASH_ATTACK]


def show(seat: Any, splat: int, damage: int) -> None:
    seat["splat_damage"][splat] = damage
    seat["splat_serial"][splat] += 1
    seat["level"][HITPOINTS] -= damage


def test_target_health_is_shown_one_tick_late(fight: HandBuiltFight) -> None:
    refresh_hitsplats(fight.seats)
    assert fight.obs["target_health_percent"] == 0
    show(fight.target, 0, 9)
    show(fight.target, 1, 0)
    refresh_hitsplats(fight.seats)
    obs = fight.obs
    assert obs["target_health_percent"] == 0
    assert obs["damage_on_target_tick"] == pytest.approx(0.1)
    fight.target["level"][HITPOINTS] += 5  # eating shows no hitsplat
    refresh_hitsplats(fight.seats)
    obs = fight.obs
    assert obs["target_health_percent"] == pytest.approx(0.9)
    assert obs["damage_on_target_tick"] == 0
    show(fight.target, 0, 0)  # a hit of zero shows the health too
    refresh_hitsplats(fight.seats)
    refresh_hitsplats(fight.seats)
    assert fight.obs["target_health_percent"] == pytest.approx(86 / 90)


def test_damage_scale(fight: HandBuiltFight) -> None:
    show(fight.me, 0, 30)
    show(fight.target, 0, 40)
    show(fight.target, 1, 5)
    refresh_hitsplats(fight.seats)
    refresh_hitsplats(fight.seats)
    assert fight.obs["total_damage_dealt_scale"] == pytest.approx((45 / 90 + 1) / (30 / 90 + 1))
    for _ in range(20):
        fight.me["splat_serial"][0] += 1
        refresh_hitsplats(fight.seats)
    assert fight.obs["total_damage_dealt_scale"] == 0.5


def test_hitsplats_of_an_earlier_fight_are_new_again(fight: HandBuiltFight) -> None:
    show(fight.me, 0, 18)
    refresh_hitsplats(fight.seats)
    start_memory(fight.seats)
    refresh_hitsplats(fight.seats)
    assert fight.obs["damage_on_player_tick"] == pytest.approx(0.2)
