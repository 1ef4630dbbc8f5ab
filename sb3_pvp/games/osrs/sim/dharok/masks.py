"""Which sub-actions are allowed next (contract.md §6.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import availability as available
from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.consumables import find_item
from sb3_pvp.games.osrs.sim.dharok.loadout import AXE_SET, MAUL_SET
from sb3_pvp.games.osrs.sim.specials import MAUL_COST
from sb3_pvp.games.osrs.sim.state import ATTACK, DEFENCE, PRAYER, STRENGTH, Fight, Seat
from sb3_pvp.games.osrs.sim.stock import FREE_SLOTS, RESTORE_DOSES, count

flat = load_contract("DharokEnv").flat_numbers

_ARMOUR_PIECES = 2  # body and legs


@rule
def _restores(me: Seat, bag: int) -> bool:
    """A restore can be drunk and a level is lowered; ranged and magic, useless here, do not count."""
    lowered = False
    for skill in (ATTACK, STRENGTH, DEFENCE, PRAYER):
        lowered |= me.level[skill] < me.base[skill]
    return lowered and available.drinks(me, bag, RESTORE_DOSES)


@rule
def _takes_off(me: Seat, bag: int) -> bool:
    """Body and legs fit into the inventory, or are there already."""
    off = find_item(me, items.DHAROKS_PLATEBODY) >= 0 and find_item(me, items.DHAROKS_PLATELEGS) >= 0
    return off or count(bag, FREE_SLOTS) >= _ARMOUR_PIECES


@rule
def write_masks(me: Seat, foe: Seat, fight: Fight, bag: int, out: NDArray[np.bool_]) -> None:
    """Writes the flat mask of ``me``, whose stock is ``bag``, into ``out`` (17,), True = allowed."""
    ready = available.ready(me)
    out[flat.no_op_attack] = not ready
    out[flat.whip_attack] = ready
    out[flat.axe_attack] = ready and available.hands_free(me, bag, AXE_SET)
    out[flat.maul_spec_attack] = me.energy >= MAUL_COST and available.hands_free(me, bag, MAUL_SET)
    out[flat.no_potion] = True
    out[flat.use_brew] = available.brew(me, bag)
    out[flat.use_restore_potion] = _restores(me, bag)
    out[flat.use_combat_potion] = available.combat_potion(me, bag)
    out[flat.dont_eat_food] = True
    out[flat.eat_primary_food] = available.food(me, bag)
    out[flat.dont_karambwan] = True
    out[flat.eat_karambwan] = available.karambwan(me, bag)
    out[flat.no_veng] = True
    out[flat.use_veng] = available.vengeance(me)
    out[flat.no_gear] = True
    out[flat.full_armor] = True
    out[flat.take_armor_off] = _takes_off(me, bag)
