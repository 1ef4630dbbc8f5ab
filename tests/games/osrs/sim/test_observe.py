"""The observation of fights built by hand, against contract.md §4."""

from __future__ import annotations

import math

import numpy as np
import pytest
from entry_points import publish
from hand_built import HandBuiltFight
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.games.osrs.meta_fields import META_DTYPE, RANDOMISED
from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.prayer import PROTECT_BIT, REDEMPTION_BIT, SMITE_BIT
from sb3_pvp.games.osrs.sim.state import (
    ATTACK_TIMER,
    DEFENCE,
    FOOD_TIMER,
    FREEZE_TIMER,
    HITPOINTS,
    LMS,
    MAGIC_DAMAGE,
    MAGIC_DEFENCE,
    MAGIC_LEVEL,
    PVP_ARENA,
    RANGED,
    RANGED_ATTACK,
    RANGED_LEVEL,
    RANGED_SET,
    SPEC_SET,
)
from sb3_pvp.games.osrs.sim.world import SimWorld


@pytest.fixture
def fight() -> HandBuiltFight:
    return HandBuiltFight()


def test_every_entry_is_written(fight: HandBuiltFight) -> None:
    assert not [name for name, value in fight.obs.items() if math.isnan(value)]


def test_what_is_not_written_again_is_up_to_date() -> None:
    """A tick writes only what may have changed; here everything is written to other arrays and compared."""
    world = SimWorld(12, reset_params=RANDOMISED)
    world.reset(np.arange(6), {"bots": (None, "baseline")})
    world.reset(np.arange(6, 12))
    whole = np.empty(world.obs.shape[-1], np.float32), np.empty(world.masks.shape[-1], bool), np.empty(1, META_DTYPE)
    for _ in range(120):
        for fight, seat in np.ndindex(world.outcome.shape):
            seats = world.state[fight, [seat, 1 - seat]]  # copies, with ``ME`` first
            whole[0].fill(np.nan)
            publish(seats, world.fights[[fight]], *whole)
            assert np.array_equal(world.obs[fight, seat], whole[0])
            assert np.array_equal(world.masks[fight, seat], whole[1])
            assert world.meta[fight, seat] == whole[2][0]
        world.step(world.random_actions())
        over = np.flatnonzero(world.outcome.any(axis=1))
        world.reset(over)


def test_weapons_and_prayers(fight: HandBuiltFight) -> None:
    fight.wear(fight.me, items.GRANITE_MAUL)
    fight.wear(fight.target, items.ZURIELS_STAFF)
    fight.me["prayers"] = PROTECT_BIT[RANGED]
    fight.target["prayers"] = SMITE_BIT
    obs = fight.obs
    shown = {"player_using_melee", "player_spec_equipped", "player_ranged_prayer", "target_using_mage"}
    shown.add("target_smite_prayer")
    stance = [name for name in obs if "_using_" in name or "spec_equipped" in name]
    stance += [name for name in obs if name.endswith("_prayer")]
    assert {name for name in stance if obs[name]} == shown
    fight.target["prayers"] = REDEMPTION_BIT
    assert fight.obs["target_redemption_prayer"] == 1


def test_bare_hands_are_melee(fight: HandBuiltFight) -> None:
    assert fight.obs["player_using_melee"] == 1
    assert fight.obs["player_spec_equipped"] == 0


def test_supplies(fight: HandBuiltFight) -> None:
    brews, ranging = items.POTION_DOSES[items.BREW], items.POTION_DOSES[items.RANGING]
    fight.carry(brews[3], brews[3], brews[0], ranging[1], items.ANGLERFISH, items.ANGLERFISH, items.KARAMBWAN)
    obs = fight.obs
    assert (obs["brew_doses"], obs["range_potion_doses"], obs["combat_potion_doses"]) == (9, 2, 0)
    assert (obs["food_count"], obs["karambwan_count"], obs["is_food_anglerfish"]) == (2, 1, 1)


def test_sharks_hide_the_food_count(fight: HandBuiltFight) -> None:
    fight.carry(items.SHARK, items.ANGLERFISH, items.SHARK)
    assert (fight.obs["food_count"], fight.obs["is_food_anglerfish"]) == (1, 0)


