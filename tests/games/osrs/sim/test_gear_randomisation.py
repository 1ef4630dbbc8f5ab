"""Randomised loadouts: recorded resets of the original server, and laws that hold for every seed."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seat_loading import loaded, names

from sb3_pvp.games.osrs.sim import gear_scripts, items, state
from sb3_pvp.games.osrs.sim.builds import BUILD_NAMES
from sb3_pvp.games.osrs.sim.items import SLOT, TWO_HANDED
from sb3_pvp.games.osrs.sim.parameters import choose_build, java_string_hash
from tests.paths import DATA

RECORDING = DATA / "gear_rolls.jsonl.gz"
Seat = Any

_SKILLS = {
    "attack": state.ATTACK,
    "strength": state.STRENGTH,
    "defense": state.DEFENCE,
    "ranged": state.RANGED_LEVEL,
    "magic": state.MAGIC_LEVEL,
    "prayer": state.PRAYER,
    "hitpoints": state.HITPOINTS,
}
_DOSES = {
    "range_potion_doses": items.RANGING,
    "combat_potion_doses": items.COMBAT,
    "super_restore_doses": items.RESTORE,
    "brew_doses": items.BREW,
}
_SET_NUMBERS = {"magic": state.MAGE_SET, "ranged": state.RANGED_SET, "melee": state.MELEE_SET}
_ACCURACY = {"magic": state.MAGIC_ATTACK, "ranged": state.RANGED_ATTACK, "melee": state.SLASH_ATTACK}
_STRENGTH = {"magic": state.MAGIC_DAMAGE, "ranged": state.RANGED_STRENGTH, "melee": state.MELEE_STRENGTH}
_DEFENCES = {"ranged": state.RANGED_DEFENCE, "mage": state.MAGIC_DEFENCE, "melee": state.SLASH_DEFENCE}
_MELEE_SPECIALS = {
    "dclaws": {"DRAGON_CLAWS"},
    "dds": {"DRAGON_DAGGER", "DRAGON_DAGGER_POISONED"},
    "ags": {"ARMADYL_GODSWORD"},
    "vls": {"VESTAS_LONGSWORD"},
    "stat_hammer": {"STATIUS_WARHAMMER"},
    "ancient_godsword": {"ANCIENT_GODSWORD"},
    "gmaul": {"GRANITE_MAUL"},
}
_SET_ITEMS = {
    "is_enchanted_dragon_bolt": (state.RANGED_SET, {"DRAGONSTONE_DRAGON_BOLTS_E", "DRAGONSTONE_BOLTS_E"}),
    "is_enchanted_opal_bolt": (state.RANGED_SET, {"OPAL_DRAGON_BOLTS_E", "OPAL_BOLTS_E"}),
    "is_enchanted_diamond_bolt": (state.RANGED_SET, {"DIAMOND_DRAGON_BOLTS_E", "DIAMOND_BOLTS_E"}),
    "is_mage_spec_weapon_loadout": (state.MAGE_SET, {"VOLATILE_NIGHTMARE_STAFF"}),
    "is_mage_spec_weapon_nightmare_staff": (state.MAGE_SET, {"VOLATILE_NIGHTMARE_STAFF"}),
    "is_ranged_spec_weapon_zaryte_cbow": (state.RANGED_SET, {"ZARYTE_CROSSBOW"}),
    "is_ranged_spec_weapon_ballista": (state.RANGED_SET, {"LIGHT_BALLISTA", "HEAVY_BALLISTA"}),
    "is_ranged_spec_weapon_morrigans_javelin": (state.RANGED_SET, {"MORRIGANS_JAVELIN"}),
    "is_ranged_spec_weapon_dragon_knife": (state.RANGED_SET, {"DRAGON_KNIFE"}),
    "is_ranged_spec_weapon_dark_bow": (state.RANGED_SET, {"DARK_BOW"}),
    "is_blood_fury": (state.MELEE_SET, {"AMULET_OF_BLOOD_FURY"}),
    "is_dharoks_set": (state.MELEE_SET, {"DHAROKS_GREATAXE"}),
    "is_zuriel_staff": (state.MAGE_SET, {"ZURIELS_STAFF"}),
}


def _gear_observations(seat: Seat) -> Iterator[tuple[str, int]]:
    for style, gear_set in _SET_NUMBERS.items():
        bonus = seat["set_bonus"][gear_set]
        for prefix in ("", "target_"):
            yield f"{prefix}{style}_accuracy", bonus[_ACCURACY[style]]
            yield f"{prefix}{style}_strength", bonus[_STRENGTH[style]]
            for against, defence in _DEFENCES.items():
                yield f"{prefix}{style}_gear_{against}_defence", bonus[defence]
    for name, (gear_set, wanted) in _SET_ITEMS.items():
        yield name, not wanted.isdisjoint(names(seat["gear_set"][gear_set]))
    for special, weapons in _MELEE_SPECIALS.items():
        yield f"is_melee_spec_{special}", not weapons.isdisjoint(names(seat["melee_spec"][None]))


def _weapon_observations(seat: Seat) -> Iterator[tuple[str, int]]:
    ranged, melee = items.WEAPON_CLASS[seat["ranged_weapon"]], items.WEAPON_CLASS[seat["melee_weapon"]]
    yield "ranged_attack_speed", items.CLASS_PERIOD[ranged]
    yield "ranged_attack_range", items.CLASS_REACH[ranged]
    yield "melee_attack_speed", items.CLASS_PERIOD[melee]
    yield "is_ranged_spec_weapon_loadout", seat["ranged_spec"] != state.NO_ITEM
    style = items.CLASS_STYLE[items.WEAPON_CLASS[seat["worn"][state.WEAPON]]]
    for name, number in (("melee", state.MELEE), ("ranged", state.RANGED), ("mage", state.MAGIC)):
        yield f"player_using_{name}", style == number


def _supply_observations(seat: Seat) -> Iterator[tuple[str, int]]:
    inventory = seat["inventory"]
    for name, kind in _DOSES.items():
        yield name, sum(dose * (inventory == items.POTION_DOSES[kind, dose - 1]).sum() for dose in (1, 2, 3, 4))
    yield "food_count", (inventory == items.ANGLERFISH).sum()
    yield "karambwan_count", (inventory == items.KARAMBWAN).sum()
    yield "is_food_anglerfish", items.SHARK not in inventory


def _observations(seat: Seat) -> dict[str, int]:
    """What the first observation of an episode says about a loadout (contract.md §4.4)."""
    levels = [(f"absolute_{name}_level", seat["base"][skill]) for name, skill in _SKILLS.items()]
    parts = (_gear_observations(seat), _weapon_observations(seat), _supply_observations(seat), iter(levels))
    found = {name: int(value) for part in parts for name, value in part}
    return {**found, "is_player_lunar_spellbook": int(seat["lunar"])}


@pytest.fixture(scope="module")
def recording() -> list[dict[str, Any]]:
    with gzip.open(RECORDING, "rt", encoding="utf-8") as file:
        header, *resets = [json.loads(line) for line in file]
    for reset in resets:
        for seat in ("obs", "targetObs"):
            reset[seat] = dict(zip(header["observations"], reset[seat], strict=True))
    return resets


@pytest.mark.parametrize(("seat", "baseline_bot"), [("obs", False), ("targetObs", True)])
def test_recorded_resets_are_reproduced(recording: list[dict[str, Any]], seat: str, baseline_bot: bool) -> None:
    seeds = [java_string_hash(reset["episodeId"]) for reset in recording]
    seats = loaded([reset["build"] for reset in recording], seeds, baseline_bot)
    assert len(seats) == 725
    for reset, ours in zip(recording, seats, strict=True):
        assert _observations(ours) == reset[seat], reset["episodeId"]


def test_recorded_builds_are_chosen(recording: list[dict[str, Any]]) -> None:
    chosen = [reset for reset in recording if "randomBuildOptions" in reset]
    assert len(chosen) == 81
    for reset in chosen:
        assert choose_build(reset["agent"], reset["target"], reset["randomBuildOptions"]) == reset["build"]


SEEDS = st.integers(-(2**31), 2**31 - 1)


@settings(deadline=None)
@given(st.sampled_from(BUILD_NAMES), SEEDS, st.booleans())
def test_every_loadout_can_be_worn_and_carried(build: str, seed: int, baseline_bot: bool) -> None:
    (seat,) = loaded([build], seed, baseline_bot)
    inventory, worn = seat["inventory"], seat["worn"]
    assert (inventory >= 0).all()
    assert (np.diff(items.BAG_ORDER[inventory]) >= 0).all() or baseline_bot
    assert names(inventory)[-1] == "RUNE_POUCH"
    assert all(item == state.NO_ITEM or SLOT[item] == slot for slot, item in enumerate(worn))
    assert set(names(worn)).isdisjoint(names(inventory))
    first_set = state.MAGE_SET if seat["set_length"][state.MAGE_SET] else state.RANGED_SET
    assert set(names(worn)) <= set(names(seat["gear_set"][first_set]))


@settings(deadline=None)
@given(st.sampled_from(BUILD_NAMES), SEEDS)
def test_no_set_has_a_shield_beside_a_two_hander(build: str, seed: int) -> None:
    (seat,) = loaded([build], seed)
    for gear_set, length in zip(seat["gear_set"], seat["set_length"], strict=True):
        gear = gear_set[:length]
        assert (gear >= 0).all()
        assert (gear_set[length:] == state.NO_ITEM).all()
        assert not (TWO_HANDED[gear].any() and (SLOT[gear] == state.SHIELD).any())


@settings(deadline=None)
@given(SEEDS)
def test_maxed_gear_is_never_randomised(seed: int) -> None:
    assert (loaded(["MAXED"], seed) == loaded(["MAXED"])).all()


def test_a_lunar_loadout_has_no_mage_set_and_starts_in_ranged_gear() -> None:
    seats = loaded(["ZERKER"] * 400, np.arange(400))
    lunar = seats[seats["lunar"] == 1]
    assert 20 < len(lunar) < 70
    assert not lunar["set_length"][:, state.MAGE_SET].any()
    assert (lunar["worn"][:, state.WEAPON] == lunar["ranged_weapon"]).all()


@pytest.mark.parametrize("build", BUILD_NAMES)
def test_every_item_of_a_script_is_handed_out(build: str) -> None:
    scripts = (items.DATA / "gear_randomisation.txt").read_text(encoding="utf-8")
    script = scripts.partition(f"[{build}]")[2].partition("[")[0]
    seats = loaded([build] * 2000, np.arange(2000))
    seen = names(np.unique(seats["gear_set"])) + names(np.unique(seats["inventory"]))
    assert set(re.findall(r"(?::=|by|with) (\w+)", script)) <= set(seen)


def test_an_unknown_statement_is_refused() -> None:
    with pytest.raises(ValueError, match="melt the KODAI_WAND"):
        gear_scripts.compile_scripts("[PURE]\n1/5  melt the KODAI_WAND")
