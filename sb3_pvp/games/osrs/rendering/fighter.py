"""The data of a fighter in one tick, and where a contract's observations contain what rendering needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import Contract
from sb3_pvp.games.osrs.meta_fields import Style

STYLE_NAMES = {Style.NONE: "none", Style.MELEE: "melee", Style.RANGED: "ranged", Style.MAGIC: "magic"}
#: The skills whose levels change in a fight, besides hitpoints and prayer.
SKILLS = ("attack", "strength", "defence", "ranged", "magic")


@dataclass(frozen=True)
class ShownFighter:
    """One seat in one tick.

    Attributes:
        name: of the player.
        contract: of the game.
        observation: float32 ``(D,)``.
        meta: a record of `sb3_pvp.games.osrs.meta_fields.META_DTYPE`.
        actions: ints ``(heads,)``; ``None`` if unknown (for the world's bot, and before the first tick).
        mask: that applied to the actions, bool ``(A,)``; ``None`` if unknown.
    """

    name: str
    contract: Contract
    observation: NDArray[np.float32]
    meta: np.void
    actions: NDArray[np.int64] | None = None
    mask: NDArray[np.bool_] | None = None

    def see(self, observation: str) -> float:
        """Returns the value of an observation."""
        return float(self.observation[self.contract.observation_index(observation)])

    def sees(self, observation: str) -> bool:
        """Returns whether an observation is positive; false for the empty id, which stands for a missing one."""
        return bool(observation) and self.see(observation) > 0

    def count(self, observation: str) -> int:
        """Returns an observation as an integer; 0 for the empty id."""
        return round(self.see(observation)) if observation else 0


@dataclass(frozen=True)
class ObservationMap:
    """The ids of the observations that rendering reads; an empty id stands for one that the contract lacks.

    Attributes:
        base_levels: by skill, the observation of the base level, or the level itself.
        full_energy: the observed value of full special energy.
        food, potions: the observed numbers of pieces and doses, by name.
        waits: by activity, the observed waiting time, and the ticks that a value of 1 stands for.
        vengeance: see `sb3_pvp.games.osrs.rendering.scene.FighterScene`, as for the other ids.
        overheads: by overhead prayer, if the game has any.
        weapons: by weapon, if the contract distinguishes weapons of one style.
    """

    base_levels: Mapping[str, str | int]
    full_energy: float
    food: Mapping[str, str]
    potions: Mapping[str, str]
    waits: Mapping[str, tuple[str, float]]
    vengeance: str
    overheads: Mapping[str, str] = field(default_factory=dict)
    weapons: Mapping[str, str] = field(default_factory=dict)
    special_weapon: str = ""
    armor_off: str = ""
    freeze_immunity: str = ""
    can_melee: str = ""
    moving: str = ""
    next_hit: str = ""

    def base_level(self, fighter: ShownFighter, skill: str) -> int:
        """Returns a fighter's level without boosts and drains."""
        level = self.base_levels[skill]
        return level if isinstance(level, int) else fighter.count(level)

    def weapon(self, fighter: ShownFighter) -> str:
        """Returns the wielded weapon; empty if the contract only has its style."""
        wielded = [name for name, observation in self.weapons.items() if fighter.sees(observation)]
        return wielded[0] if wielded else ""

    def overhead(self, fighter: ShownFighter) -> str | None:
        """Returns the active overhead prayer or ``"none"``; ``None`` in games without overhead prayers."""
        active = [name for name, observation in self.overheads.items() if fighter.sees(observation)]
        return active[0] if active else "none" if self.overheads else None
