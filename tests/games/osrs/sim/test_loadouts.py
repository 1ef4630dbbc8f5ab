"""Loadouts without randomisation: sums, tank set, worn gear and inventory."""

from __future__ import annotations

import numpy as np
import pytest
from seat_loading import load_into, loaded, names

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.builds import BUILD_NAMES
from sb3_pvp.games.osrs.sim.items import SLOT
from sb3_pvp.games.osrs.sim.state import HITPOINTS, MAGE_SET, NO_ITEM, TANK_SET

#: Bonuses of the mage, ranged, melee, spec and tank sets (loadouts.md §2).
SUMS = {
    "PURE": """
        8 8 8 110 7 9 12 12 87 6 7 122 27 2
        22 22 22 50 145 78 72 78 116 80 23 122 0 9
        30 89 20 50 35 64 59 66 101 64 89 122 0 8
        63 79 18 35 35 77 84 73 86 64 79 122 0 8
        22 22 22 50 145 78 72 78 116 80 23 122 0 9""",
    "ZERKER": """
        12 12 12 120 15 84 91 95 108 87 12 122 27 3
        26 26 26 12 183 208 198 221 154 216 28 122 0 11
        54 112 42 9 71 175 163 177 135 153 99 122 0 9
        67 83 22 12 73 168 169 166 138 155 84 122 0 9
        26 26 26 12 183 208 198 221 154 216 28 122 0 11""",
    "MED": """
        70 82 12 128 0 202 196 236 104 131 84 122 31 5
        22 19 19 -10 158 312 306 332 136 315 28 122 0 16
        52 138 47 -15 44 275 266 275 114 243 122 122 0 12
        22 151 99 -10 48 245 237 247 119 247 160 122 0 20
        22 19 19 -10 158 312 306 332 136 315 28 122 0 16""",
    "MAXED": """
        70 82 12 128 0 202 196 236 104 131 84 122 31 5
        18 15 15 4 157 303 297 323 139 303 20 122 2 14
        18 147 95 4 47 236 228 238 122 235 152 122 2 18
        18 147 95 4 47 236 228 238 122 235 152 122 2 18
        18 15 15 4 157 303 297 323 139 303 20 122 2 14""",
    "LMS_PURE": """
        24 13 54 65 14 11 14 16 45 6 62 105 12 6
        24 24 24 34 131 30 34 44 52 35 18 105 2 8
        32 91 22 34 41 30 35 44 52 35 84 105 2 8
        64 49 20 35 41 30 34 44 53 35 58 105 2 8
        34 23 64 49 41 32 37 45 67 35 68 105 2 7""",
    "LMS_ZERKER": """
        34 21 87 76 17 91 95 109 75 90 95 105 7 4
        22 22 22 -10 126 169 177 199 66 189 27 105 2 4
        42 123 40 -13 34 150 155 167 62 142 114 105 2 3
        82 66 36 -12 34 150 155 167 63 142 72 105 2 3
        34 21 87 5 36 172 182 201 81 189 95 105 7 4""",
    "LMS_MED": """
        34 21 87 81 22 91 95 110 78 90 95 105 7 7
        22 22 22 -5 131 169 177 200 69 189 27 105 2 7
        47 128 45 -8 39 155 160 173 65 142 115 105 2 6
        87 71 41 -7 39 155 160 173 66 142 73 105 2 6
        34 21 87 10 41 172 182 202 84 189 95 105 7 7""",
}


@pytest.mark.parametrize("build", BUILD_NAMES)
def test_sums_of_the_sets(build: str) -> None:
    (seat,) = loaded([build])
    assert seat["set_bonus"].ravel().tolist() == [int(number) for number in SUMS[build].split()]


@pytest.mark.parametrize(
    ("build", "gear", "food"),
    [
        ("PURE", 6, 11),
        ("ZERKER", 8, 9),
        ("MED", 8, 9),
        ("MAXED", 5, 12),
        ("LMS_PURE", 5, 16),
        ("LMS_ZERKER", 6, 15),
        ("LMS_MED", 6, 14),
    ],
)
def test_inventory_is_full_and_sorted(build: str, gear: int, food: int) -> None:
    (seat,) = loaded([build])
    inventory = seat["inventory"]
    assert (SLOT[inventory] != NO_ITEM).sum() == gear
    assert np.isin(inventory, [items.SHARK, items.ANGLERFISH]).sum() == food
    assert (np.diff(items.BAG_ORDER[inventory]) >= 0).all()
    assert names(inventory)[-1] == "RUNE_POUCH"


def test_inventory_of_a_pure_slot_by_slot() -> None:
    (seat,) = loaded(["PURE"])
    ranged = ["ZARYTE_CROSSBOW", "AMULET_OF_BLOOD_FURY", "ANCIENT_CHAPS", "INFERNAL_CAPE"]
    gear = [*ranged, "DRAGON_SCIMITAR", "DRAGON_CLAWS"]
    potions = ["SUPER_COMBAT_4", "RANGING_POTION_4", *["SUPER_RESTORE_4"] * 3, *["SARADOMIN_BREW_4"] * 5]
    assert names(seat["inventory"]) == [*gear, *["ANGLERFISH"] * 11, *potions, "RUNE_POUCH"]


def test_the_mage_set_is_worn() -> None:
    (seat,) = loaded(["MED"])
    assert set(names(seat["worn"])) == set(names(seat["gear_set"][MAGE_SET]))
    assert (SLOT[seat["worn"]] == np.arange(len(seat["worn"]))).all()


def test_the_tank_set_takes_the_staff_where_it_defends_better() -> None:
    seats = loaded(BUILD_NAMES)
    with_staff = [
        build
        for build, seat in zip(BUILD_NAMES, seats, strict=True)
        if any("STAFF" in name for name in names(seat["gear_set"][TANK_SET]))
    ]
    assert with_staff == ["LMS_PURE", "LMS_ZERKER", "LMS_MED"]


def test_levels_start_at_their_base() -> None:
    (seat,) = loaded(["ZERKER"])
    assert seat["base"].tolist() == [60, 99, 45, 99, 99, 55, 99]
    assert (seat["level"] == seat["base"]).all()
    assert seat["level"][HITPOINTS] == 99


def test_a_baseline_bot_has_anglerfish_in_the_places_of_its_potions() -> None:
    agent, bot = loaded(["LMS_MED", "LMS_MED"], baseline_bots=[False, True])
    changed = np.flatnonzero(agent["inventory"] != bot["inventory"])
    assert names(agent["inventory"][changed]) == ["SARADOMIN_BREW_4"]
    assert names(bot["inventory"][changed]) == ["ANGLERFISH"]
    assert (agent["gear_set"] == bot["gear_set"]).all()
    (pure,) = loaded(["PURE"], baseline_bots=True)
    assert names(pure["inventory"]).count("SUPER_RESTORE_4") == 2


def test_loading_again_leaves_nothing_of_the_loadout_before() -> None:
    used = loaded(["LMS_MED"] * 300, seeds=np.arange(300))
    fresh = loaded(["LMS_MED"] * 300)
    assert (used != fresh).any()
    load_into(used, ["LMS_MED"] * 300)
    assert (used == fresh).all()
