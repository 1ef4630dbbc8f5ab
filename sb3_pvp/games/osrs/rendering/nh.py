"""The observations of NhEnv that rendering reads (contract.md §4)."""

from __future__ import annotations

from sb3_pvp.games.osrs.rendering.fighter import ObservationMap

OBSERVATION_MAP = ObservationMap(
    base_levels={
        "attack": "absolute_attack_level",
        "strength": "absolute_strength_level",
        "defence": "absolute_defense_level",
        "ranged": "absolute_ranged_level",
        "magic": "absolute_magic_level",
        "hitpoints": "absolute_hitpoints_level",
        "prayer": "absolute_prayer_level",
    },
    full_energy=100.0,  # percent
    # Without sharks, which NhEnv does not count, see `SeatFacts.uncounted_food`.
    food={"anglerfish": "food_count", "karambwan": "karambwan_count"},
    potions={
        "brew": "brew_doses",
        "restore": "super_restore_doses",
        "combat": "combat_potion_doses",
        "ranging": "range_potion_doses",
    },
    waits={
        "attack": ("attack_cycle_ticks", 1),
        "food": ("food_cycle_ticks", 1),
        "karambwan": ("karambwan_cycle_ticks", 1),
        "potion": ("potion_cycle_ticks", 1),
        "vengeance": ("player_veng_cooldown_ticks", 1),
    },
    vengeance="is_veng_active",
    overheads={prayer: f"player_{prayer}_prayer" for prayer in ("melee", "ranged", "magic", "smite", "redemption")},
    special_weapon="player_spec_equipped",
    freeze_immunity="player_frozen_immunity_ticks",
    can_melee="player_location_can_melee",
    moving="player_is_moving",
    next_hit="ticks_until_hit_on_player",
)

#: The opponent, as the observations of a seat show it; its hitpoints in shares of the own base level.
TARGET_MAP = ObservationMap(
    base_levels={"hitpoints": "absolute_hitpoints_level"},
    full_energy=100.0,
    food={},
    potions={},
    waits={
        "attack": ("target_attack_cycle_ticks", 1),
        "food": ("target_potion_cycle_ticks", 1),  # sic, see the contract
        "vengeance": ("target_veng_cooldown_ticks", 1),
    },
    vengeance="is_target_veng_active",
    overheads={prayer: f"target_{prayer}_prayer" for prayer in ("melee", "ranged", "magic", "smite", "redemption")},
    special_weapon="target_spec_equipped",
    freeze_immunity="target_frozen_immunity_ticks",
    can_melee="player_location_can_melee",
    moving="target_is_moving",
    next_hit="ticks_until_hit_on_target",
)
