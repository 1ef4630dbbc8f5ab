"""Fights built by hand: two fighters with a small loadout, and the replies they would get."""

from __future__ import annotations

from typing import Any

import numpy as np
from entry_points import ME, TARGET, clear_tick, publish, start_memory

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.meta_fields import META_DTYPE
from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.state import FIGHT, MAGE_SET, MELEE_SET, NEVER_ATTACKED, NO_ITEM, RANGED_SET, SEAT, SPEC_SET

CONTRACT = load_contract("NhEnv")

GEAR = {
    MAGE_SET: (items.ZURIELS_STAFF, items.DRAGON_DEFENDER),
    RANGED_SET: (items.DARK_BOW, items.OPAL_DRAGON_BOLTS_E),
    MELEE_SET: (items.ABYSSAL_WHIP, items.DRAGON_DEFENDER, items.AMULET_OF_BLOOD_FURY),
    SPEC_SET: (items.GRANITE_MAUL,),
}


class HandBuiltFight:
    """``me`` and ``target`` are views of the seats; change them, then read `obs`, `masks` or `meta`."""

    def __init__(self) -> None:
        self.seats = np.zeros(2, SEAT)
        self.fights = np.zeros(1, FIGHT)
        start_memory(self.seats)
        clear_tick(self.seats)
        self.me, self.target = self.seats[ME], self.seats[TARGET]
        for seat in (self.me, self.target):
            for name in ("worn", "inventory", "gear_set", "melee_spec", "ranged_spec", "melee_weapon", "ranged_weapon"):
                seat[name] = NO_ITEM
            seat["base"] = seat["level"] = (75, 99, 70, 99, 98, 77, 90)
            seat["energy"] = 100
            seat["attack_counter"] = NEVER_ATTACKED
            seat["allow_smite"] = seat["allow_redemption"] = seat["allow_moving_if_can_attack"] = 1
            for gear_set, gear in GEAR.items():
                self.give_set(seat, gear_set, gear)
            seat["melee_spec"], seat["ranged_spec"] = items.GRANITE_MAUL, items.DARK_BOW
            seat["melee_weapon"], seat["ranged_weapon"] = items.ABYSSAL_WHIP, items.DARK_BOW
        self.me["x"], self.me["y"], self.target["x"], self.target["y"] = 3060, 3540, 3064, 3539
        self.me["inventory"] = items.VIAL

    def give_set(self, seat: Any, gear_set: int, gear: tuple[int, ...]) -> None:
        seat["gear_set"][gear_set] = NO_ITEM
        seat["gear_set"][gear_set, : len(gear)] = gear
        seat["set_length"][gear_set] = len(gear)
        seat["set_bonus"][gear_set] = items.BONUSES[list(gear)].sum(axis=0)
        seat["set_two_handed"][gear_set] = items.TWO_HANDED[list(gear)].any()

    def carry(self, *carried: int) -> None:
        """Fills the first inventory slots of ``me``."""
        self.me["inventory"][: len(carried)] = carried

    def wear(self, seat: Any, *worn: int) -> None:
        for item in worn:
            seat["worn"][items.SLOT[item]] = item

    def reply(self, left_over: int = 0) -> tuple[dict[str, float], dict[str, bool], Any]:
        """Observation by id, mask by sub-action id, and the meta record of ``me``.

        Every byte of the record is ``left_over`` before it is written.
        """
        obs = np.full(CONTRACT.num_observations, np.nan, np.float32)
        masks = np.ones(CONTRACT.num_flat_actions, np.bool_)
        meta = np.full(META_DTYPE.itemsize, left_over, np.uint8).view(META_DTYPE)
        publish(self.seats, self.fights, obs, masks, meta)
        names = [sub_action.id for head in CONTRACT.heads for sub_action in head.actions]
        ids = [observation.id for observation in CONTRACT.observations]
        return dict(zip(ids, map(float, obs), strict=True)), dict(zip(names, map(bool, masks), strict=True)), meta[0]

    @property
    def obs(self) -> dict[str, float]:
        return self.reply()[0]

    @property
    def masks(self) -> dict[str, bool]:
        return self.reply()[1]

    @property
    def meta(self) -> Any:
        return self.reply()[2]
