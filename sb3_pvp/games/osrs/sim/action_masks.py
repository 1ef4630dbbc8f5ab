"""Which sub-actions are allowed next (nh-actions.md §4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import availability as available
from sb3_pvp.games.osrs.sim.availability import mobile, ready
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.state import Fight, Seat

flat = load_contract("NhEnv").flat_numbers


@rule
def write_masks(me: Seat, foe: Seat, fight: Fight, bag: int, out: NDArray[np.bool_]) -> None:
    """Writes the flat mask of ``me``, whose stock is ``bag``, into ``out`` (45,), True = allowed.

    Call it after `observe.observe` of the same tick, which records the target's tile.
    """
    _write_attacks(me, foe, bag, out)
    _write_consumables(me, bag, out)
    _write_movement(me, foe, out)
    _write_prayers(me, foe, fight, bag, out)
    out[flat.dont_use_veng] = True
    out[flat.use_veng] = available.vengeance(me)
    out[flat.no_gear] = True
    out[flat.use_tank_gear] = ready(foe)


@rule
def _write_attacks(me: Seat, foe: Seat, bag: int, out: NDArray[np.bool_]) -> None:
    ice, blood, magic_special = available.ice(me), available.blood(me), available.magic_special(me)
    ranged, ranged_special = available.ranged(me, bag), available.ranged_special(me, bag)
    melee, melee_special = available.melee(me, foe, bag), available.melee_special(me, foe, bag)
    out[flat.no_op_attack] = not ready(me)  # a fighter that can attack has to
    out[flat.mage_attack] = ice or blood or magic_special
    out[flat.ranged_attack] = ranged or ranged_special
    out[flat.melee_attack] = melee or melee_special
    out[flat.no_melee_attack] = True
    out[flat.basic_melee_attack] = melee
    out[flat.melee_special_attack] = melee_special
    out[flat.no_ranged_attack] = True
    out[flat.basic_ranged_attack] = ranged
    out[flat.ranged_special_attack] = ranged_special
    out[flat.no_mage_attack] = True
    out[flat.use_ice_spell] = ice
    out[flat.use_blood_spell] = blood
    out[flat.use_magic_spec] = magic_special


@rule
def _write_consumables(me: Seat, bag: int, out: NDArray[np.bool_]) -> None:
    out[flat.no_potion] = True
    out[flat.use_brew] = available.brew(me, bag)
    out[flat.use_restore_potion] = available.restore(me, bag)
    out[flat.use_combat_potion] = available.combat_potion(me, bag)
    out[flat.use_ranged_potion] = available.ranging_potion(me, bag)
    out[flat.dont_eat_food] = True
    out[flat.eat_primary_food] = available.food(me, bag)
    out[flat.dont_karambwan] = True
    out[flat.eat_karambwan] = available.karambwan(me, bag)


@rule
def _write_movement(me: Seat, foe: Seat, out: NDArray[np.bool_]) -> None:
    moves = available.moves(me)
    under = me.x == me.last_x and me.y == me.last_y
    out[flat.dont_move] = True
    out[flat.move_next_to_target] = moves and available.not_next_to_last_tile(me)
    out[flat.move_under_target] = moves and not mobile(foe) and not under
    # The own tile has only one distance from the target, so on open ground another one of 2 to 6 is always open.
    out[flat.move_to_farcast_tile] = moves
    out[flat.move_diagonal_to_target] = moves and available.not_diagonal_to_last_tile(me)
    out[flat.no_op_farcast] = True
    out[flat.farcast_2_tiles] = available.farcasts(me, 2)
    out[flat.farcast_3_tiles] = available.farcasts(me, 3)
    out[flat.farcast_4_tiles] = available.farcasts(me, 4)
    out[flat.farcast_5_tiles] = available.farcasts(me, 5)
    out[flat.farcast_6_tiles] = available.farcasts(me, 6)
    out[flat.farcast_7_tiles] = available.farcasts(me, 7)


@rule
def _write_prayers(me: Seat, foe: Seat, fight: Fight, bag: int, out: NDArray[np.bool_]) -> None:
    prays = available.prays(me, foe)
    melee_threat = mobile(me) or mobile(foe) or available.melee_range(me, foe)
    out[flat.no_op_prayer] = False  # if all are masked, sampling falls back to this entry (contract.md §2.3)
    out[flat.mage_prayer] = prays and me.target_lunar == 0
    out[flat.ranged_prayer] = prays
    out[flat.melee_prayer] = prays and melee_threat
    out[flat.smite_prayer] = available.smite(me, fight)
    out[flat.redemption_prayer] = available.redemption(me, foe, fight, bag)
