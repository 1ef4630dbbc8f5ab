"""The meta record that a world reports for each seat after a tick (protocol.md §4).

The embedded world and the remote one fill the same record, so rewards and metrics work on both.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

#: Every build, random gear and fight types: the widest mix of fights, under the names of the wire (protocol.md §3).
RANDOMISED = {
    "randomizeBuild": True,
    "randomBuildOptions": ["PURE", "ZERKER", "MED", "MAXED", "LMS_PURE", "LMS_ZERKER", "LMS_MED"],
    "randomizeGear": True,
    "randomizeFightType": True,
}


class Style(IntEnum):
    """A combat style; `NONE` where no style (or no protection prayer) applies."""

    NONE = -1
    MELEE = 0
    RANGED = 1
    MAGIC = 2


def _scales(*names: str) -> list[tuple[str, str]]:
    return [(name, "f4") for name in names]


#: The fields of protocol.md §4 in snake_case. A ``*_present`` flag says whether the fields of its group, which the wire
#: leaves out if they have no value, hold one. Styles and prayers are `Style` numbers.
META_DTYPE = np.dtype(
    [
        ("episode_ticks", "i4"),
        *_scales("current_health_percent", "current_target_health_percent", "current_prayer_percent"),
        *_scales("damage_dealt", "damage_received"),
        *_scales("damage_generated_on_target_scale", "damage_generated_on_player_scale"),
        *_scales("extra_damage_dealt_on_target_scale", "extra_damage_dealt_on_player_scale"),
        # An attack of this seat was calculated this tick (the last one counts).
        ("hit_present", "?"),
        ("attack_type_hit", "i1"),
        ("hit_off_prayer", "?"),
        ("hit_with_smite", "?"),
        ("player_hit_attack_speed", "i1"),
        ("target_prayer_type", "i1"),
        # An attack on this seat was calculated this tick (the last one counts).
        ("received_present", "?"),
        ("attack_type_received", "i1"),
        ("protected_prayer", "?"),
        ("target_attacked_with_smite", "?"),
        ("target_hit_attack_speed", "i1"),
        ("player_prayer_type", "i1"),
        ("player_attack_style_type", "i1"),
        ("target_attack_style_type", "i1"),
        ("current_player_prayer_type", "i1"),
        ("current_target_prayer_type", "i1"),
        *_scales("attack_level_scale", "strength_level_scale", "defence_level_scale"),
        *_scales("ranged_level_scale", "magic_level_scale"),
        ("distance", "f4"),
        ("player_frozen_ticks", "i4"),
        ("target_frozen_ticks", "i4"),
        ("food_count", "i4"),
        ("target_food_count", "i4"),
        *_scales("remaining_food_scale", "target_remaining_food_scale"),
        *_scales("remaining_brew_scale", "target_remaining_brew_scale"),
        # Food was eaten (or tried) this tick.
        ("eat_food_present", "?"),
        *_scales("eat_at_food_scale", "eat_to_food_scale", "eaten_food_scale"),
        ("wasted_food_present", "?"),
        *_scales("wasted_food_scale"),
        # A brew was drunk this tick.
        ("eat_brew_present", "?"),
        *_scales("eat_at_brew_scale", "eat_to_brew_scale"),
        ("wasted_brew_present", "?"),
        *_scales("wasted_brew_scale"),
        *_scales("player_healed_scale", "target_healed_scale"),
    ]
)

#: The same records as plain bytes, which NumPy copies ten times as fast as records: those it copies field by field.
META_BYTES = np.dtype((np.void, META_DTYPE.itemsize))

#: flag: the fields of its group, which hold no value and are left out on the wire unless the flag is set.
OPTIONAL_FIELDS = {
    "hit_present": (
        "attack_type_hit",
        "hit_off_prayer",
        "hit_with_smite",
        "player_hit_attack_speed",
        "target_prayer_type",
    ),
    "received_present": (
        "attack_type_received",
        "protected_prayer",
        "target_attacked_with_smite",
        "target_hit_attack_speed",
        "player_prayer_type",
    ),
    "eat_food_present": ("eat_at_food_scale", "eat_to_food_scale", "eaten_food_scale"),
    "wasted_food_present": ("wasted_food_scale",),
    "eat_brew_present": ("eat_at_brew_scale", "eat_to_brew_scale"),
    "wasted_brew_present": ("wasted_brew_scale",),
}

#: Fields that hold a `Style`. If there is none, current prayers are the string "null" on the wire; others are left out.
STYLE_FIELDS = {
    *("attack_type_hit", "attack_type_received", "target_prayer_type", "player_prayer_type"),
    *("player_attack_style_type", "target_attack_style_type"),
    *("current_player_prayer_type", "current_target_prayer_type"),
}
STYLE_NAMES = {style.value: style.name for style in Style} | {Style.NONE.value: "null"}


def camel_case(name: str) -> str:
    """Returns the wire's name of a snake_case field."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
