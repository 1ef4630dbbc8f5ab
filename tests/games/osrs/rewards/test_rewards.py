"""Rewards: each row of the table by hand, and weights."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from sb3_pvp.game import Outcome, Transition
from sb3_pvp.games.osrs.meta_fields import Style
from sb3_pvp.games.osrs.rewards import (
    COMPONENTS,
    DESCRIPTIONS,
    RewardWeights,
    reward_weights,
)
from sb3_pvp.games.osrs.rewards.amounts import write_amounts
from sb3_pvp.games.osrs.rewards.components import AMOUNTS
from tests.games.osrs.rewards.reward_ticks import (
    DAMAGE,
    HIT,
    HURT,
    OWN_SUPPLIES,
    ROLLED,
    SUPPLIES,
    Rewards,
    named_components,
    record,
    tick,
)


def earned(weights: dict[str, Any], one: Transition) -> dict[str, float]:
    return named_components(Rewards(reward_weights(weights)).components(one)[:, 0])


def test_every_component_has_an_amount() -> None:
    nothing = tick({}, {})
    amounts = np.full(len(COMPONENTS), np.nan, np.float32)
    write_amounts(*vars(nothing).values(), True, amounts.view(AMOUNTS))
    written = dict(zip(COMPONENTS, amounts.tolist(), strict=True))
    assert {name for name, amount in written.items() if amount} == {"default_step_reward", "custom_reward_fn"}


ROWS = [
    ("nothing", {}, tick({}), {}),
    ("1", {"default": 0.5}, tick({}), {"default_step_reward": 0.5}),
    ("2", {"custom_reward_fn": 0.5}, tick({}), {"custom_reward_fn": 0.5}),
    ("3, 4", {}, tick(ROLLED), DAMAGE),
    ("3, 4 landed", {}, tick({"damage_dealt": 0.5, "damage_received": 0.5}), {}),
    (
        "3, 4 landed and wanted",
        {"reward_on_damage_generated": False},
        tick({"damage_dealt": 1.0, "damage_received": 0.5, **ROLLED}),
        {"damage_dealt": 0.25, "damage_received": -0.125},
    ),
    (
        "5, 6",
        {},
        tick({"extra_damage_dealt_on_target_scale": 0.5, "extra_damage_dealt_on_player_scale": 1.0}),
        {"extra_damage_dealt": 0.125, "extra_damage_received": -0.25},
    ),
    (
        "7",
        {"smite_damage_dealt_reward_multiplier": 0.5},
        tick({**ROLLED, **HIT, "hit_with_smite": True}),
        {**DAMAGE, "smite_damage_dealt": 0.0625},
    ),
    ("7 absent", {"smite_damage_dealt_reward_multiplier": 0.5}, tick({**ROLLED, "hit_with_smite": True}), DAMAGE),
    (
        "8",
        {"smite_damage_received_reward_multiplier": 0.5},
        tick({**ROLLED, **HURT, "target_attacked_with_smite": True}),
        {**DAMAGE, "smite_damage_received": -0.03125},
    ),
    (
        "9, 10",
        {},
        tick({"player_healed_scale": 1.0, "target_healed_scale": 0.5}),
        {"player_healed": 0.25, "target_healed": -0.125},
    ),
    (
        "9, 10 off",
        {"reward_heals": False, "penalize_target_heals": False},
        tick({"player_healed_scale": 1.0, "target_healed_scale": 0.5}),
        {},
    ),
    ("11", {"safe_penalty": 0.5}, tick({"eat_food_present": True, "eat_at_food_scale": 0.9}), {"safe_penalty": -0.5}),
    ("11 absent", {"safe_penalty": 0.5}, tick({"eat_at_food_scale": 0.9}), {}),
    ("12", {"no_prayer_tick": -0.5}, tick({"current_prayer_percent": 0.0}), {"no_prayer": -0.5}),
    ("12 absent", {"no_prayer_tick": -0.5}, tick({"current_prayer_percent": 0.01}), {}),
    (
        "13a",
        {"protected_correct_prayer": 0.5, "protected_wrong_prayer": -1.0},
        tick({**HURT, "protected_prayer": True}),
        {"protected_correct_prayer": 0.6},
    ),
    (
        "13b",
        {"protected_correct_prayer": 0.5, "protected_wrong_prayer": -1.0},
        tick(HURT),
        {"protected_wrong_prayer": -1.2},
    ),
    ("13 absent", {"protected_wrong_prayer": -1.0}, tick({"target_hit_attack_speed": 5}), {}),
    (
        "14a",
        {"attacked_correct_prayer": 0.5, "attacked_wrong_prayer": -1.0},
        tick({**HIT, "hit_off_prayer": True}),
        {"hit_off_prayer": 0.4},
    ),
    ("14b", {"attacked_correct_prayer": 0.5, "attacked_wrong_prayer": -1.0}, tick(HIT), {"hit_on_prayer": -0.8}),
    ("14 absent", {"attacked_wrong_prayer": -1.0}, tick({"player_hit_attack_speed": 5}), {}),
    (
        "15a",
        {"attacked_previous_correct_prayer": 0.5, "attacked_previous_wrong_prayer": -1.0},
        tick(HIT, {"current_target_prayer_type": Style.MELEE}),
        {"hit_off_prior_prayer": 0.4},
    ),
    (
        "15a, no prayer",
        {"attacked_previous_correct_prayer": 0.5, "attacked_previous_wrong_prayer": -1.0},
        tick(HIT, {"current_target_prayer_type": Style.NONE}),
        {"hit_off_prior_prayer": 0.4},
    ),
    (
        "15b",
        {"attacked_previous_correct_prayer": 0.5, "attacked_previous_wrong_prayer": -1.0},
        tick(HIT, {"current_target_prayer_type": Style.RANGED}),
        {"hit_on_prior_prayer": -0.8},
    ),
    ("15, first tick", {"attacked_previous_correct_prayer": 0.5, "attacked_previous_wrong_prayer": 0.5}, tick(HIT), {}),
    ("15, no hit", {"attacked_previous_correct_prayer": 0.5}, tick({"player_hit_attack_speed": 5}, {}), {}),
    (
        "16a",
        {"protected_previous_correct_prayer": 0.5, "protected_previous_wrong_prayer": -1.0},
        tick({**HURT, "player_prayer_type": Style.RANGED}, {"target_attack_style_type": Style.RANGED}),
        {"protected_correct_prior_prayer": 0.6},
    ),
    (
        "16b",
        {"protected_previous_correct_prayer": 0.5, "protected_previous_wrong_prayer": -1.0},
        tick({**HURT, "player_prayer_type": Style.RANGED}, {"target_attack_style_type": Style.MELEE}),
        {"protected_wrong_prior_prayer": -1.2},
    ),
    (
        "16, unprotected",
        {"protected_previous_correct_prayer": 0.5, "protected_previous_wrong_prayer": -1.0},
        tick(HURT, {"target_attack_style_type": Style.MELEE}),
        {},
    ),
    (
        "16, first tick",
        {"protected_previous_correct_prayer": 0.5, "protected_previous_wrong_prayer": -1.0},
        tick({**HURT, "player_prayer_type": Style.RANGED}),
        {},
    ),
    (
        "17, 18",
        {"player_frozen_tick": -0.5, "target_frozen_tick": 0.25},
        tick({"player_frozen_ticks": 33, "target_frozen_ticks": 8}, {"player_frozen_ticks": 3}),
        {"player_frozen": -15.0, "target_frozen": 2.0},
    ),
    (
        "17, 18 thawing",
        {"player_frozen_tick": -0.5, "target_frozen_tick": 0.25},
        tick(
            {"player_frozen_ticks": 2, "target_frozen_ticks": 3}, {"player_frozen_ticks": 3, "target_frozen_ticks": 3}
        ),
        {},
    ),
    ("17, first tick", {"player_frozen_tick": -0.5}, tick({"player_frozen_ticks": 33}), {}),
    *(
        (
            f"{row}",
            {f"{option}_level_scale": 2.0},
            tick({f"{level}_level_scale": scale}),
            {f"{level}_level_scale": 2.0 * (scale - 1.0)},
        )
        for row, level, option in [
            (19, "attack", "attack"),
            (20, "strength", "strength"),
            (21, "defence", "defense"),
            (22, "ranged", "ranged"),
            (23, "magic", "magic"),
        ]
        for scale in (1.25, 0.75)
    ),
    *(
        (
            f"{row}, {scale}, {style.name} hit",
            {"reward_on_hit_with_boost_scale": 2.0},
            tick({**HIT, "attack_type_hit": style, f"{level}_level_scale": scale}),
            {f"{word}_boost_hit": 0.5} if style == rewarded and scale > 1 else {},
        )
        for row, level, word, rewarded in [
            ("20b", "strength", "melee", Style.MELEE),
            ("22b", "ranged", "ranged", Style.RANGED),
            ("23b", "magic", "magic", Style.MAGIC),
        ]
        for style in (Style.MELEE, Style.RANGED, Style.MAGIC)
        for scale in (1.25, 0.75)
    ),
    (
        "20b, no hit",
        {"reward_on_hit_with_boost_scale": 2.0},
        tick({"attack_type_hit": Style.MELEE, "strength_level_scale": 1.25}),
        {},
    ),
    (
        "24, 25",
        {"player_wasted_food_multiplier": 2.0},
        tick(
            {
                "wasted_food_present": True,
                "wasted_food_scale": 0.5,
                "wasted_brew_present": True,
                "wasted_brew_scale": 0.125,
            }
        ),
        {"wasted_food": -0.25, "wasted_brews": -0.0625},
    ),
    ("24, 25 absent", {}, tick({"wasted_food_scale": 0.5, "wasted_brew_scale": 0.125}), {}),
    ("24 off", {"penalize_wasted_food": False}, tick({"wasted_food_present": True, "wasted_food_scale": 0.5}), {}),
    (
        "26, won",
        {"win": 3.0, "player_died_with_food_multiplier": 2.0},
        tick({**SUPPLIES, **OWN_SUPPLIES}, outcome=Outcome.WON),
        {"win": 3.0, "target_food_on_death": 1.0, "target_brews_on_death": 0.5},
    ),
    ("26, won, off", {"reward_target_food_on_death": False}, tick(SUPPLIES, outcome=Outcome.WON), {"win": 1.0}),
    (
        "26, lost",
        {"lose": -4.0},
        tick({**SUPPLIES, **OWN_SUPPLIES}, outcome=Outcome.LOST),
        {"lost": -4.0, "player_food_on_death": -0.5, "player_brews_on_death": -0.25},
    ),
    ("26, lost, off", {"penalize_food_on_death": False}, tick(OWN_SUPPLIES, outcome=Outcome.LOST), {"lost": -1.0}),
    ("26, tied", {"tie": -0.5}, tick({**SUPPLIES, **OWN_SUPPLIES}, outcome=Outcome.TIED), {"tied": -0.5}),
    ("lost target", {"default": 1.0}, tick(ROLLED, outcome=Outcome.TARGET_LOST), {}),
    ("desync", {"custom_reward_fn": 1.0}, tick(ROLLED, outcome=Outcome.DESYNC), {}),
]


@pytest.mark.parametrize(("weights", "one", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_each_event_earns_its_component(weights: dict[str, Any], one: Transition, expected: dict[str, float]) -> None:
    assert earned(weights, one) == pytest.approx(expected)


def test_every_component_is_in_some_row() -> None:
    seen = {name for *_, expected in ROWS for name in expected}
    assert seen == set(COMPONENTS)


def test_a_multiplier_sees_how_much_was_wasted_or_left() -> None:
    twice = {"type": "expression", "expression": "2 * scale", "defaults": {"scale": 0}}
    weights = {"player_died_with_food_multiplier": twice, "player_wasted_food_multiplier": twice}
    waste = {"wasted_food_present": True, "wasted_food_scale": 0.5, "wasted_brew_scale": 9.0}
    assert earned(weights, tick(waste)) == pytest.approx({"wasted_food": -0.25 * 0.5 * 2 * 0.5})
    assert earned(weights, tick(OWN_SUPPLIES, outcome=Outcome.LOST)) == pytest.approx(
        {"lost": -1.0, "player_food_on_death": -0.25 * 2.0 * 6.0, "player_brews_on_death": -0.25 * 1.0 * 6.0}
    )
    assert earned(weights, tick(SUPPLIES, outcome=Outcome.WON))["target_food_on_death"] == pytest.approx(3.0)


def test_fights_of_a_batch_do_not_mix() -> None:
    meta = np.concatenate([record(), record(**ROLLED), record(**ROLLED)])
    outcome = np.array([Outcome.WON, Outcome.RUNNING, Outcome.DESYNC], np.uint8)
    parts = Rewards(RewardWeights(win=3.0)).components(Transition(meta, meta, np.zeros(3, bool), outcome))
    assert (parts.shape, parts.dtype) == ((len(COMPONENTS), 3), np.float32)
    assert parts.sum(axis=0).tolist() == [3.0, 0.0625, 0.0]


def test_no_component_is_minus_zero() -> None:
    assert not np.signbit(Rewards(RewardWeights(default=-1.0, safe_penalty=1.0)).components(tick({}))[1:]).any()


def test_each_component_has_weights_and_a_sentence() -> None:
    names = [field.name for field in fields(RewardWeights)]
    used = {name for component in COMPONENTS.values() for name in component.weights} | {"reward_on_damage_generated"}
    assert used == set(names)
    assert list(DESCRIPTIONS) == list(COMPONENTS)
    assert all(text.endswith(".") for text in DESCRIPTIONS.values())


def test_weights_change_only_what_is_named() -> None:
    assert reward_weights({"win": 5}) == RewardWeights(win=5.0)
    assert reward_weights(None) == RewardWeights()
    given = RewardWeights(lose=-3.0)
    assert reward_weights(given) is given


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"winn": 1.0}, "did you mean 'win'"),
        ({"win": float("nan")}, "'win' must be a finite number"),
        ({"win": float("inf")}, "finite number"),
        ({"win": "1"}, "finite number"),
        ({"win": True}, "finite number"),
        ({"win": [1.0, 2.0]}, "'win'"),
        ({"win": None}, "'win'"),
        ({"reward_heals": 1}, "'reward_heals' must be True or False"),
        ({"win": {"type": "liner"}}, "reward 'win'.*did you mean 'linear'"),
        ({"win": {"type": "expression", "expression": "scale"}}, "reward 'win'.*'scale'"),
        ({"win": {"type": "expression", "expression": "'MELEE'"}}, "reward 'win' must be a finite number"),
        ({"custom_reward_fn": {"type": "expression", "expression": "distanse"}}, "did you mean 'distance'"),
        ([("win", 1.0)], "rewards must map names"),
    ],
)
def test_bad_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reward_weights(weights)