def test_levels_are_relative_to_the_highest_boost(fight: HandBuiltFight) -> None:
    obs = fight.obs
    assert obs["attack_level"] == pytest.approx(75 / (75 + 11 + 5))
    assert obs["defense_level"] == pytest.approx(70 / (70 + 10 + 5))
    assert obs["ranged_level"] == pytest.approx(99 / (99 + 9 + 4))
    assert obs["magic_level"] == 1


@pytest.mark.parametrize(("ticks", "shown"), [(0, 0), (1, 0), (2, 1), (32, 31)])
def test_timers_show_what_the_next_action_meets(fight: HandBuiltFight, ticks: int, shown: int) -> None:
    fight.me["timer"][FREEZE_TIMER] = ticks
    fight.target["timer"][FOOD_TIMER] = ticks
    fight.target["timer"][ATTACK_TIMER] = ticks
    obs = fight.obs
    assert obs["player_frozen_ticks"] == obs["target_potion_cycle_ticks"] == obs["target_attack_cycle_ticks"] == shown
    assert obs["target_frozen_ticks"] == 0


@pytest.mark.parametrize(("counter", "delay"), [(5, 3), (1, 3), (0, 2), (-1, 1), (-2, 0), (-50, 0)])
def test_delay_that_food_would_cause(fight: HandBuiltFight, counter: int, delay: int) -> None:
    assert fight.obs["food_attack_delay"] == 0  # never attacked
    fight.me["attack_counter"] = counter
    assert fight.obs["food_attack_delay"] == delay


def test_hits_on_their_way(fight: HandBuiltFight) -> None:
    assert fight.obs["ticks_until_hit_on_target"] == -1
    fight.target["num_hits"] = 2
    fight.target["hit_delay"][:2] = (3, 1)
    fight.target["hit_total"][:2] = (30, 12)
    fight.me["num_damage"] = 1
    fight.me["damage"][0] = 7
    obs = fight.obs
    assert obs["ticks_until_hit_on_target"] == 3
    assert obs["ticks_until_hit_on_player"] == 0
    assert obs["pending_damage_on_target"] == pytest.approx(42 / 90)


def test_places(fight: HandBuiltFight) -> None:
    fight.me["pid"], fight.target["pid"] = 0.2, 0.4
    obs = fight.obs
    assert (obs["player_to_target_distance"], obs["destination_to_target_distance"]) == (4, 4)
    assert (obs["player_to_destination_distance"], obs["player_has_pid"]) == (0, 1)
    fight.me["walking"], fight.me["goal_x"], fight.me["goal_y"] = 1, 3063, 3539
    obs = fight.obs
    assert (obs["destination_to_target_distance"], obs["player_to_destination_distance"]) == (1, 3)
    fight.target["x"] = 3090
    assert fight.obs["player_to_target_distance"] == 7
    assert (fight.me["last_x"], fight.me["last_y"]) == (3090, 3539)


@pytest.mark.parametrize(("step", "shown"), [((0, 0), 0), ((1, 0), 1), ((0, -1), 1), ((1, 1), 0), ((2, 0), 0)])
def test_melee_place_is_orthogonal(fight: HandBuiltFight, step: tuple[int, int], shown: int) -> None:
    fight.me["x"], fight.me["y"] = fight.target["x"] + step[0], fight.target["y"] + step[1]
    assert fight.obs["player_location_can_melee"] == shown


@pytest.mark.parametrize(("level", "ice", "blood"), [(94, 1, 1), (93, 0, 1), (92, 0, 1), (91, 0, 0)])
def test_barrages(fight: HandBuiltFight, level: int, ice: int, blood: int) -> None:
    fight.me["level"][MAGIC_LEVEL] = level
    assert (fight.obs["ice_barrage_usable"], fight.obs["blood_barrage_usable"]) == (ice, blood)
    fight.me["lunar"] = 1
    assert (fight.obs["ice_barrage_usable"], fight.obs["blood_barrage_usable"]) == (0, 0)


def test_loadout(fight: HandBuiltFight) -> None:
    obs = fight.obs
    flags = [name for name in obs if name.startswith("is_")]
    between = flags[flags.index("is_enchanted_dragon_bolt") : flags.index("is_zuriel_staff") + 1]
    shown = {"is_enchanted_opal_bolt", "is_ranged_spec_weapon_loadout", "is_ranged_spec_weapon_dark_bow"}
    shown |= {"is_melee_spec_gmaul", "is_blood_fury", "is_zuriel_staff"}
    assert {name for name in between if obs[name]} == shown
    assert (obs["ranged_attack_speed"], obs["ranged_attack_range"], obs["melee_attack_speed"]) == (7, 9, 4)
    worth = items.BONUSES[[items.DARK_BOW, items.OPAL_DRAGON_BOLTS_E]].sum(axis=0)
    assert obs["ranged_accuracy"] == worth[RANGED_ATTACK]
    assert obs["absolute_defense_level"] == 70


