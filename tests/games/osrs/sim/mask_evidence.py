"""The masks that an observation proves, written a second time, in plain Python.

Free inventory slots are not on the wire, so attacks with two-handed weapons are proven only when impossible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract

CONTRACT = load_contract("NhEnv")

#: A bit that the observation does not prove.
UNKNOWN = None
Proof = bool | None

RANGED_SPECIAL_COSTS = {
    "is_ranged_spec_weapon_zaryte_cbow": 75,
    "is_ranged_spec_weapon_ballista": 65,
    "is_ranged_spec_weapon_morrigans_javelin": 50,
    "is_ranged_spec_weapon_dragon_knife": 25,
    "is_ranged_spec_weapon_dark_bow": 55,
}
ARMADYL_CROSSBOW_COST = 50
#: cost, two-handed
MELEE_SPECIALS = {
    "is_melee_spec_dclaws": (50, True),
    "is_melee_spec_dds": (25, False),
    "is_melee_spec_ags": (50, True),
    "is_melee_spec_vls": (25, False),
    "is_melee_spec_stat_hammer": (35, False),
    "is_melee_spec_ancient_godsword": (50, True),
    "is_melee_spec_gmaul": (50, True),
}
DEFAULTS = {
    "onlySwitchPrayerWhenAboutToAttack": True,
    "onlySwitchGearWhenAttackSoon": True,
    "allowSmite": True,
    "allowRedemption": True,
    "allowMovingIfCanAttack": False,
}


def both(*proofs: Proof) -> Proof:
    """Logical and of proofs: one False settles it, otherwise everything has to be known."""
    if any(proof is False for proof in proofs):
        return False
    return UNKNOWN if any(proof is UNKNOWN for proof in proofs) else True


def either(*proofs: Proof) -> Proof:
    """Logical or of proofs."""
    if any(proof is True for proof in proofs):
        return True
    return UNKNOWN if any(proof is UNKNOWN for proof in proofs) else False


@dataclass
class Evidence:
    """One observation (176 numbers), the reset parameters, and what the meta record adds: tiles and kinds of food."""

    values: NDArray[Any]
    params: dict[str, Any]
    tiles: int
    food_kinds: int

    def __getitem__(self, name: str) -> float:
        return float(self.values[CONTRACT.observation_index(name)])

    def has(self, name: str) -> bool:
        return self[name] != 0

    def allows(self, parameter: str) -> bool:
        value = self.params.get(parameter, DEFAULTS[parameter])
        return value in (True, "true")

    def base(self, skill: str) -> int:
        return round(self[f"absolute_{skill}_level"])

    def boost(self, skill: str) -> int:
        return int(0.1 * self.base(skill)) + 4 if skill == "ranged" else int(0.15 * self.base(skill)) + 5

    def level(self, skill: str) -> int:
        highest = self.base(skill) + (0 if skill == "magic" else self.boost(skill))
        return round(self[f"{skill}_level"] * highest)

    @property
    def hitpoints(self) -> int:
        return round(self["player_health_percent"] * self.base("hitpoints"))

    @property
    def hurt(self) -> bool:
        return self.hitpoints < self.base("hitpoints")

    @property
    def ready(self) -> bool:
        return self["attack_cycle_ticks"] == 0

    @property
    def gear_ok(self) -> bool:
        return self.ready or not self.allows("onlySwitchGearWhenAttackSoon")

    @property
    def mobile(self) -> bool:
        return self["player_frozen_ticks"] == 0

    @property
    def energy(self) -> float:
        return self["special_energy_percent"]


def _spells(seen: Evidence) -> dict[str, Proof]:
    gear = ("accuracy", "strength", "gear_ranged_defence", "gear_mage_defence", "gear_melee_defence")
    has_set = any(seen.has(f"magic_{bonus}") for bonus in gear)
    ancient = not seen.has("is_player_lunar_spellbook") and has_set and seen.gear_ok
    staff = seen.has("is_mage_spec_weapon_nightmare_staff")
    return {
        "use_ice_spell": ancient and seen.level("magic") >= 58,
        "use_blood_spell": ancient and seen.level("magic") >= 56 and seen.hurt,
        "use_magic_spec": seen.gear_ok and staff and seen.energy >= 55,
    }


def _shots(seen: Evidence) -> dict[str, Proof]:
    two_handed = seen.has("is_ranged_spec_weapon_ballista") or seen.has("is_ranged_spec_weapon_dark_bow")
    basic = both(seen.gear_ok, UNKNOWN if two_handed else True)
    costs = [cost for name, cost in RANGED_SPECIAL_COSTS.items() if seen.has(name)]
    cost = costs[0] if costs else ARMADYL_CROSSBOW_COST
    pays = seen.has("is_ranged_spec_weapon_loadout") and seen.energy >= cost
    return {"basic_ranged_attack": basic, "ranged_special_attack": both(basic, pays)}


def _blows(seen: Evidence) -> dict[str, Proof]:
    reaches = seen.mobile or seen.has("player_location_can_melee")
    one_handed = seen["melee_attack_speed"] <= 5  # slower weapons of the loadouts mostly need both hands
    special: Proof = False
    for name, (cost, two_handed) in MELEE_SPECIALS.items():
        if seen.has(name):
            in_time = seen.gear_ok or name == "is_melee_spec_gmaul"
            special = both(in_time, reaches, seen.energy >= cost, UNKNOWN if two_handed else True)
    return {
        "basic_melee_attack": both(seen.gear_ok, reaches, True if one_handed else UNKNOWN),
        "melee_special_attack": special,
    }


def _attacks(seen: Evidence) -> dict[str, Proof]:
    bits = {**_spells(seen), **_shots(seen), **_blows(seen)}
    bits["no_op_attack"] = not seen.ready
    bits["mage_attack"] = either(bits["use_ice_spell"], bits["use_blood_spell"], bits["use_magic_spec"])
    bits["ranged_attack"] = either(bits["basic_ranged_attack"], bits["ranged_special_attack"])
    bits["melee_attack"] = either(bits["basic_melee_attack"], bits["melee_special_attack"])
    return bits


def _potions(seen: Evidence) -> dict[str, Proof]:
    free = seen["potion_cycle_ticks"] == 0
    fighting = ("attack", "strength", "defense")
    rises = {skill: seen.base(skill) + seen.boost(skill) > seen.level(skill) + 1 for skill in (*fighting, "ranged")}
    base = seen.base("defense")
    brew_helps = seen.level("defense") < base + int(2 + 0.2 * base) - 1 or seen.hitpoints <= seen.base("hitpoints")
    lowered = any(seen.level(skill) < seen.base(skill) for skill in (*fighting, "ranged", "magic"))
    return {
        "use_brew": free and seen["brew_doses"] > 0 and brew_helps,
        "use_restore_potion": free and seen["super_restore_doses"] > 0 and (lowered or seen["prayer_points"] < 1),
        "use_combat_potion": free and seen["combat_potion_doses"] > 0 and any(rises[skill] for skill in fighting),
        "use_ranged_potion": free and seen["range_potion_doses"] > 0 and rises["ranged"],
    }


def _food(seen: Evidence) -> dict[str, Proof]:
    sharks = seen.food_kinds - (seen["food_count"] > 0) - (seen["karambwan_count"] > 0) > 0
    exists = sharks or seen["food_count"] > 0
    assert seen.has("is_food_anglerfish") == (exists and not sharks)
    helps = seen.hurt if sharks else seen.hitpoints <= seen.base("hitpoints")
    return {
        "eat_primary_food": seen["food_cycle_ticks"] == 0 and exists and helps,
        "eat_karambwan": seen["karambwan_cycle_ticks"] == 0 and seen["karambwan_count"] > 0 and seen.hurt,
        "use_veng": seen["player_veng_cooldown_ticks"] == 0 and seen.has("is_player_lunar_spellbook"),
        "use_tank_gear": seen["target_attack_cycle_ticks"] == 0,
    }


def _movement(seen: Evidence) -> dict[str, Proof]:
    moves = seen.mobile and (seen.allows("allowMovingIfCanAttack") or not seen.ready)
    beside = seen.has("player_location_can_melee")
    bits: dict[str, Proof] = {
        "move_next_to_target": moves and not beside,
        "move_under_target": moves and seen["target_frozen_ticks"] > 0 and seen.tiles != 0,
        "move_to_farcast_tile": moves,
        "move_diagonal_to_target": moves and (beside or seen.tiles != 1),
    }
    for tiles in range(2, 8):
        bits[f"farcast_{tiles}_tiles"] = seen.tiles != tiles
    return bits


def _prayers(seen: Evidence) -> dict[str, Proof]:
    points = seen["prayer_points"] > 0
    target_ready = seen["target_attack_cycle_ticks"] == 0
    switches = points and (target_ready or not seen.allows("onlySwitchPrayerWhenAboutToAttack"))
    reached = seen.mobile or seen["target_frozen_ticks"] == 0 or seen.has("player_location_can_melee")
    normal = points and not seen.has("is_lms_restrictions")
    supplies = seen["food_count"] + seen["karambwan_count"] + seen["brew_doses"]
    threatened = seen["ticks_until_hit_on_player"] >= 0 or target_ready
    return {
        "no_op_prayer": False,
        "mage_prayer": switches and not seen.has("is_target_lunar_spellbook"),
        "ranged_prayer": switches,
        "melee_prayer": switches and reached,
        "smite_prayer": normal and seen.allows("allowSmite") and seen.ready,
        "redemption_prayer": normal and seen.allows("allowRedemption") and supplies == 0 and threatened,
    }


ALWAYS = (
    *("no_melee_attack", "no_ranged_attack", "no_mage_attack", "no_potion", "dont_eat_food", "dont_karambwan"),
    *("dont_use_veng", "no_gear", "dont_move", "no_op_farcast"),
)


def proven_masks(seen: Evidence) -> dict[str, Proof]:
    """Every mask bit by sub-action id: True, False, or `UNKNOWN`."""
    parts = (_attacks, _potions, _food, _movement, _prayers)
    bits: dict[str, Proof] = dict.fromkeys(ALWAYS, True)
    for part in parts:
        bits.update(part(seen))
    return bits


#: Entries that show the same predicate as a mask bit.
SHOWN_PREDICATES = {
    "is_blood_magic_attack_available": "use_blood_spell",
    "is_ice_magic_attack_available": "use_ice_spell",
    "is_magic_spec_attack_available": "use_magic_spec",
    "is_range_attack_available": "basic_ranged_attack",
    "is_range_spec_attack_available": "ranged_special_attack",
    "is_melee_attack_available": "basic_melee_attack",
    "is_melee_spec_attack_available": "melee_special_attack",
}
