"""Masks of fights built by hand (nh-actions.md §4), and of random fights against the independent proof."""

from __future__ import annotations

import numpy as np
import pytest
from hand_built import HandBuiltFight
from mask_evidence import CONTRACT, UNKNOWN, Evidence, proven_masks

from sb3_pvp.games.osrs.sim import SimWorld, items
from sb3_pvp.games.osrs.sim.state import (
    ATTACK,
    ATTACK_TIMER,
    FOOD_TIMER,
    FREEZE_TIMER,
    HITPOINTS,
    KARAMBWAN_TIMER,
    LMS,
    MAGE_SET,
    MAGIC_LEVEL,
    NO_ITEM,
    POTION_TIMER,
    PRAYER,
    SPEC_SET,
    STRENGTH,
    VENGEANCE_TIMER,
)


@pytest.fixture
def fight() -> HandBuiltFight:
    return HandBuiltFight()


def allowed(fight: HandBuiltFight, *names: str) -> list[str]:
    masks = fight.masks
    return [name for name in names if masks[name]]


def test_two_handed_weapons_need_a_free_slot_or_an_empty_hand(fight: HandBuiltFight) -> None:
    two_handed = ("basic_ranged_attack", "ranged_special_attack", "melee_special_attack")
    assert allowed(fight, *two_handed) == list(two_handed)
    fight.wear(fight.me, items.DRAGON_DEFENDER)
    assert allowed(fight, *two_handed, "basic_melee_attack") == ["basic_melee_attack"]
    fight.carry(NO_ITEM)
    assert allowed(fight, *two_handed) == list(two_handed)


def test_waiting_is_forbidden_when_ready(fight: HandBuiltFight) -> None:
    assert not fight.masks["no_op_attack"]
    fight.me["timer"][ATTACK_TIMER] = 2
    assert fight.masks["no_op_attack"]


def test_granite_maul_does_not_wait(fight: HandBuiltFight) -> None:
    fight.me["timer"][ATTACK_TIMER] = 4
    fight.me["only_switch_gear_when_attack_soon"] = 1
    attacks = ("mage_attack", "ranged_attack", "basic_melee_attack", "melee_special_attack")
    assert allowed(fight, *attacks) == ["melee_special_attack"]
    fight.me["energy"] = 49
    assert allowed(fight, *attacks) == []
    fight.me["energy"], fight.me["melee_spec"] = 100, items.DRAGON_CLAWS
    assert allowed(fight, *attacks) == []
    fight.me["only_switch_gear_when_attack_soon"] = 0
    assert allowed(fight, *attacks) == list(attacks)


@pytest.mark.parametrize(("energy", "pays"), [(55, True), (54, False)])
def test_specials_cost_energy(fight: HandBuiltFight, energy: int, pays: bool) -> None:
    fight.give_set(fight.me, MAGE_SET, (items.VOLATILE_NIGHTMARE_STAFF,))
    fight.me["energy"] = energy
    assert (fight.masks["use_magic_spec"], fight.masks["ranged_special_attack"]) == (pays, pays)


def test_no_special_weapon(fight: HandBuiltFight) -> None:
    fight.me["melee_spec"] = fight.me["ranged_spec"] = NO_ITEM
    assert allowed(fight, "melee_special_attack", "ranged_special_attack", "use_magic_spec") == []


def test_spells(fight: HandBuiltFight) -> None:
    assert allowed(fight, "use_ice_spell", "use_blood_spell") == ["use_ice_spell"]
    fight.me["level"][HITPOINTS] = 89
    fight.me["level"][MAGIC_LEVEL] = 57
    assert allowed(fight, "use_ice_spell", "use_blood_spell", "mage_attack") == ["use_blood_spell", "mage_attack"]
    fight.me["set_length"][MAGE_SET] = 0
    assert allowed(fight, "use_ice_spell", "use_blood_spell", "mage_attack") == []


