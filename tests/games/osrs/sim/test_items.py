"""The item table is complete and consistent."""

from __future__ import annotations

import numpy as np
import pytest

from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.state import AMMO, MAGIC, MELEE, NO_ITEM, RANGED, SHIELD, WEAPON


def test_ids_and_names_are_unique() -> None:
    assert len(set(items.ITEM_IDS.tolist())) == items.NUM_ITEMS == len(set(items.ITEM_NAMES))


def test_index_follows_from_id_and_from_name() -> None:
    assert items.item_named("ARMADYL_GODSWORD") == items.ARMADYL_GODSWORD
    assert items.ITEM_IDS[items.ARMADYL_GODSWORD] == 11802
    assert items.ITEM_IDS[items.ANGLERFISH] == 13441


def test_unknown_item_is_refused() -> None:
    with pytest.raises(ValueError, match=r"data/items\.csv"):
        items.item_named("SPOON")


def test_exactly_the_weapons_have_a_class() -> None:
    assert np.array_equal(items.WEAPON_CLASS >= 0, items.SLOT == WEAPON)
    assert set(items.SLOT[items.TWO_HANDED == 1]) == {WEAPON}
    assert set(items.SLOT[items.STACKABLE == 1]) == {WEAPON, AMMO, NO_ITEM}


def test_only_what_is_worn_has_bonuses() -> None:
    assert not items.BONUSES[items.SLOT == NO_ITEM].any()
    assert items.SLOT[items.DRAGON_DEFENDER] == SHIELD


@pytest.mark.parametrize(
    ("weapon", "style", "period", "reach"),
    [
        ("ARMADYL_GODSWORD", MELEE, 6, 1),
        ("ABYSSAL_WHIP", MELEE, 4, 1),
        ("GRANITE_MAUL", MELEE, 7, 1),
        ("ZARYTE_CROSSBOW", RANGED, 5, 7),
        ("DARK_BOW", RANGED, 7, 9),
        ("DRAGON_KNIFE", RANGED, 2, 4),
        ("AHRIMS_STAFF_100", MAGIC, 5, 1),
    ],
)
def test_weapon_classes(weapon: str, style: int, period: int, reach: int) -> None:
    kind = items.WEAPON_CLASS[items.item_named(weapon)]
    assert (items.CLASS_STYLE[kind], items.CLASS_PERIOD[kind], items.CLASS_REACH[kind]) == (style, period, reach)


def test_a_potion_loses_a_dose_at_a_time_and_leaves_a_vial() -> None:
    for kind in (items.BREW, items.RESTORE, items.COMBAT, items.RANGING):
        potion = items.POTION_DOSES[kind, 3]
        for dose in (3, 2, 1):
            potion = items.AFTER_DOSE[potion]
            assert potion == items.POTION_DOSES[kind, dose - 1]
        assert items.AFTER_DOSE[potion] == items.VIAL
    assert (items.AFTER_DOSE >= 0).sum() == 16
