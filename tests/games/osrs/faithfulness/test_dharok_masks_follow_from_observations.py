"""The masks of every recorded Dharok reply follow from its observation, in rules written a second time.

Free inventory slots are not on the wire, but follow: the inventory starts full, food that is gone leaves a slot,
armour that is taken off takes two, and a two-handed weapon one (for the shield).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.games.osrs.faithfulness.dharok_recordings import CONTRACT, Recording, load

RECORDINGS = [recording for recording, _ in load()]
ANGLERFISH, ANGLERFISH_OF_BOT, KARAMBWANS = 14, 17, 3
BASE, BOOSTED, BREW_DEFENCE = 99, 118, 119

Column = NDArray[np.float64]
Bits = NDArray[np.bool_]


def proven(see: Callable[[str], Column], anglerfish: int) -> dict[str, Bits]:
    """Every mask bit of these ticks by name."""
    ready = see("attack_cycle_ticks") == 0
    hitpoints = np.round(see("player_health_percent") * BASE)
    attack, strength, defence = (np.round(see(f"{name}_level") * BOOSTED) for name in ("attack", "strength", "defense"))
    lowest = np.minimum(np.minimum(attack, strength), defence)
    two_handed = see("player_using_axe") + see("player_using_maul")
    armour_off = see("player_armor_unequipped") > 0
    eaten = anglerfish - see("food_count") + KARAMBWANS - see("karambwan_count")
    free = eaten - 2 * armour_off - two_handed
    both_hands = (free > 0) | (two_handed > 0)
    drinks = see("potion_cycle_ticks") == 0
    always = np.ones(len(ready), bool)
    return {
        "no_op_attack": ~ready,
        "whip_attack": ready,
        "axe_attack": ready & both_hands,
        "maul_spec_attack": both_hands & (see("special_energy_percent") >= 0.5),
        "no_potion": always,
        "use_brew": drinks & (see("brew_doses") > 0) & ((defence < BREW_DEFENCE) | (hitpoints <= BASE)),
        "use_restore_potion": drinks
        & (see("super_restore_doses") > 0)
        & ((lowest < BASE) | (see("prayer_points") < 1)),
        "use_combat_potion": drinks & (see("combat_potion_doses") > 0) & (lowest + 1 < BOOSTED),
        "dont_eat_food": always,
        "eat_primary_food": (see("food_cycle_ticks") == 0) & (see("food_count") > 0) & (hitpoints <= BASE),
        "dont_karambwan": always,
        "eat_karambwan": (see("karambwan_cycle_ticks") == 0) & (see("karambwan_count") > 0) & (hitpoints < BASE),
        "no_veng": always,
        "use_veng": see("player_veng_available") > 0,
        "no_gear": always,
        "full_armor": always,
        "take_armor_off": armour_off | (free >= 2),
    }


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("recording", RECORDINGS, ids=[recording.name for recording in RECORDINGS])
def test_recorded_masks(recording: Recording, seat: int) -> None:
    rows = recording.obs_known[:, seat]
    obs, masks = recording.obs[rows, seat].astype(float), recording.masks[rows, seat]
    is_bot = recording.against_bot and seat == 1
    bits = proven(lambda name: obs[:, CONTRACT.observation_index(name)], ANGLERFISH_OF_BOT if is_bot else ANGLERFISH)
    assert len(bits) == CONTRACT.num_flat_actions
    for name, expected in bits.items():
        wrong = np.flatnonzero(masks[:, CONTRACT.flat_index(name)] != expected)
        assert not wrong.size, f"{name} in rows {wrong[:10]}"
