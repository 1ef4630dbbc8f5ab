"""Habits of a player of the NH fight, as the cards of fighters show them, from what it saw and did."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import Contract

#: Ticks that are waited for a prayer; who needs longer, or never does it, counts as so many.
LONGEST = 10
_STYLES = ("melee", "ranged", "mage")
_PRAYERS = ("melee", "ranged", "magic")


def habits(
    contract: Contract, observations: NDArray[np.float32], actions: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """Returns measurements of a fight by what they are of; some fights have none of a kind.

    Args:
        contract: of the game.
        observations: before each tick, ``(T, D)``.
        actions: ``(T, heads)``.
    """

    def seen(name: str) -> NDArray[np.float32]:
        return observations[:, contract.observation_index(name)]

    def did(name: str) -> NDArray[np.bool_]:
        head, choice = contract.action_index(name)
        return np.asarray(actions[:, head] == choice)

    wielded = np.stack([seen(f"target_using_{style}") for style in _STYLES], 1) > 0
    prayed = np.stack([seen(f"player_{prayer}_prayer") for prayer in _PRAYERS], 1) > 0
    chosen = np.stack([did(f"{style.replace('magic', 'mage')}_prayer") for style in _PRAYERS], 1)
    prays = chosen.any(1)
    ate = did("eat_primary_food") | did("eat_karambwan") | did("use_brew")
    special = did("melee_special_attack") | did("ranged_special_attack") | did("use_magic_spec")
    found: dict[str, Any] = {
        "ticks until a prayer suits a new style": _reactions(wielded, prayed | chosen),
        "share of chosen prayers that suit what is wielded": [np.mean((wielded & chosen)[prays].any(1))]
        if prays.any()
        else [],
        "health at which it eats": seen("player_health_percent")[ate],
        "meals in 100 ticks": [100 * np.mean(ate)],
        "special attacks in 100 ticks": [100 * np.mean(special)],
    }
    return {name: np.asarray(values, np.float64) for name, values in found.items()}


def _reactions(wielded: NDArray[np.bool_], prayed: NDArray[np.bool_]) -> list[int]:
    """Returns the ticks from each change of the opponent's style until the prayer against it, if it is not on yet."""
    styles, found = wielded.argmax(1), list[int]()
    for tick in np.flatnonzero((styles[1:] != styles[:-1]) & wielded[1:].any(1)) + 1:
        own = prayed[tick : tick + LONGEST, styles[tick]]
        if not own[0]:
            found.append(int(own.argmax()) if own.any() else LONGEST)
    return found
