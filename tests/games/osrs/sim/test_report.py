"""The meta record of fights built by hand, against protocol.md §4."""

from __future__ import annotations

import pytest
from entry_points import ME, TARGET, record_hit, refresh_hitsplats
from hand_built import HandBuiltFight

from sb3_pvp.games.osrs.meta_fields import Style
from sb3_pvp.games.osrs.sim import items
from sb3_pvp.games.osrs.sim.prayer import PROTECT_BIT, SMITE_BIT
from sb3_pvp.games.osrs.sim.state import ATTACK, BASELINE, DEFENCE, FREEZE_TIMER, HITPOINTS, MAGIC, PRAYER, RANGED


@pytest.fixture
def fight() -> HandBuiltFight:
    return HandBuiltFight()


def test_every_field_is_written(fight: HandBuiltFight) -> None:
    _, _, over_zeros = fight.reply(left_over=0)
    _, _, over_ones = fight.reply(left_over=1)
    assert over_zeros == over_ones


def hurt(fight: HandBuiltFight) -> None:
    """Gives every counter of the tick some value."""
    brew = items.POTION_DOSES[items.BREW, 3]
    for seat in (fight.me, fight.target):
        seat["extra_dealt"], seat["healed"] = 4, 6
        seat["inventory"][:3] = brew, items.SHARK, items.ANGLERFISH
        seat["splat_damage"][0], seat["splat_serial"][0] = 5, 1
        seat["food_eaten"], seat["eat_at"], seat["eat_to"], seat["eaten"], seat["food_wasted"] = 2, 80, 90, 38, 3
        seat["brew_drunk"], seat["brew_at"], seat["brew_to"], seat["brew_wasted"] = 1, 95, 105, 5
    refresh_hitsplats(fight.seats)


def test_condition(fight: HandBuiltFight) -> None:
    fight.wear(fight.target, items.DARK_BOW)
    fight.me["level"][[HITPOINTS, PRAYER, ATTACK, DEFENCE]] = 99, 7, 15, 84
    fight.target["level"][HITPOINTS] = 45
    fight.target["timer"][FREEZE_TIMER] = 32
    fight.me["prayers"] = PROTECT_BIT[RANGED]
    meta = fight.meta
    assert meta["current_health_percent"] == pytest.approx(1.1)
    assert meta["current_target_health_percent"] == pytest.approx(0.5)
    assert meta["current_prayer_percent"] == pytest.approx(7 / 77)
    assert (meta["attack_level_scale"], meta["defence_level_scale"]) == (pytest.approx(0.2), pytest.approx(1.2))
    assert (meta["distance"], meta["player_frozen_ticks"], meta["target_frozen_ticks"]) == (4, 0, 32)
    assert (meta["player_attack_style_type"], meta["target_attack_style_type"]) == (Style.MELEE, Style.RANGED)
    assert (meta["current_player_prayer_type"], meta["current_target_prayer_type"]) == (Style.RANGED, Style.NONE)


def test_hits_of_the_tick(fight: HandBuiltFight) -> None:
    meta = fight.meta
    assert not (meta["hit_present"] or meta["received_present"])
    assert (meta["attack_type_hit"], meta["target_prayer_type"]) == (Style.NONE, Style.NONE)
    fight.me["prayers"] = PROTECT_BIT[MAGIC]
    fight.target["prayers"] = SMITE_BIT
    record_hit(fight.seats, TARGET, MAGIC, 18, 5)
    record_hit(fight.seats, ME, RANGED, 9, 7)
    meta = fight.meta
    assert meta["hit_present"] and meta["received_present"]
    assert (meta["attack_type_hit"], meta["attack_type_received"]) == (Style.RANGED, Style.MAGIC)
    assert (meta["hit_off_prayer"], meta["protected_prayer"]) == (True, True)
    assert (meta["hit_with_smite"], meta["target_attacked_with_smite"]) == (False, True)
    assert (meta["player_hit_attack_speed"], meta["target_hit_attack_speed"]) == (7, 5)
    assert (meta["target_prayer_type"], meta["player_prayer_type"]) == (Style.NONE, Style.MAGIC)
    assert meta["damage_generated_on_target_scale"] == pytest.approx(0.1)
    assert meta["damage_generated_on_player_scale"] == pytest.approx(0.2)


def test_supplies_are_counted_by_kind(fight: HandBuiltFight) -> None:
    brews = items.POTION_DOSES[items.BREW]
    fight.carry(items.SHARK, items.SHARK, items.KARAMBWAN, items.ANGLERFISH, brews[3], brews[0])
    meta = fight.meta
    assert (meta["food_count"], meta["target_food_count"]) == (3, 0)
    # Anglerfish heals 9 + 8 at 90 hitpoints, a brew dose floor(2 + 0.15 * 90) = 15.
    assert meta["remaining_food_scale"] == pytest.approx((2 * 20 + 18 + 17) / 90)
    assert meta["remaining_brew_scale"] == pytest.approx(5 * 15 / 90)
    assert meta["target_remaining_food_scale"] == 0


def test_damage_and_healing(fight: HandBuiltFight) -> None:
    hurt(fight)
    meta = fight.meta
    assert meta["damage_dealt"] == pytest.approx(5 / 90)
    assert meta["damage_received"] == 0
    assert meta["extra_damage_dealt_on_target_scale"] == meta["extra_damage_dealt_on_player_scale"]
    assert meta["target_healed_scale"] == pytest.approx(6 / 90)
    fight.target["driver"] = BASELINE
    assert fight.meta["target_healed_scale"] == 0


def test_eating_and_drinking(fight: HandBuiltFight) -> None:
    hurt(fight)
    meta = fight.meta
    assert meta["eat_food_present"] and meta["wasted_food_present"]
    assert (meta["eat_at_food_scale"], meta["eat_to_food_scale"]) == (pytest.approx(80 / 90), 1)
    assert (meta["eaten_food_scale"], meta["wasted_food_scale"]) == (pytest.approx(38 / 90), pytest.approx(3 / 90))
    assert meta["eat_brew_present"] and meta["wasted_brew_present"]
    assert meta["eat_to_brew_scale"] == pytest.approx(105 / 90)
    fight.me["food_wasted"] = fight.me["brew_wasted"] = 0
    meta = fight.meta
    assert not (meta["wasted_food_present"] or meta["wasted_brew_present"])
