"""A fighter in one tick as a world tells it, and what has to be known about a contract to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.games.osrs.report import Style

STYLE_NAMES = {Style.NONE: "none", Style.MELEE: "melee", Style.RANGED: "ranged", Style.MAGIC: "magic"}
#: The skills whose levels change in a fight, besides hitpoints and prayer.
SKILLS = ("attack", "strength", "defence", "ranged", "magic")


@dataclass(frozen=True)
class Fighter:
    """One seat in one tick.

    Attributes:
        name: of who plays.
        observation: float32 ``(D,)``, by the ids of ``contract``.
        meta: one `sb3_pvp.games.osrs.report.META_DTYPE` record.
        actions: ints ``(heads,)``, what it chose; ``None`` if that is unknown (the world's bot, or no tick played yet).
        mask: bool ``(A,)``, what it could choose from; ``None`` if that is unknown.
    """

    name: str
    contract: Contract
    observation: NDArray[np.float32]
    meta: np.void
    actions: NDArray[np.int64] | None = None
    mask: NDArray[np.bool_] | None = None

    def see(self, observation: str) -> float:
        """The value of an observation by id."""
        return float(self.observation[self.contract.observation_index(observation)])

    def sees(self, observation: str) -> bool:
        """Whether an observation is set; the empty id stands for one that the contract lacks."""
        return bool(observation) and self.see(observation) > 0

    def count(self, observation: str) -> int:
        """An observation that counts something; 0 for the empty id."""
        return round(self.see(observation)) if observation else 0


@dataclass(frozen=True)
class Look:
    """Where a contract's observations tell what is to see; an empty id stands for what they do not tell.

    Attributes:
        base_levels: by skill, the observation of the level, or the level itself.
        full_energy: what full special energy is observed as.
        overheads: observations by overhead prayer, if the game has any.
        weapons: observations by weapon, if the contract knows more than its style.
        food: observations of pieces by their names; ``potions``: of doses.
        waits: what a fighter has to wait for: the observation, and the ticks that 1 stands for in it.
        special_weapon: see `sb3_pvp.games.osrs.rendering.scene.FighterScene`, as for the following ones.
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

    def base_level(self, fighter: Fighter, skill: str) -> int:
        """The level that a fighter has by itself, without potions."""
        level = self.base_levels[skill]
        return level if isinstance(level, int) else fighter.count(level)

    def weapon(self, fighter: Fighter) -> str:
        """What it wields; empty if the contract only tells the style."""
        wielded = [name for name, observation in self.weapons.items() if fighter.sees(observation)]
        return wielded[0] if wielded else ""

    def overhead(self, fighter: Fighter) -> str | None:
        """Its overhead prayer; ``None`` in games without."""
        active = [name for name, observation in self.overheads.items() if fighter.sees(observation)]
        return active[0] if active else "none" if self.overheads else None
