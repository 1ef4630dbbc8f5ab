"""Scripted fighters (scripted-bots.md, part B), with true masks: they choose only what is possible."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract.turn import Turn

HUNGRY, STARVING = 0.6, 0.4  # health below which it eats, and below which a karambwan too
# (potion, observation, value below which it is drunk); 0.95 of a full boost.
_POTIONS = (
    ("use_restore_potion", "prayer_points", 0.6),
    ("use_ranged_potion", "ranged_level", 0.95),
    ("use_combat_potion", "strength_level", 0.95),
)
_ATTACKS = (  # (style, kind, the prayer that protects against it)
    ("mage_attack", "use_ice_spell", "target_magic_prayer"),
    ("ranged_attack", "basic_ranged_attack", "target_ranged_prayer"),
    ("melee_attack", "basic_melee_attack", "target_melee_prayer"),
)
_RANGED = 1  # its column in `_ATTACKS`
SHOWN_TICKS = 2  # how long a switcher shows the weapon of its next attack


def _stayalive(turn: Turn) -> None:
    """Shoots, and eats below 60 % of its health (B.2)."""
    shoot = turn.can("ranged_attack") & turn.can("basic_ranged_attack")
    turn.choose("ranged_attack", shoot)
    turn.choose("basic_ranged_attack", shoot)
    turn.choose("eat_primary_food", (turn.see("player_health_percent") < HUNGRY) & turn.can("eat_primary_food"))


def _scripted(turn: Turn) -> None:
    """Eats, drinks, prays against the wielded weapon and attacks off-prayer at random (B.3)."""
    _eat(turn)
    _drink(turn)
    for style in ("mage", "ranged", "melee"):
        turn.choose(f"{style}_prayer", (turn.see(f"target_using_{style}") > 0) & turn.can(f"{style}_prayer"))
    _attack(turn)


def _eat(turn: Turn) -> None:
    health = turn.see("player_health_percent")
    primary = turn.can("eat_primary_food")
    turn.choose("eat_primary_food", (health < HUNGRY) & primary)
    hungry = (health < STARVING) | ((health < HUNGRY) & ~primary)
    turn.choose("eat_karambwan", hungry & turn.can("eat_karambwan"))


def _drink(turn: Turn) -> None:
    """Drinks the first potion that is needed and available."""
    undecided = np.ones(len(turn.chance), bool)
    for potion, level, threshold in _POTIONS:
        drink = undecided & (turn.see(level) < threshold) & turn.can(potion)
        turn.choose(potion, drink)
        undecided &= ~drink


def _attack(turn: Turn) -> None:
    """Attacks in a random style that is available and not protected against, or else with ranged."""
    available = np.stack([turn.can(style) & turn.can(kind) for style, kind, _ in _ATTACKS], axis=1)
    unprotected = np.stack([turn.see(prayer) == 0 for *_, prayer in _ATTACKS], axis=1)
    candidates = available & unprotected
    candidates[:, _RANGED] |= available[:, _RANGED] & ~candidates.any(axis=1)
    # The n-th candidate of a row, n uniform: `position` counts candidates from the left.
    wanted = np.floor(turn.chance * candidates.sum(axis=1)) + 1
    position = candidates.cumsum(axis=1)
    for column, (style, kind, _) in enumerate(_ATTACKS):
        chosen = candidates[:, column] & (position[:, column] == wanted)
        turn.choose(style, chosen)
        turn.choose(kind, chosen)


def _switcher(turn: Turn) -> None:
    """Attacks in a random style, whose weapon it wields two ticks before if the rules let it; eats.

    A human learns from it to pray against what it wields.
    """
    _eat(turn)
    wielded = np.stack([turn.see(f"player_using_{style}") for style in ("mage", "ranged", "melee")]).argmax(axis=0)
    style = np.where(turn.see("attack_cycle_ticks") == SHOWN_TICKS, _drawn(turn), wielded)
    for number, (attack, kind, _) in enumerate(_ATTACKS):
        attacks = (style == number) & turn.can(attack) & turn.can(kind)
        turn.choose(attack, attacks)
        turn.choose(kind, attacks)


def _guard(turn: Turn) -> None:
    """Changes its protection prayer at random, once in four ticks; eats, and does not attack."""
    _eat(turn)
    prays = np.sum([turn.see(f"player_{name}_prayer") for name in ("magic", "ranged", "melee")], axis=0) > 0
    changes = ~prays | (turn.chance * 3 % 1 < 1 / 4)  # whichever of the three is drawn
    for number, style in enumerate(("mage", "ranged", "melee")):
        turn.choose(f"{style}_prayer", changes & (_drawn(turn) == number) & turn.can(f"{style}_prayer"))


def _drawn(turn: Turn) -> NDArray[np.float64]:
    """Returns the number of a style, uniform."""
    return np.floor(turn.chance * len(_ATTACKS))


SCRIPTS: dict[str, Callable[[Turn], None]] = {
    "stayalive": _stayalive,
    "scripted": _scripted,
    "switcher": _switcher,
    "guard": _guard,
}
