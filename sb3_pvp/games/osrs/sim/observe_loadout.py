"""The part of an observation about levels and gear: the own loadout and what the target wears (entries 96-144)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.state import (
    AMMO,
    ATTACK,
    DEFENCE,
    HITPOINTS,
    MAGE_SET,
    MAGIC_ATTACK,
    MAGIC_DAMAGE,
    MAGIC_DEFENCE,
    MAGIC_LEVEL,
    MELEE_SET,
    MELEE_STRENGTH,
    NO_ITEM,
    NUM_SLOTS,
    PRAYER,
    RANGED_ATTACK,
    RANGED_DEFENCE,
    RANGED_LEVEL,
    RANGED_SET,
    RANGED_STRENGTH,
    RING,
    SLASH_ATTACK,
    SLASH_DEFENCE,
    STRENGTH,
    Seat,
)

obs = load_contract("NhEnv").observation_numbers

NOT_SHOWN = -1
#: Items whose presence in a set has an entry; the nightmare staff has a second one (`is_mage_spec_weapon_loadout`).
_SHOWN_IN_SET = {
    MAGE_SET: {
        items.VOLATILE_NIGHTMARE_STAFF: obs.is_mage_spec_weapon_nightmare_staff,
        items.ZURIELS_STAFF: obs.is_zuriel_staff,
    },
    RANGED_SET: {
        items.DRAGONSTONE_DRAGON_BOLTS_E: obs.is_enchanted_dragon_bolt,
        items.DRAGONSTONE_BOLTS_E: obs.is_enchanted_dragon_bolt,
        items.OPAL_DRAGON_BOLTS_E: obs.is_enchanted_opal_bolt,
        items.OPAL_BOLTS_E: obs.is_enchanted_opal_bolt,
        items.DIAMOND_DRAGON_BOLTS_E: obs.is_enchanted_diamond_bolt,
        items.DIAMOND_BOLTS_E: obs.is_enchanted_diamond_bolt,
        items.ZARYTE_CROSSBOW: obs.is_ranged_spec_weapon_zaryte_cbow,
        items.LIGHT_BALLISTA: obs.is_ranged_spec_weapon_ballista,
        items.HEAVY_BALLISTA: obs.is_ranged_spec_weapon_ballista,
        items.MORRIGANS_JAVELIN: obs.is_ranged_spec_weapon_morrigans_javelin,
        items.DRAGON_KNIFE: obs.is_ranged_spec_weapon_dragon_knife,
        items.DARK_BOW: obs.is_ranged_spec_weapon_dark_bow,
    },
    MELEE_SET: {
        items.AMULET_OF_BLOOD_FURY: obs.is_blood_fury,
        items.DHAROKS_GREATAXE: obs.is_dharoks_set,
    },
}
#: The entry of each weapon that can be MELEE-SPEC (contract.md §4.1).
_SHOWN_AS_MELEE_SPECIAL = {
    items.DRAGON_CLAWS: obs.is_melee_spec_dclaws,
    items.DRAGON_DAGGER: obs.is_melee_spec_dds,
    items.DRAGON_DAGGER_POISONED: obs.is_melee_spec_dds,
    items.ARMADYL_GODSWORD: obs.is_melee_spec_ags,
    items.VESTAS_LONGSWORD: obs.is_melee_spec_vls,
    items.STATIUS_WARHAMMER: obs.is_melee_spec_stat_hammer,
    items.ANCIENT_GODSWORD: obs.is_melee_spec_ancient_godsword,
    items.GRANITE_MAUL: obs.is_melee_spec_gmaul,
}


def _entry_by_item(shown: dict[int, int]) -> NDArray[np.int64]:
    entries = np.full(items.NUM_ITEMS, NOT_SHOWN, np.int64)
    for item, entry in shown.items():
        entries[item] = entry
    return entries


#: (3 sets, items): the entry for an item in a set, `NOT_SHOWN` if it has none. The sets have the numbers 0 to 2.
_SET_ENTRY = np.stack([_entry_by_item(_SHOWN_IN_SET[gear_set]) for gear_set in (MAGE_SET, RANGED_SET, MELEE_SET)])
_MELEE_SPECIAL_ENTRY = _entry_by_item(_SHOWN_AS_MELEE_SPECIAL)


@rule
def write_base_levels(me: Seat, out: NDArray[np.float32]) -> None:
    """Entries 96 to 102: unboosted levels."""
    out[obs.absolute_attack_level] = me.base[ATTACK]
    out[obs.absolute_strength_level] = me.base[STRENGTH]
    out[obs.absolute_defense_level] = me.base[DEFENCE]
    out[obs.absolute_ranged_level] = me.base[RANGED_LEVEL]
    out[obs.absolute_magic_level] = me.base[MAGIC_LEVEL]
    out[obs.absolute_prayer_level] = me.base[PRAYER]
    out[obs.absolute_hitpoints_level] = me.base[HITPOINTS]


@rule
def write_loadout(me: Seat, out: NDArray[np.float32]) -> None:
    """Entries 103 to 141: special items and bonuses of the gear sets of the episode."""
    _write_shown_items(me, out)
    _write_attack_gear(me, out)
    _write_defence_gear(me, out)


@rule
def _write_shown_items(me: Seat, out: NDArray[np.float32]) -> None:
    out[obs.is_enchanted_dragon_bolt : obs.is_zuriel_staff + 1] = 0.0  # the flags are neighbours (contract.md §4.4)
    for gear_set in (MAGE_SET, RANGED_SET, MELEE_SET):
        for position in range(me.set_length[gear_set]):
            entry = _SET_ENTRY[gear_set, me.gear_set[gear_set, position]]
            if entry != NOT_SHOWN:
                out[entry] = 1.0
    if me.melee_spec != NO_ITEM:
        out[_MELEE_SPECIAL_ENTRY[me.melee_spec]] = 1.0
    out[obs.is_ranged_spec_weapon_loadout] = me.ranged_spec != NO_ITEM
    out[obs.is_mage_spec_weapon_loadout] = out[obs.is_mage_spec_weapon_nightmare_staff]


@rule
def _class_of(weapon: int) -> int:
    return items.WEAPON_CLASS[weapon] if weapon != NO_ITEM else items.UNARMED


@rule
def _write_attack_gear(me: Seat, out: NDArray[np.float32]) -> None:
    out[obs.magic_accuracy] = me.set_bonus[MAGE_SET, MAGIC_ATTACK]
    out[obs.magic_strength] = me.set_bonus[MAGE_SET, MAGIC_DAMAGE]
    out[obs.ranged_accuracy] = me.set_bonus[RANGED_SET, RANGED_ATTACK]
    out[obs.ranged_strength] = me.set_bonus[RANGED_SET, RANGED_STRENGTH]
    out[obs.ranged_attack_speed] = items.CLASS_PERIOD[_class_of(me.ranged_weapon)]
    out[obs.ranged_attack_range] = items.CLASS_REACH[_class_of(me.ranged_weapon)]
    out[obs.melee_accuracy] = me.set_bonus[MELEE_SET, SLASH_ATTACK]
    out[obs.melee_strength] = me.set_bonus[MELEE_SET, MELEE_STRENGTH]
    out[obs.melee_attack_speed] = items.CLASS_PERIOD[_class_of(me.melee_weapon)]


@rule
def _write_defence_gear(me: Seat, out: NDArray[np.float32]) -> None:
    out[obs.magic_gear_ranged_defence] = me.set_bonus[MAGE_SET, RANGED_DEFENCE]
    out[obs.magic_gear_mage_defence] = me.set_bonus[MAGE_SET, MAGIC_DEFENCE]
    out[obs.magic_gear_melee_defence] = me.set_bonus[MAGE_SET, SLASH_DEFENCE]
    out[obs.ranged_gear_ranged_defence] = me.set_bonus[RANGED_SET, RANGED_DEFENCE]
    out[obs.ranged_gear_mage_defence] = me.set_bonus[RANGED_SET, MAGIC_DEFENCE]
    out[obs.ranged_gear_melee_defence] = me.set_bonus[RANGED_SET, SLASH_DEFENCE]
    out[obs.melee_gear_ranged_defence] = me.set_bonus[MELEE_SET, RANGED_DEFENCE]
    out[obs.melee_gear_mage_defence] = me.set_bonus[MELEE_SET, MAGIC_DEFENCE]
    out[obs.melee_gear_melee_defence] = me.set_bonus[MELEE_SET, SLASH_DEFENCE]


@rule
def write_visible_gear(foe: Seat, out: NDArray[np.float32]) -> None:
    """Entries 142 to 144: defences of what the target wears now, without ring and ammunition."""
    ranged, mage, melee = 0, 0, 0  # the sums of `visible_bonus` in one pass
    for slot in range(NUM_SLOTS):
        item = foe.worn[slot]
        if item != NO_ITEM and slot != RING and slot != AMMO:
            ranged += items.BONUSES[item, RANGED_DEFENCE]
            mage += items.BONUSES[item, MAGIC_DEFENCE]
            melee += items.BONUSES[item, SLASH_DEFENCE]
    out[obs.target_current_gear_ranged_defence] = ranged
    out[obs.target_current_gear_mage_defence] = mage
    out[obs.target_current_gear_melee_defence] = melee