def test_lunar_spells(fight: HandBuiltFight) -> None:
    assert not fight.masks["use_veng"]
    fight.me["lunar"] = 1
    assert allowed(fight, "use_ice_spell", "use_veng") == ["use_veng"]
    fight.me["timer"][VENGEANCE_TIMER] = 2
    assert not fight.masks["use_veng"]


def test_frozen_fighters_need_the_target_beside_them(fight: HandBuiltFight) -> None:
    fight.me["timer"][FREEZE_TIMER] = 2
    fight.target["timer"][FREEZE_TIMER] = 2
    blows = ("basic_melee_attack", "melee_special_attack", "melee_prayer")
    moves = ("move_next_to_target", "move_under_target", "move_to_farcast_tile", "move_diagonal_to_target")
    assert allowed(fight, *blows, *moves) == []
    fight.me["x"], fight.me["y"] = fight.target["x"], fight.target["y"] + 1
    assert allowed(fight, *blows, *moves) == list(blows)
    fight.me["timer"][FREEZE_TIMER] = 1
    assert allowed(fight, *moves) == list(moves)[1:]


@pytest.mark.parametrize(
    ("step", "closed"),
    [
        ((0, 0), ["move_under_target"]),
        ((0, 1), ["move_next_to_target"]),
        ((-1, 1), ["move_diagonal_to_target"]),
        ((-2, 0), ["farcast_2_tiles"]),
        ((7, 3), ["farcast_7_tiles"]),
    ],
)
def test_nobody_moves_to_where_he_stands(fight: HandBuiltFight, step: tuple[int, int], closed: list[str]) -> None:
    fight.target["timer"][FREEZE_TIMER] = 20
    fight.me["x"], fight.me["y"] = fight.target["x"] + step[0], fight.target["y"] + step[1]
    masks = fight.masks
    assert [name for name in masks if name.startswith(("move_", "farcast_")) and not masks[name]] == closed


def test_moving_when_ready_is_a_parameter(fight: HandBuiltFight) -> None:
    fight.me["allow_moving_if_can_attack"] = 0
    assert not fight.masks["move_to_farcast_tile"]
    fight.me["timer"][ATTACK_TIMER] = 2
    assert fight.masks["move_to_farcast_tile"]


def test_food(fight: HandBuiltFight) -> None:
    assert not fight.masks["eat_primary_food"]
    fight.carry(items.ANGLERFISH, items.KARAMBWAN)
    assert allowed(fight, "eat_primary_food", "eat_karambwan") == ["eat_primary_food"]
    fight.me["level"][HITPOINTS] = 91
    assert not fight.masks["eat_primary_food"]
    fight.carry(items.SHARK, items.ANGLERFISH)
    fight.me["level"][HITPOINTS] = 90
    assert not fight.masks["eat_primary_food"]
    fight.me["level"][HITPOINTS] = 89
    assert fight.masks["eat_primary_food"]
    fight.me["timer"][FOOD_TIMER] = 2
    assert not fight.masks["eat_primary_food"]


def test_karambwan(fight: HandBuiltFight) -> None:
    fight.carry(items.KARAMBWAN)
    fight.me["level"][HITPOINTS] = 89
    fight.me["timer"][KARAMBWAN_TIMER] = 1
    assert fight.masks["eat_karambwan"]
    fight.me["timer"][KARAMBWAN_TIMER] = 2
    assert not fight.masks["eat_karambwan"]


def test_potions(fight: HandBuiltFight) -> None:
    potions = ("use_brew", "use_restore_potion", "use_combat_potion", "use_ranged_potion")
    fight.carry(*items.POTION_DOSES[:, 0])
    assert allowed(fight, *potions) == ["use_brew", "use_combat_potion", "use_ranged_potion"]
    fight.me["level"][STRENGTH] = 1
    assert allowed(fight, *potions) == list(potions)
    fight.me["timer"][POTION_TIMER] = 2
    assert allowed(fight, *potions) == []


