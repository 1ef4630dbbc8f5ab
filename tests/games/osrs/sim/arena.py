"""An arena: N equal fights that differ only in their random numbers, with orders by the names of the contract.

State is edited in place: ``arena.a`` and ``arena.b`` are the records ``(N,)`` of seats 0 and 1, so
``arena.b["level"][:, PRAYER] = 10`` leaves every seat 1 with ten prayer points.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import Contract, load_contract
from sb3_pvp.games.osrs.sim import SimWorld, items
from sb3_pvp.games.osrs.sim.items import item_named
from sb3_pvp.games.osrs.sim.state import (
    AMMO,
    ATTACK_TIMER,
    HITPOINTS,
    NO_ITEM,
    RANGED_ATTACK,
    RANGED_DEFENCE,
    STAB_DEFENCE,
    WEAPON,
)

CONTRACT = load_contract("NhEnv")
#: Orders that wear a set, switch its prayers on and set the target.
MELEE_ORDER = ("melee_attack", "basic_melee_attack")
MELEE_SPECIAL_ORDER = ("melee_attack", "melee_special_attack")
RANGED_ORDER = ("ranged_attack", "basic_ranged_attack")
RANGED_SPECIAL_ORDER = ("ranged_attack", "ranged_special_attack")
ICE_ORDER = ("mage_attack", "use_ice_spell")
BLOOD_ORDER = ("mage_attack", "use_blood_spell")
MAGIC_SPECIAL_ORDER = ("mage_attack", "use_magic_spec")
#: An attack bonus that never misses an opponent without defence, and one that never hits.
SURE, HOPELESS = 10**9, -64
NEVER = 10**9


def action(sub_actions: Iterable[str], contract: Contract = CONTRACT) -> NDArray[np.int64]:
    """One index per head: these sub-actions, and entry 0 of the other heads."""
    choice = np.zeros(contract.num_heads, np.int64)
    for name in sub_actions:
        head, number = contract.action_index(name)
        choice[head] = number
    return choice


class Arena:
    """N fights on open ground: A one tile west of B, A first in every tick, PIDs are never redrawn."""

    def __init__(
        self,
        num_fights: int = 1,
        build: str = "MAXED",
        seed: int = 0,
        bots: tuple[str | None, str | None] = (None, None),
        death_match: bool = True,
        **reset_params: Any,
    ) -> None:
        world = SimWorld(num_fights, seed, {"accountBuild": build, **reset_params})
        self.enter(world, bots=bots, death_match=death_match)

    def enter(self, world: SimWorld, **options: Any) -> None:
        """Starts fights in this world."""
        self.world = world
        self.world.reset(options={"training": False, **options})
        self.a, self.b = self.world.state[:, 0], self.world.state[:, 1]
        self.place(1)
        self.pid(first=0)

    def tick(self, a: Iterable[str] = (), b: Iterable[str] = (), times: int = 1) -> None:
        """Plays these orders for one tick, then idles for the rest of ``times``."""
        orders = np.stack([action(a, self.world.contract), action(b, self.world.contract)])
        for _ in range(times):
            self.world.step(np.broadcast_to(orders, (self.world.num_fights, *orders.shape)))
            orders = np.zeros_like(orders)

    def pid(self, first: int) -> None:
        """Lets seat ``first`` be processed first, from now on."""
        self.world.state["pid"] = [0.25, 0.75] if first == 0 else [0.75, 0.25]
        self.world.state["pid_countdown"] = NEVER

    def place(self, dx: int, dy: int = 0) -> None:
        """Places B this far east and north of A; both stand still and know the tile of the other."""
        self.put(self.a, 3060, 3540)
        self.put(self.b, 3060 + dx, 3540 + dy)
        for me, foe in ((self.a, self.b), (self.b, self.a)):
            me["last_x"], me["last_y"] = foe["x"], foe["y"]

    @staticmethod
    def put(seat: Any, x: int, y: int) -> None:
        """Places a seat on a tile, standing still."""
        seat["x"] = seat["goal_x"] = x
        seat["y"] = seat["goal_y"] = y
        seat["walking"] = seat["moving"] = 0

    def wear(self, seat: Any, *names: str) -> None:
        """Lets a seat wear exactly these items; its inventory stays as it is."""
        seat["worn"] = NO_ITEM
        for name in names:
            seat["worn"][:, items.SLOT[item_named(name)]] = item_named(name)
        sum_bonuses(seat)

    def strike(self, special: bool = False, spell: int = 0) -> None:
        """Lets A attack B in this tick with its wielded weapon, without any order."""
        self.a["targeting"] = 1
        self.a["special_on"] = int(special)
        self.a["spell"] = spell
        self.tick()

    def make_ready(self) -> None:
        """A's attack timer has run out."""
        self.a["timer"][:, ATTACK_TIMER] = 0

    def make_certain(self) -> None:
        """A's rolls always beat B's, until either of them changes gear."""
        self.a["bonus"][:, : RANGED_ATTACK + 1] = SURE
        self.b["bonus"][:, STAB_DEFENCE : RANGED_DEFENCE + 1] = HOPELESS

    def make_hopeless(self) -> None:
        """A always misses, until it changes gear."""
        self.a["bonus"][:, : RANGED_ATTACK + 1] = HOPELESS

    def carry(self, seat: Any, *names: str) -> None:
        """The inventory holds exactly these items, in its first slots."""
        seat["inventory"] = NO_ITEM
        seat["inventory"][:, : len(names)] = [item_named(name) for name in names]

    def give_set(self, seat: Any, gear_set: int, *names: str) -> None:
        """Replaces a gear set of the loadout by these items; nothing is worn or carried yet."""
        seat["gear_set"][:, gear_set] = NO_ITEM
        seat["gear_set"][:, gear_set, : len(names)] = [item_named(name) for name in names]
        seat["set_length"][:, gear_set] = len(names)

    def hitpoints(self, seat: Any) -> int:
        """HP of the only fight's seat."""
        return one(seat["level"][:, HITPOINTS])

    @property
    def outcomes(self) -> list[int]:
        """The outcomes of the first fight's seats."""
        return [int(outcome) for outcome in self.world.outcome[0]]


def one(values: Any) -> int:
    """The value that all fights agree on."""
    distinct = np.unique(values)
    assert distinct.size == 1, f"fights differ: {distinct}"
    return int(distinct[0])


def sum_bonuses(seat: Any) -> None:
    """Bonus sums over what is worn; a thrown weapon leaves the ammunition out (mechanics.md §15)."""
    worn = seat["worn"]
    weapon_class = items.WEAPON_CLASS[worn[:, WEAPON]]
    thrown = (worn[:, WEAPON] != NO_ITEM) & (items.CLASS_THROWN[weapon_class] == 1)
    counts = worn != NO_ITEM
    counts[:, AMMO] &= ~thrown
    seat["bonus"] = (items.BONUSES[worn] * counts[:, :, None]).sum(axis=1)


def pending(seat: Any, count: int) -> NDArray[np.int64]:
    """Totals (N, count) of the hits on their way to a seat, which must be that many in every fight."""
    assert one(seat["num_hits"]) == count
    totals: NDArray[np.int64] = seat["hit_total"][:, :count].copy()
    return totals


def worn_names(seat: Any) -> set[str]:
    """The items that the only fight's seat wears."""
    return {items.ITEM_NAMES[item] for item in seat["worn"][0] if item != NO_ITEM}


def carried_names(seat: Any) -> list[str]:
    """The items that the only fight's seat carries, in the order of the slots."""
    return [items.ITEM_NAMES[item] for item in seat["inventory"][0] if item != NO_ITEM]
