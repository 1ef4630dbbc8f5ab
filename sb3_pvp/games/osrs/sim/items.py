"""The items of the game as arrays, indexed by a dense *item index* (not by the id of the game).

Everything here is a plain integer or a global array, so that compiled rules take it as a constant.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import state
from sb3_pvp.games.osrs.sim.state import NO_ITEM

DATA = Path(__file__).with_name("data")


def _rows(file_name: str) -> list[dict[str, str]]:
    with (DATA / file_name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _integers(values: Iterable[int | str]) -> NDArray[np.int64]:
    return np.array([int(value) for value in values], np.int64)


# -- weapon classes -----------------------------------------------------------------------------------------------

#: Kinds of hit delay (mechanics.md §4.5): `NO_DELAY` for melee, the others are for missiles.
NO_DELAY, CROSSBOW_DELAY, DARK_BOW_DELAY, THROWN_DELAY, BALLISTA_DELAY = range(5)
_HIT_DELAYS = ("NO_DELAY", "CROSSBOW_DELAY", "DARK_BOW_DELAY", "THROWN_DELAY", "BALLISTA_DELAY")
_STYLES = {"MELEE": state.MELEE, "RANGED": state.RANGED, "MAGIC": state.MAGIC}
_BONUS_NAMES = (
    "stab_attack",
    "slash_attack",
    "crush_attack",
    "magic_attack",
    "ranged_attack",
    "stab_defence",
    "slash_defence",
    "crush_defence",
    "magic_defence",
    "ranged_defence",
    "melee_strength",
    "ranged_strength",
    "magic_damage",
    "prayer_bonus",
)

_classes = _rows("weapon_classes.csv")
#: Names of the weapon classes (mechanics.md §4.3); the arrays called ``CLASS_*`` are indexed like this tuple.
CLASS_NAMES = tuple(row["name"] for row in _classes)
#: The class of empty hands.
UNARMED = CLASS_NAMES.index("UNARMED")
#: MELEE, RANGED or MAGIC as others see it (contract.md §4.1); a staff is MAGIC although without a spell it bashes.
CLASS_STYLE = _integers(_STYLES[row["style"]] for row in _classes)
#: Ticks between two attacks of the accurate and longrange options.
CLASS_CYCLE = _integers(row["cycle"] for row in _classes)
#: 1 where the default option is "rapid", which is one tick faster: all ranged classes.
CLASS_RAPID = (CLASS_STYLE == state.RANGED).astype(np.int64)
#: Ticks between two attacks of the default option.
CLASS_PERIOD = CLASS_CYCLE - CLASS_RAPID
#: Reach in tiles.
CLASS_REACH = _integers(row["reach"] for row in _classes)
#: The bonus that attack rolls use: a column of `BONUSES`.
CLASS_ATTACK_BONUS = _integers(_BONUS_NAMES.index(row["attack_bonus"]) for row in _classes)
#: Levels that the default option adds to attack: 3 for the whips, whose default is "accurate", else 0.
CLASS_ACCURACY_BONUS = _integers(row["accuracy_bonus"] for row in _classes)
#: Kind of hit delay: `NO_DELAY` etc.
CLASS_HIT_DELAY = _integers(_HIT_DELAYS.index(row["hit_delay"]) for row in _classes)
#: 1 where the weapon is its own ammunition, so that the ammo slot does not count (mechanics.md §15).
CLASS_THROWN = _integers(row["thrown"] for row in _classes)

# -- items --------------------------------------------------------------------------------------------------------

_SLOTS = ("head", "cape", "neck", "weapon", "body", "shield", "legs", "hands", "feet", "ring", "ammo")
_BAG_ORDERS = {"gear": 0, "other": 0, "food": 8, "potion": 9, "pouch": 10}

_items = _rows("items.csv")
#: Item ids of the game, ascending.
ITEM_IDS = _integers(row["item_id"] for row in _items)
#: Names in capitals, which data files and rules use.
ITEM_NAMES = tuple(row["name"] for row in _items)
NUM_ITEMS = len(ITEM_NAMES)
#: Equipment slot (state.py), NO_ITEM for items that cannot be worn.
SLOT = _integers(_SLOTS.index(row["slot"]) if row["slot"] else NO_ITEM for row in _items)
#: 1 for weapons that need both hands.
TWO_HANDED = _integers(row["two_handed"] for row in _items)
#: (NUM_ITEMS, 14): the bonuses of loadouts.md §7 in the order of state.py.
BONUSES = np.array([[int(row[bonus]) for bonus in _BONUS_NAMES] for row in _items], np.int64)
#: Weapon class, -1 for everything but weapons.
WEAPON_CLASS = _integers(CLASS_NAMES.index(row["weapon_class"]) if row["weapon_class"] else -1 for row in _items)
#: 1 for items of which any number takes one inventory slot.
STACKABLE = _integers(row["stackable"] for row in _items)
#: Where an item is sorted in a fresh inventory, low first (nh-actions.md §B.0).
BAG_ORDER = _integers(_BAG_ORDERS[row["kind"]] for row in _items)

_INDEX_BY_NAME = {name: index for index, name in enumerate(ITEM_NAMES)}


def item_named(name: str) -> int:
    """Returns the item index of a name of `ITEM_NAMES`; raises `ValueError` for an unknown name."""
    if name not in _INDEX_BY_NAME:
        raise ValueError(f"unknown item {name!r}: data/items.csv lists the known ones")
    return _INDEX_BY_NAME[name]


# -- items that rules name ----------------------------------------------------------------------------------------

ANGLERFISH = item_named("ANGLERFISH")
SHARK = item_named("SHARK")
KARAMBWAN = item_named("KARAMBWAN")
RUNE_POUCH = item_named("RUNE_POUCH")
VIAL = item_named("VIAL")

ABYSSAL_TENTACLE = item_named("ABYSSAL_TENTACLE")
ABYSSAL_WHIP = item_named("ABYSSAL_WHIP")
ANCIENT_GODSWORD = item_named("ANCIENT_GODSWORD")
ARMADYL_CROSSBOW = item_named("ARMADYL_CROSSBOW")
ARMADYL_GODSWORD = item_named("ARMADYL_GODSWORD")
DARK_BOW = item_named("DARK_BOW")
DRAGON_CLAWS = item_named("DRAGON_CLAWS")
DRAGON_DAGGER = item_named("DRAGON_DAGGER")
DRAGON_DAGGER_POISONED = item_named("DRAGON_DAGGER_POISONED")
DRAGON_KNIFE = item_named("DRAGON_KNIFE")
GRANITE_MAUL = item_named("GRANITE_MAUL")
HEAVY_BALLISTA = item_named("HEAVY_BALLISTA")
LIGHT_BALLISTA = item_named("LIGHT_BALLISTA")
MORRIGANS_JAVELIN = item_named("MORRIGANS_JAVELIN")
STATIUS_WARHAMMER = item_named("STATIUS_WARHAMMER")
VESTAS_LONGSWORD = item_named("VESTAS_LONGSWORD")
VOLATILE_NIGHTMARE_STAFF = item_named("VOLATILE_NIGHTMARE_STAFF")
ZARYTE_CROSSBOW = item_named("ZARYTE_CROSSBOW")
ZURIELS_STAFF = item_named("ZURIELS_STAFF")

AMULET_OF_BLOOD_FURY = item_named("AMULET_OF_BLOOD_FURY")
DHAROKS_HELM = item_named("DHAROKS_HELM")
DHAROKS_PLATEBODY = item_named("DHAROKS_PLATEBODY")
DHAROKS_PLATELEGS = item_named("DHAROKS_PLATELEGS")
DHAROKS_GREATAXE = item_named("DHAROKS_GREATAXE")
DRAGON_DEFENDER = item_named("DRAGON_DEFENDER")
RING_OF_RECOIL = item_named("RING_OF_RECOIL")

OPAL_BOLTS_E = item_named("OPAL_BOLTS_E")
DIAMOND_BOLTS_E = item_named("DIAMOND_BOLTS_E")
DRAGONSTONE_BOLTS_E = item_named("DRAGONSTONE_BOLTS_E")
OPAL_DRAGON_BOLTS_E = item_named("OPAL_DRAGON_BOLTS_E")
DIAMOND_DRAGON_BOLTS_E = item_named("DIAMOND_DRAGON_BOLTS_E")
DRAGONSTONE_DRAGON_BOLTS_E = item_named("DRAGONSTONE_DRAGON_BOLTS_E")

# -- potions ------------------------------------------------------------------------------------------------------

#: Kinds of potion, the first index of `POTION_DOSES`.
BREW, RESTORE, COMBAT, RANGING = range(4)
_POTION_NAMES = ("SARADOMIN_BREW", "SUPER_RESTORE", "SUPER_COMBAT", "RANGING_POTION")
MAX_DOSES = 4
#: (4 kinds, 4): item index by kind and number of doses - 1.
POTION_DOSES = np.array([[item_named(f"{name}_{dose}") for dose in (1, 2, 3, 4)] for name in _POTION_NAMES], np.int64)
#: (4 kinds,): item index of the potion with four doses; a contiguous copy, since compiled rules index it.
FULL_POTION = POTION_DOSES[:, -1].copy()
#: What a potion becomes when a dose is drunk (the vial after the last one), NO_ITEM for everything else.
AFTER_DOSE = np.full(NUM_ITEMS, NO_ITEM, np.int64)
AFTER_DOSE[POTION_DOSES[:, 0]] = VIAL
AFTER_DOSE[POTION_DOSES[:, 1:]] = POTION_DOSES[:, :-1]
