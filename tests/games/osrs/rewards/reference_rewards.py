"""The reward table of rewards.md §4 for one fight, as it is written there: slow, and over the wire's JSON objects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.schedules import Schedule
from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, OPTIONAL_FIELDS, STYLE_FIELDS, STYLE_NAMES, Style, camel_case
from sb3_pvp.games.osrs.rewards import RewardWeights

Meta = dict[str, Any]

_STYLES = (("MELEE", "melee"), ("RANGED", "ranged"), ("MAGIC", "mage"))
_BOOSTS = (("MELEE", "strength", "melee"), ("RANGED", "ranged", "ranged"), ("MAGIC", "magic", "magic"))
_LEVELS = {"attack": "attack", "strength": "strength", "defence": "defense", "ranged": "ranged", "magic": "magic"}


def on_the_wire(records: NDArray[np.void]) -> list[Meta]:
    return [_fields(record) for record in records]


def _fields(record: np.void) -> Meta:
    """The fields under the names of the wire, without those that hold nothing (protocol.md §4)."""
    flags = {name: flag for flag, group in OPTIONAL_FIELDS.items() for name in group}
    fields = {}
    for name in META_DTYPE.names:
        value = record[name].item()
        absent = name in flags and (not record[flags[name]] or (name in STYLE_FIELDS and value == Style.NONE))
        if name not in OPTIONAL_FIELDS and not absent:
            fields[camel_case(name)] = STYLE_NAMES[value] if name in STYLE_FIELDS else value
    return fields


class Reference:
    """The terms of one step; ``previous`` is empty in the first one."""

    def __init__(self, weights: RewardWeights, t: int, meta: Meta, previous: Meta, outcome: Outcome) -> None:
        self.weights, self.t, self.m, self.previous, self.outcome = weights, t, dict(meta), previous, outcome
        self.c_d, self.c_r = self.value("damage_dealt"), self.value("damage_received")
        self.terms: dict[str, float] = {}
        self.add_derived_fields()

    def value(self, name: str, **variables: Any) -> Any:
        weight = getattr(self.weights, name)
        return weight(self.t, **variables) if isinstance(weight, Schedule) else weight

    def add_derived_fields(self) -> None:
        m = self.m
        for style, word in _STYLES:
            m[f"{word}DamageDealt"] = m["damageGeneratedOnTargetScale"] if m.get("attackTypeHit") == style else 0
            received = m.get("attackTypeReceived") == style
            m[f"{word}DamageReceived"] = m["damageGeneratedOnPlayerScale"] if received else 0
        generated = self.weights.reward_on_damage_generated
        self.dealt = m["damageGeneratedOnTargetScale" if generated else "damageDealt"]
        self.received = m["damageGeneratedOnPlayerScale" if generated else "damageReceived"]
        if m.get("hitWithSmite"):
            m["smite_damage"] = self.dealt
        if m.get("targetAttackedWithSmite"):
            m["smite_damage_received"] = self.received

    def nonzero(self) -> dict[str, float]:
        if self.outcome in (Outcome.TARGET_LOST, Outcome.DESYNC):
            return {}
        self.add_damage()
        self.add_prayers()
        self.add_prior_prayers()
        self.add_freezes()
        self.add_levels()
        self.add_waste()
        self.add_end()
        return {name: value for name, value in self.terms.items() if value}

    def add_damage(self) -> None:
        m, terms = self.m, self.terms
        terms["default_step_reward"] = self.value("default")
        terms["custom_reward_fn"] = self.value("custom_reward_fn", **m)
        terms["damage_dealt"], terms["damage_received"] = self.c_d * self.dealt, self.c_r * self.received
        terms["extra_damage_dealt"] = self.c_d * m["extraDamageDealtOnTargetScale"]
        terms["extra_damage_received"] = self.c_r * m["extraDamageDealtOnPlayerScale"]
        if m.get("hitWithSmite"):
            terms["smite_damage_dealt"] = self.value("smite_damage_dealt_reward_multiplier") * self.c_d * self.dealt
        if m.get("targetAttackedWithSmite"):
            multiplier = self.value("smite_damage_received_reward_multiplier")
            terms["smite_damage_received"] = multiplier * self.c_r * self.received
        if self.weights.reward_heals:
            terms["player_healed"] = -self.c_r * m["playerHealedScale"]
        if self.weights.penalize_target_heals:
            terms["target_healed"] = -self.c_d * m["targetHealedScale"]
        if "eatAtFoodScale" in m:
            terms["safe_penalty"] = -self.value("safe_penalty", eat_at_food_scale=m["eatAtFoodScale"])
        if m["currentPrayerPercent"] == 0:
            terms["no_prayer"] = self.value("no_prayer_tick")

    def add_prayers(self) -> None:
        m = self.m
        if "protectedPrayer" in m:
            which = "correct" if m["protectedPrayer"] else "wrong"
            weight = self.value(f"protected_{which}_prayer")
            self.terms[f"protected_{which}_prayer"] = weight * m["targetHitAttackSpeed"] / 5
        if "hitOffPrayer" in m:
            which, word = ("correct", "off") if m["hitOffPrayer"] else ("wrong", "on")
            weight = self.value(f"attacked_{which}_prayer")
            self.terms[f"hit_{word}_prayer"] = weight * m["playerHitAttackSpeed"] / 5

    def add_prior_prayers(self) -> None:
        m, before = self.m, self.previous
        if "attackTypeHit" in m and "currentTargetPrayerType" in before:
            off = m["attackTypeHit"] != before["currentTargetPrayerType"]
            weight = self.value("attacked_previous_" + ("correct_prayer" if off else "wrong_prayer"))
            name = "hit_off_prior_prayer" if off else "hit_on_prior_prayer"
            self.terms[name] = m["playerHitAttackSpeed"] / 5 * weight
        if m.get("attackTypeReceived") and "playerPrayerType" in m and "targetAttackStyleType" in before:
            which = "correct" if m["playerPrayerType"] == before["targetAttackStyleType"] else "wrong"
            weight = self.value(f"protected_previous_{which}_prayer")
            self.terms[f"protected_{which}_prior_prayer"] = weight * m["targetHitAttackSpeed"] / 5

    def add_freezes(self) -> None:
        for side in ("player", "target"):
            field = f"{side}FrozenTicks"
            if field in self.previous and self.m[field] > self.previous[field]:
                increase = self.m[field] - self.previous[field]
                self.terms[f"{side}_frozen"] = increase * self.value(f"{side}_frozen_tick")

    def add_levels(self) -> None:
        m = self.m
        for level, option in _LEVELS.items():
            self.terms[f"{level}_level_scale"] = (m[f"{level}LevelScale"] - 1) * self.value(f"{option}_level_scale")
        for style, level, word in _BOOSTS:
            scale = m[f"{level}LevelScale"]
            if m.get("attackTypeHit") == style and scale > 1:
                boost = self.value("reward_on_hit_with_boost_scale", level=scale)
                self.terms[f"{word}_boost_hit"] = (scale - 1) * boost

    def add_waste(self) -> None:
        m = self.m
        if not self.weights.penalize_wasted_food:
            return
        scale = m.get("wastedFoodScale", 0) + m.get("wastedBrewScale", 0)
        for name, field in (("wasted_food", "wastedFoodScale"), ("wasted_brews", "wastedBrewScale")):
            if field in m:
                self.terms[name] = self.c_r * m[field] * self.value("player_wasted_food_multiplier", scale=scale)

    def add_end(self) -> None:
        m, terms, weights = self.m, self.terms, self.weights
        if self.outcome == Outcome.WON:
            terms["win"] = self.value("win")
            if weights.reward_target_food_on_death:
                self.add_leftovers("target", self.c_d, m["targetRemainingFoodScale"], m["targetRemainingBrewScale"])
        if self.outcome == Outcome.LOST:
            terms["lost"] = self.value("lose")
            if weights.penalize_food_on_death:
                self.add_leftovers("player", self.c_r, m["remainingFoodScale"], m["remainingBrewScale"])
        if self.outcome == Outcome.TIED:
            terms["tied"] = self.value("tie")

    def add_leftovers(self, whose: str, scale: float, food: float, brews: float) -> None:
        multiplier = self.value("player_died_with_food_multiplier", scale=food + brews)
        self.terms[f"{whose}_food_on_death"] = scale * food * multiplier
        self.terms[f"{whose}_brews_on_death"] = scale * brews * multiplier
