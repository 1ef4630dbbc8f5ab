"""What an agent's action does in the input phase (contract.md §6.3). Nothing here hits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import items, vengeance
from sb3_pvp.games.osrs.sim.compile import rule
from sb3_pvp.games.osrs.sim.dharok.loadout import AXE_SET, FULL_SET, MAUL_SET, WHIP_SET
from sb3_pvp.games.osrs.sim.equipment import equip_available, sum_bonuses, take_off
from sb3_pvp.games.osrs.sim.orders import drink_potion, eat_karambwan, eat_primary_food
from sb3_pvp.games.osrs.sim.prayer import PIETY, activate
from sb3_pvp.games.osrs.sim.specials import press
from sb3_pvp.games.osrs.sim.state import BODY, LEGS, Fight, Seat

head = load_contract("DharokEnv").head_numbers
action = load_contract("DharokEnv").action_numbers

#: Potion kinds by the number of the potion head's sub-action.
_POTIONS = np.zeros(4, dtype=np.int64)
_POTIONS[action.use_brew] = items.BREW
_POTIONS[action.use_restore_potion] = items.RESTORE
_POTIONS[action.use_combat_potion] = items.COMBAT
#: Gear sets by the number of the attack head's sub-action.
_WEAPONS = np.zeros(4, dtype=np.int64)
_WEAPONS[action.whip_attack] = WHIP_SET
_WEAPONS[action.axe_attack] = AXE_SET
_WEAPONS[action.maul_spec_attack] = MAUL_SET


@rule
def _change_armour(seat: Seat, gear: int) -> None:
    if gear == action.full_armor:
        equip_available(seat, FULL_SET)
    elif gear == action.take_armor_off:
        take_off(seat, BODY)
        take_off(seat, LEGS)
        sum_bonuses(seat)


@rule
def _attack(seat: Seat, attack: int) -> None:
    equip_available(seat, _WEAPONS[attack])
    if attack == action.maul_spec_attack:
        # The second press switches the special off again, but the hits that both queued stay (contract.md §6.3).
        press(seat)
        press(seat)
    activate(seat, PIETY)
    seat.targeting = 1


@rule
def apply(fight: Fight, seat: Seat, choice: NDArray[np.int64]) -> None:
    """Carries out one action, an index per head ``(6,)``, in the fixed order of contract.md §6.3, ignoring masks."""
    if choice[head.food] == action.eat_primary_food:
        eat_primary_food(seat)
    if choice[head.potion] != action.no_potion:
        drink_potion(seat, _POTIONS[choice[head.potion]])
    if choice[head.karambwan] == action.eat_karambwan:
        eat_karambwan(seat)
    _change_armour(seat, choice[head.gear])
    if choice[head.vengeance] == action.use_veng:
        vengeance.cast(seat)
    if choice[head.attack] != action.no_op_attack:
        _attack(seat, choice[head.attack])
