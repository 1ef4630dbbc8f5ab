"""The builds as data: levels, gear sets and supplies (``data/builds.json``; loadouts.md §1-3, nh-actions.md §B.1-2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.games.osrs.sim import state
from sb3_pvp.games.osrs.sim.items import DATA, item_named

#: Names of the builds on the wire, in the order of state.py.
BUILD_NAMES = ("PURE", "ZERKER", "MED", "MAXED", "LMS_PURE", "LMS_ZERKER", "LMS_MED")
_SKILLS = ("attack", "strength", "defence", "ranged", "magic", "prayer", "hitpoints")
_SETS = ("mage", "ranged", "melee", "spec")
_FIGHT_TYPES = {"NORMAL": state.NORMAL, "LMS": state.LMS}

_data = json.loads((DATA / "builds.json").read_text(encoding="utf-8"))
_builds: list[dict[str, Any]] = [_data[name] for name in BUILD_NAMES]


def _padded(rows: Sequence[Sequence[str]], size: int) -> NDArray[np.int64]:
    """Returns the item indices of these names, ``(len(rows), size)``, NO_ITEM padded."""
    table = np.full((len(rows), size), state.NO_ITEM, np.int64)
    for row, names in zip(table, rows, strict=True):
        row[: len(names)] = [item_named(name) for name in names]
    return table


#: (7,): the fight type of a build unless it is drawn.
BUILD_FIGHT_TYPE = np.array([_FIGHT_TYPES[build["fight_type"]] for build in _builds], np.int64)
#: (7, 7): base levels by build and skill (state.py).
LEVELS = np.array([[build["levels"][skill] for skill in _SKILLS] for build in _builds], np.int64)
#: (7, 4, SET_SIZE): gear sets in equip order, NO_ITEM padded.
GEAR_SETS = np.stack([_padded([build["sets"][name] for name in _SETS], state.SET_SIZE) for build in _builds])
#: (7, 4): number of items in each.
SET_LENGTHS = (GEAR_SETS != state.NO_ITEM).sum(axis=2, dtype=np.int64)
#: Capacity of a list of supplies: more than any script of `gear_randomisation` can fill.
SUPPLIES_SIZE = 40
#: (7, SUPPLIES_SIZE): what the inventory holds besides gear, NO_ITEM padded.
SUPPLIES = _padded(
    [[name for name, count in build["supplies"].items() for _ in range(count)] for build in _builds],
    SUPPLIES_SIZE,
)
#: (7,): the food that fills the inventory.
FILLERS = np.array([item_named(build["filler"]) for build in _builds], np.int64)
