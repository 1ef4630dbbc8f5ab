"""The two fighters whose fights were recorded, for many fights at once.

The random fighter takes any legal action; the scripted one attacks where the opponent does not protect itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract

CONTRACT = load_contract("NhEnv")
ATTACK, POTION, FOOD, KARAMBWAN, GEAR, PRAYER = (
    CONTRACT.head_index(name) for name in ("attack", "potion", "food", "karambwan", "gear", "prayer")
)
#: The scripted fighter's attacks: sub-action of the attack head, of the style's own head, and the prayer against it.
SIMPLE_ATTACKS = (
    ("mage_attack", "use_ice_spell", "target_magic_prayer"),
    ("ranged_attack", "basic_ranged_attack", "target_ranged_prayer"),
    ("melee_attack", "basic_melee_attack", "target_melee_prayer"),
)
#: The scripted fighter's potions in order: below which share of what, which sub-action.
REFILLS = (
    (0.6, "prayer_points", "use_restore_potion"),
    (0.95, "ranged_level", "use_ranged_potion"),
    (0.95, "strength_level", "use_combat_potion"),
)

Obs = NDArray[np.float32]
Masks = NDArray[np.bool_]
Actions = NDArray[np.int64]


def requirements() -> tuple[Actions, Actions]:
    """Per flat action: the flat action that must be chosen, and the one that must not (-1: none)."""
    needed, banned = np.full((2, CONTRACT.num_flat_actions), -1)
    for flat, action in enumerate(action for head in CONTRACT.heads for action in head.actions):
        assert len(action.require_all) <= 1 and not action.require_any and len(action.require_none) <= 1
        for table, names in ((needed, action.require_all), (banned, action.require_none)):
            for name in names:
                table[flat] = CONTRACT.flat_index(name)
    return needed, banned


NEEDED, BANNED = requirements()


def choose_among(allowed: Masks, rng: np.random.Generator) -> Actions:
    """One allowed column per row, uniformly; column 0 where none is allowed."""
    scores = np.where(allowed, rng.random(allowed.shape), -1.0)
    return np.where(allowed.any(axis=1), scores.argmax(axis=1), 0)


def random_fighter(obs: Obs, masks: Masks, rng: np.random.Generator) -> Actions:
    """Head after head, uniform over what masks and dependencies allow; ``(n, heads)``."""
    chosen = np.zeros((len(masks), CONTRACT.num_flat_actions + 1), bool)  # the last column stands for "none"
    actions = np.zeros((len(masks), CONTRACT.num_heads), np.int64)
    for head, size in enumerate(CONTRACT.head_sizes):
        start = CONTRACT.flat_offset(head)
        part = slice(start, start + size)
        fits = (chosen[:, NEEDED[part]] | (NEEDED[part] < 0)) & ~chosen[:, BANNED[part]]
        actions[:, head] = choose_among(masks[:, part] & fits, rng)
        chosen[np.arange(len(masks)), start + actions[:, head]] = True
    return actions


def scripted_fighter(obs: Obs, masks: Masks, rng: np.random.Generator) -> Actions:
    """Attacks past the opponent's prayer, eats and drinks when low, prays against what the opponent wields."""
    actions = np.zeros((len(masks), CONTRACT.num_heads), np.int64)
    _attack(actions, obs, masks, rng)
    for bound, entry, potion in reversed(REFILLS):
        low = (obs[:, CONTRACT.observation_index(entry)] < bound) & masks[:, CONTRACT.flat_index(potion)]
        actions[low, POTION] = CONTRACT.action_index(potion)[1]
    health = obs[:, CONTRACT.observation_index("player_health_percent")]
    actions[:, FOOD] = (health < 0.6) & masks[:, CONTRACT.flat_index("eat_primary_food")]
    actions[:, KARAMBWAN] = (health < 0.4) & masks[:, CONTRACT.flat_index("eat_karambwan")]
    actions[:, GEAR] = (actions[:, ATTACK] == 0) & masks[:, CONTRACT.flat_index("use_tank_gear")]
    _pray(actions, obs, masks)
    return actions


def _attack(actions: Actions, obs: Obs, masks: Masks, rng: np.random.Generator) -> None:
    ready = ~masks[:, CONTRACT.flat_index("no_op_attack")]
    flats = [[CONTRACT.flat_index(name) for name in names[:2]] for names in SIMPLE_ATTACKS]
    available = np.stack([masks[:, flat].all(axis=1) & ready for flat in flats], axis=1)
    guarded = np.stack([obs[:, CONTRACT.observation_index(names[2])] != 0 for names in SIMPLE_ATTACKS], axis=1)
    open_ones = available & ~guarded
    candidates = np.where(open_ones.any(axis=1, keepdims=True), open_ones, available)
    choice = choose_among(candidates, rng)
    for number, (style, detail, _) in enumerate(SIMPLE_ATTACKS):
        rows = candidates.any(axis=1) & (choice == number)
        for name in (style, detail):
            head, index = CONTRACT.action_index(name)
            actions[rows, head] = index


def _pray(actions: Actions, obs: Obs, masks: Masks) -> None:
    wields_melee, wields_ranged = (
        obs[:, CONTRACT.observation_index(f"target_using_{style}")] != 0 for style in ("melee", "ranged")
    )
    names = ("mage_prayer", "ranged_prayer", "melee_prayer")
    wanted = np.where(wields_melee, 2, np.where(wields_ranged, 1, 0))
    for number, name in enumerate(names):
        rows = (wanted == number) & masks[:, CONTRACT.flat_index(name)]
        actions[rows, PRAYER] = CONTRACT.action_index(name)[1]


FIGHTERS = {"random": random_fighter, "self": random_fighter, "scripted": scripted_fighter}
