"""What an agent's action does in the input phase (nh-actions.md §3 and §5). Nothing here moves or hits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import items, vengeance
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.equipment import equip_set
from sb3_pvp.games.osrs.sim.movement import walk_beside, walk_to, walk_to_nearest_on_ring
from sb3_pvp.games.osrs.sim.orders import drink_potion, eat_karambwan, eat_primary_food
from sb3_pvp.games.osrs.sim.prayer import (
    PROTECT_FROM_MAGIC,
    PROTECT_FROM_MELEE,
    PROTECT_FROM_MISSILES,
    REDEMPTION,
    SMITE,
    activate,
    activate_style,
)
from sb3_pvp.games.osrs.sim.specials import MAUL_COST, press
from sb3_pvp.games.osrs.sim.spells import BLOOD_BARRAGE, ICE_BARRAGE, strongest
from sb3_pvp.games.osrs.sim.state import (
    MAGE_SET,
    MAGIC,
    MELEE,
    MELEE_SET,
    NO_SPELL_SELECTED,
    RANGED,
    RANGED_SET,
    SPEC_SET,
    TANK_SET,
    Fight,
    Seat,
)

head = load_contract("NhEnv").head_numbers
action = load_contract("NhEnv").action_numbers

#: Overhead prayers by the number of the prayer head's sub-action.
_OVERHEADS = np.zeros(6, dtype=np.int64)
_OVERHEADS[action.mage_prayer] = PROTECT_FROM_MAGIC
_OVERHEADS[action.ranged_prayer] = PROTECT_FROM_MISSILES
_OVERHEADS[action.melee_prayer] = PROTECT_FROM_MELEE
_OVERHEADS[action.smite_prayer] = SMITE
_OVERHEADS[action.redemption_prayer] = REDEMPTION
#: Potion kinds by the number of the potion head's sub-action.
_POTIONS = np.zeros(5, dtype=np.int64)
_POTIONS[action.use_brew] = items.BREW
_POTIONS[action.use_restore_potion] = items.RESTORE
_POTIONS[action.use_combat_potion] = items.COMBAT
_POTIONS[action.use_ranged_potion] = items.RANGING


@rule
def _consume(seat: Seat, food: int, potion: int, karambwan: int) -> None:
    if food == action.eat_primary_food:
        eat_primary_food(seat)
    if potion != action.no_potion:
        drink_potion(seat, _POTIONS[potion])
    if karambwan == action.eat_karambwan:
        eat_karambwan(seat)


@rule
def _switch_special_on(seat: Seat) -> None:
    if not seat.special_on:
        press(seat)


@rule
def _mage_attack(seat: Seat, kind: int) -> bool:
    equip_set(seat, MAGE_SET)
    activate_style(seat, MAGIC)
    if kind == action.use_ice_spell:
        seat.spell = strongest(seat, ICE_BARRAGE)
        seat.special_on = 0
    elif kind == action.use_blood_spell:
        seat.spell = strongest(seat, BLOOD_BARRAGE)
        seat.special_on = 0
    elif kind == action.use_magic_spec:
        seat.spell = NO_SPELL_SELECTED
        _switch_special_on(seat)
    return bool(kind != action.no_mage_attack)


@rule
def _ranged_attack(seat: Seat, kind: int) -> bool:
    equip_set(seat, RANGED_SET)
    seat.spell = NO_SPELL_SELECTED
    activate_style(seat, RANGED)
    if kind == action.ranged_special_attack:
        _switch_special_on(seat)
    elif kind == action.basic_ranged_attack:
        seat.special_on = 0
    return bool(kind != action.no_ranged_attack)


@rule
def _melee_attack(seat: Seat, kind: int) -> bool:
    activate_style(seat, MELEE)  # before the gear, unlike the other styles (nh-actions.md §5.9)
    seat.spell = NO_SPELL_SELECTED
    if kind == action.basic_melee_attack:
        equip_set(seat, MELEE_SET)
        seat.special_on = 0
    elif kind == action.melee_special_attack:
        equip_set(seat, SPEC_SET)
        if seat.melee_spec == items.GRANITE_MAUL:
            for _ in range(seat.energy // MAUL_COST):  # each press queues a hit (mechanics.md §6.3)
                press(seat)
        else:
            _switch_special_on(seat)
    return bool(kind != action.no_melee_attack)


@rule
def _attack(seat: Seat, choice: NDArray[np.int64]) -> None:
    style = choice[head.attack]
    if style == action.no_op_attack:
        return
    if style == action.mage_attack:
        chosen = _mage_attack(seat, choice[head.mage_attack_type])
    elif style == action.ranged_attack:
        chosen = _ranged_attack(seat, choice[head.ranged_attack_type])
    else:
        chosen = _melee_attack(seat, choice[head.melee_attack_type])
    if chosen:
        seat.targeting = 1


@rule
def _move(fight: Fight, seat: Seat, movement: int, farcast: int) -> None:
    if movement == action.move_next_to_target:
        walk_beside(fight, seat, False)
    elif movement == action.move_diagonal_to_target:
        walk_beside(fight, seat, True)
    elif movement == action.move_under_target:
        walk_to(seat, seat.last_x, seat.last_y)
    elif movement == action.move_to_farcast_tile:
        walk_to_nearest_on_ring(fight, seat, farcast + 1)  # sub-action 1 is farcast_2_tiles


@rule
def apply(fight: Fight, seat: Seat, choice: NDArray[np.int64]) -> None:
    """Carries out one action, an index per head ``(12,)``, in the fixed order of nh-actions.md §3, ignoring masks.

    Sub-types of styles that were not chosen do nothing. A style without its sub-type changes gear and prayers only.
    """
    if choice[head.prayer] != action.no_op_prayer:
        activate(seat, _OVERHEADS[choice[head.prayer]])
    _consume(seat, choice[head.food], choice[head.potion], choice[head.karambwan])
    if choice[head.gear] == action.use_tank_gear:
        equip_set(seat, TANK_SET)
        activate_style(seat, MAGIC)
    if choice[head.veng] == action.use_veng:
        vengeance.cast(seat)
    _attack(seat, choice)
    # Last: a walk drops the target, so moving in the tick of an attack order cancels the attack.
    _move(fight, seat, choice[head.movement], choice[head.farcast_distance])
