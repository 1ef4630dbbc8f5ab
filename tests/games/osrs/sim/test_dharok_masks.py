"""The masks of the Dharok game, row by row (contract.md §6.2)."""

from __future__ import annotations

import pytest
from dharok_arena import DHAROK, DharokArena

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
    VENGEANCE_TIMER,
)

ALWAYS = ("no_potion", "dont_eat_food", "dont_karambwan", "no_veng", "no_gear", "full_armor")


def arena_with(levels: dict[int, int] | None = None, timers: dict[int, int] | None = None, **free: int) -> DharokArena:
    """A has these levels and, at the end of a tick, these timers; ``free`` pieces of items are taken away first."""
    arena = DharokArena()
    for skill, level in (levels or {}).items():
        arena.a["level"][:, skill] = level
    for timer, ticks in (timers or {}).items():
        arena.a["timer"][:, timer] = ticks + 1
    for name, count in free.items():
        arena.empty_slots(arena.a, name, count)
    arena.tick()
    return arena


def test_at_the_start() -> None:
    arena = DharokArena()
    allowed = {choice.id for head in DHAROK.heads for choice in head.actions if arena.allowed(choice.id)}
    brews_are_no_use = {"use_brew", "use_combat_potion", "eat_primary_food", "use_veng", "whip_attack"}
    assert allowed == {*ALWAYS, *brews_are_no_use}


@pytest.mark.parametrize(("ticks", "ready"), [(0, True), (1, True), (2, False), (5, False)])
def test_attacks_wait_for_the_timer_but_not_the_maul(ticks: int, ready: bool) -> None:
    arena = arena_with(timers={ATTACK_TIMER: ticks}, ANGLERFISH=1)
    assert arena.allowed("no_op_attack") != ready
    assert (arena.allowed("whip_attack"), arena.allowed("axe_attack")) == (ready, ready)
    assert arena.allowed("maul_spec_attack")


def test_two_hands_need_a_free_slot_or_no_shield() -> None:
    full = arena_with()
    assert not full.allowed("axe_attack")
    assert not full.allowed("maul_spec_attack")
    assert full.allowed("whip_attack")
    full.wear(full.a, "ABYSSAL_TENTACLE")
    full.tick()
    assert full.allowed("axe_attack")
    assert full.allowed("maul_spec_attack")


@pytest.mark.parametrize(("energy", "allowed"), [(100, True), (50, True), (49, False)])
def test_the_maul_needs_energy(energy: int, allowed: bool) -> None:
    arena = DharokArena()
    arena.empty_slots(arena.a, "ANGLERFISH", 1)
    arena.a["energy"] = energy
    arena.tick()
    assert arena.allowed("maul_spec_attack") == allowed


@pytest.mark.parametrize(
    ("defence", "hitpoints", "allowed"), [(99, 99, True), (118, 100, True), (119, 100, False), (119, 99, True)]
)
def test_brews(defence: int, hitpoints: int, allowed: bool) -> None:
    arena = arena_with({DEFENCE: defence, HITPOINTS: hitpoints})
    assert arena.allowed("use_brew") == allowed


@pytest.mark.parametrize(
    ("skill", "allowed"),
    [(ATTACK, True), (STRENGTH, True), (DEFENCE, True), (PRAYER, True), (RANGED_LEVEL, False), (MAGIC_LEVEL, False)],
)
def test_restores_are_for_four_levels(skill: int, allowed: bool) -> None:
    assert not arena_with().allowed("use_restore_potion")
    assert arena_with({skill: 98}).allowed("use_restore_potion") == allowed


@pytest.mark.parametrize("skill", [ATTACK, STRENGTH, DEFENCE])
def test_combat_potions_must_raise_something_by_two(skill: int) -> None:
    boosted = {ATTACK: 117, STRENGTH: 117, DEFENCE: 117}
    assert not arena_with(boosted).allowed("use_combat_potion")
    assert arena_with(boosted | {skill: 116}).allowed("use_combat_potion")


@pytest.mark.parametrize("potion", ["use_brew", "use_restore_potion", "use_combat_potion"])
def test_potions_need_a_dose_and_their_timer(potion: str) -> None:
    hurt = {HITPOINTS: 50, ATTACK: 50}
    item = {"use_brew": "SARADOMIN_BREW_4", "use_restore_potion": "SUPER_RESTORE_4"}.get(potion, "SUPER_COMBAT_4")
    assert arena_with(hurt, {POTION_TIMER: 1}).allowed(potion)
    assert not arena_with(hurt, {POTION_TIMER: 2}).allowed(potion)
    assert not arena_with(hurt, **{item: 28}).allowed(potion)


@pytest.mark.parametrize(("hitpoints", "allowed"), [(98, True), (99, True), (100, False)])
def test_fish_up_to_full_health(hitpoints: int, allowed: bool) -> None:
    assert arena_with({HITPOINTS: hitpoints}).allowed("eat_primary_food") == allowed


def test_food_needs_a_piece_and_its_timer() -> None:
    assert arena_with(timers={FOOD_TIMER: 1}).allowed("eat_primary_food")
    assert not arena_with(timers={FOOD_TIMER: 2}).allowed("eat_primary_food")
    assert not arena_with(ANGLERFISH=14).allowed("eat_primary_food")


def test_karambwans_only_for_the_hurt() -> None:
    assert not arena_with({HITPOINTS: 99}).allowed("eat_karambwan")
    assert arena_with({HITPOINTS: 98}, {KARAMBWAN_TIMER: 1}).allowed("eat_karambwan")
    assert not arena_with({HITPOINTS: 98}, {KARAMBWAN_TIMER: 2}).allowed("eat_karambwan")
    assert not arena_with({HITPOINTS: 98}, KARAMBWAN=3).allowed("eat_karambwan")


@pytest.mark.parametrize(("ticks", "allowed"), [(1, True), (2, False)])
def test_vengeance_looks_at_its_cooldown_only(ticks: int, allowed: bool) -> None:
    assert arena_with({MAGIC_LEVEL: 1}, {VENGEANCE_TIMER: ticks}).allowed("use_veng") == allowed


def test_armour_comes_off_into_two_free_slots() -> None:
    assert not arena_with(ANGLERFISH=1).allowed("take_armor_off")
    arena = arena_with(ANGLERFISH=2)
    assert arena.allowed("take_armor_off")
    arena.tick(a=["take_armor_off"])
    assert arena.allowed("take_armor_off"), "it is off already, and no slot is free"