@pytest.mark.parametrize(("attack", "helps"), [(89, True), (90, False)])
def test_combat_potion_must_raise_two_levels(fight: HandBuiltFight, attack: int, helps: bool) -> None:
    fight.carry(items.POTION_DOSES[items.COMBAT, 3])
    fight.me["level"][:3] = fight.me["base"][:3] + 20
    fight.me["level"][ATTACK] = attack
    assert fight.masks["use_combat_potion"] is helps


@pytest.mark.parametrize(("hitpoints", "defence", "helps"), [(91, 84, True), (91, 85, False), (90, 99, True)])
def test_brew_must_help(fight: HandBuiltFight, hitpoints: int, defence: int, helps: bool) -> None:
    fight.carry(items.POTION_DOSES[items.BREW, 0])
    fight.me["level"][[HITPOINTS, 2]] = hitpoints, defence
    assert fight.masks["use_brew"] is helps


def test_prayers(fight: HandBuiltFight) -> None:
    protecting = ("mage_prayer", "ranged_prayer", "melee_prayer")
    assert allowed(fight, "no_op_prayer", *protecting) == list(protecting)
    fight.me["target_lunar"] = 1
    assert allowed(fight, *protecting) == ["ranged_prayer", "melee_prayer"]
    fight.me["only_switch_prayer_when_about_to_attack"] = 1
    fight.target["timer"][ATTACK_TIMER] = 2
    assert allowed(fight, *protecting) == []
    fight.target["timer"][ATTACK_TIMER] = 1
    fight.me["level"][PRAYER] = 0
    assert allowed(fight, *protecting, "smite_prayer", "redemption_prayer") == []


def test_smite_and_redemption(fight: HandBuiltFight) -> None:
    both = ("smite_prayer", "redemption_prayer")
    fight.carry(items.SHARK)
    assert allowed(fight, *both) == list(both)
    fight.me["timer"][ATTACK_TIMER] = fight.target["timer"][ATTACK_TIMER] = 2
    assert allowed(fight, *both) == []
    fight.me["num_hits"] = 1
    assert allowed(fight, *both) == ["redemption_prayer"]
    fight.carry(items.KARAMBWAN)
    assert allowed(fight, *both) == []
    fight.carry(NO_ITEM)
    fight.fights["fight_type"] = LMS
    assert allowed(fight, *both) == []


def test_tank_gear_while_the_target_is_ready(fight: HandBuiltFight) -> None:
    assert fight.masks["use_tank_gear"]
    fight.target["timer"][ATTACK_TIMER] = 2
    assert not fight.masks["use_tank_gear"]


def test_special_set_without_two_handed_weapon(fight: HandBuiltFight) -> None:
    fight.give_set(fight.me, SPEC_SET, (items.DRAGON_DAGGER,))
    fight.me["melee_spec"] = items.DRAGON_DAGGER
    fight.wear(fight.me, items.DRAGON_DEFENDER)
    assert fight.masks["melee_special_attack"]
    fight.me["energy"] = 24
    assert not fight.masks["melee_special_attack"]


@pytest.mark.parametrize("build", ["PURE", "LMS_MED"])
def test_masks_of_random_fights_follow_from_observations(build: str) -> None:
    params = {"accountBuild": build, "randomizeGear": True, "onlySwitchGearWhenAttackSoon": False}
    world = SimWorld(num_fights=8, seed=3, reset_params=params)
    world.reset()
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = [[world.contract.random_action(mask, rng) for mask in fight] for fight in world.masks]
        world.step(np.array(actions))
        for fight, seat in np.ndindex(world.obs.shape[:2]):
            meta = world.meta[fight, seat]
            seen = Evidence(world.obs[fight, seat], params, int(meta["distance"]), int(meta["food_count"]))
            for name, proof in proven_masks(seen).items():
                bit = world.masks[fight, seat, CONTRACT.flat_index(name)]
                assert proof is UNKNOWN or bool(proof) == bit, name
