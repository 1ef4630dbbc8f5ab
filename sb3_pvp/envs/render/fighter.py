"""A fighter in one tick, and what has to be known about a contract to draw its fighters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.contract import Contract
from sb3_pvp.world import Style

RESET = "\033[0m"
COLORS = {"red": "\033[31m", "green": "\033[32m", "yellow": "\033[33m", "blue": "\033[34m", "cyan": "\033[36m"}
STYLE_COLORS = {Style.MELEE: "red", Style.RANGED: "green", Style.MAGIC: "blue"}
STYLE_NAMES = {Style.NONE: "none", Style.MELEE: "melee", Style.RANGED: "ranged", Style.MAGIC: "magic"}


@dataclass(frozen=True)
class Fighter:
    """One seat in one tick.

    Attributes:
        name: shown above its column.
        observation: float32 ``(D,)``, by the ids of ``contract``.
        meta: one `sb3_pvp.world.META_DTYPE` record.
        actions: ints ``(heads,)``, what it chose; ``None`` if that is unknown (the world's bot, or no tick played yet).
    """

    name: str
    contract: Contract
    observation: NDArray[np.float32]
    meta: np.void
    actions: NDArray[np.int64] | None = None

    def see(self, observation: str) -> float:
        """The value of an observation by id."""
        return float(self.observation[self.contract.observation_index(observation)])


class Paint:
    """Colours text, or leaves it alone."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, text: str, color: str | None) -> str:
        return f"{COLORS[color]}{text}{RESET}" if self._color and color and text else text


@dataclass(frozen=True)
class Look:
    """How the fighters of a contract are drawn, where observations differ.

    Attributes:
        base_level: of one of the skills attack, strength, defence, ranged, magic, hitpoints and prayer.
        special_energy: full at 1.
        stance: what it wields and wears, and how it prays.
        conditions: what it waits for, and what is on it.
        can_melee: it stands where it can.
        potions: observations of doses, and what they are called.
    """

    base_level: Callable[[Fighter, str], float]
    special_energy: Callable[[Fighter], float]
    stance: Callable[[Fighter, Paint], str]
    conditions: Callable[[Fighter, Paint], list[str]]
    can_melee: Callable[[Fighter], bool]
    potions: tuple[tuple[str, str], ...]