@pytest.mark.parametrize(
    ("weapon", "entry"),
    [
        (items.DRAGON_DAGGER, "is_melee_spec_dds"),
        (items.DRAGON_DAGGER_POISONED, "is_melee_spec_dds"),
        (items.DRAGON_CLAWS, "is_melee_spec_dclaws"),
        (items.ARMADYL_GODSWORD, "is_melee_spec_ags"),
        (items.VESTAS_LONGSWORD, "is_melee_spec_vls"),
        (items.STATIUS_WARHAMMER, "is_melee_spec_stat_hammer"),
        (items.ANCIENT_GODSWORD, "is_melee_spec_ancient_godsword"),
        (items.GRANITE_MAUL, "is_melee_spec_gmaul"),
    ],
)
def test_special_weapons(fight: HandBuiltFight, weapon: int, entry: str) -> None:
    fight.give_set(fight.me, SPEC_SET, (weapon,))
    fight.me["melee_spec"] = weapon
    assert [name for name, value in fight.obs.items() if name.startswith("is_melee_spec_") and value == 1] in (
        [entry],
        [entry, "is_melee_spec_attack_available"],
    )


def test_current_gear_leaves_out_ring_and_ammunition(fight: HandBuiltFight) -> None:
    defender = items.DRAGON_DEFENDER
    fight.wear(fight.target, defender)
    assert fight.obs["target_current_gear_mage_defence"] == items.BONUSES[defender, MAGIC_DEFENCE]
    ring = items.item_named("SEERS_RING_IMBUED")
    fight.wear(fight.target, ring)
    assert items.BONUSES[ring, MAGIC_DEFENCE] != 0
    assert fight.obs["target_current_gear_mage_defence"] == items.BONUSES[defender, MAGIC_DEFENCE]


def test_unseen_gear_is_taken_from_the_own_sets(fight: HandBuiltFight) -> None:
    assert fight.obs["target_ranged_accuracy"] == fight.me["set_bonus"][RANGED_SET, RANGED_ATTACK]
    fight.me["target_gear"][RANGED] = (17, -1, 3, 4, 5)
    obs = fight.obs
    assert (obs["target_ranged_accuracy"], obs["target_ranged_gear_mage_defence"]) == (17, 3)
    assert (obs["target_ranged_gear_melee_defence"], obs["target_ranged_gear_ranged_defence"]) == (4, 5)
    assert obs["target_ranged_strength"] == obs["ranged_strength"]  # -1 counts as not seen
    assert obs["target_magic_strength"] == fight.me["set_bonus"][0, MAGIC_DAMAGE]


def test_rules_and_vengeance(fight: HandBuiltFight) -> None:
    fight.fights["fight_type"] = LMS
    assert (fight.obs["is_lms_restrictions"], fight.obs["is_pvp_arena_rules"]) == (1, 0)
    fight.fights["fight_type"] = PVP_ARENA
    fight.me["vengeance"], fight.me["target_lunar"] = 1, 1
    obs = fight.obs
    assert (obs["is_lms_restrictions"], obs["is_pvp_arena_rules"], obs["is_veng_active"]) == (0, 1, 1)
    assert (obs["is_target_veng_active"], obs["is_target_lunar_spellbook"]) == (0, 1)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 121), st.integers(0, 90), st.integers(0, 99), st.integers(0, 40))
def test_values_stay_in_their_range(hitpoints: int, defence: int, ranged: int, frozen: int) -> None:
    fight = HandBuiltFight()
    fight.me["level"][[HITPOINTS, DEFENCE, RANGED_LEVEL]] = hitpoints, defence, ranged
    fight.me["timer"][FREEZE_TIMER] = frozen
    obs = fight.obs
    assert obs["player_health_percent"] == pytest.approx(hitpoints / 90)
    assert 0 <= obs["defense_level"] <= 1.1
    assert 0 <= obs["ranged_level"] <= 1
    assert obs["player_frozen_ticks"] == max(frozen - 1, 0)
