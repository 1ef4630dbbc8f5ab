"""The observations of DharokEnv that rendering reads (contract.md §6)."""

from __future__ import annotations

from sb3_pvp.games.osrs.rendering.fighter import SKILLS, ObservationMap

BASE_LEVEL = 99  #: Of every skill (loadouts.md §6).

OBSERVATION_MAP = ObservationMap(
    base_levels=dict.fromkeys((*SKILLS, "hitpoints", "prayer"), BASE_LEVEL),
    full_energy=1.0,  # a share, unlike in NhEnv
    food={"anglerfish": "food_count", "karambwan": "karambwan_count"},
    potions={"brew": "brew_doses", "restore": "super_restore_doses", "combat": "combat_potion_doses"},
    waits={  # observed as a share of these ticks (contract.md §6.4)
        "attack": ("attack_cycle_ticks", 6),
        "food": ("food_cycle_ticks", 2),
        "karambwan": ("karambwan_cycle_ticks", 2),
        "potion": ("potion_cycle_ticks", 2),
    },
    vengeance="player_has_veng_cast",
    weapons={"tentacle": "player_using_whip", "greataxe": "player_using_axe", "maul": "player_using_maul"},
    armor_off="player_armor_unequipped",
)

#: The opponent, as the observations of a seat show it.
TARGET_MAP = ObservationMap(
    base_levels={"hitpoints": BASE_LEVEL},
    full_energy=1.0,
    food={},
    potions={},
    waits={"attack": ("target_attack_cycle_ticks", 6), "food": ("target_potion_cycle_ticks", 2)},  # sic, food
    vengeance="target_has_veng_cast",
    weapons={"tentacle": "target_using_whip", "greataxe": "target_using_axe", "maul": "target_using_maul"},
    armor_off="target_armor_unequipped",
)
