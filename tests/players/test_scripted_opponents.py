"""Scripted opponents: the rules of scripted-bots.md B, masks, and chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.players.opponents import ScriptedOpponent, known_opponents, make_opponent, opponent_name

CONTRACT = load_contract("NhEnv")
ALL = np.ones((1, CONTRACT.num_flat_actions), bool)
# Healthy, boosted, and facing a mage who does not pray.
CALM = {"player_health_percent": 1, "prayer_points": 1, "ranged_level": 1, "strength_level": 1, "target_using_mage": 1}


def observation(**values: float) -> NDArray[np.float32]:
    obs = np.zeros((1, CONTRACT.num_observations), np.float32)
    for name, value in {**CALM, **values}.items():
        obs[0, CONTRACT.observation_index(name)] = value
    return obs


def without(*actions: str) -> NDArray[np.bool_]:
    masks = ALL.copy()
    masks[0, [CONTRACT.flat_index(action) for action in actions]] = False
    return masks


def choices(name: str, obs: NDArray[np.float32], masks: NDArray[np.bool_] = ALL, seed: int = 0) -> set[str]:
    """The ids that were chosen besides entry 0."""
    opponent = ScriptedOpponent(name, CONTRACT)
    actions, _ = opponent.predict(obs, opponent.initial_state([seed]), np.ones(1, bool), False, masks)
    return {head.actions[entry].id for head, entry in zip(CONTRACT.heads, actions[0], strict=True) if entry}


def styles(obs: NDArray[np.float32], masks: NDArray[np.bool_] = ALL) -> set[str]:
    """The attacks that occur over many seeds."""
    attacks = {"mage_attack", "ranged_attack", "melee_attack"}
    return set().union(*(choices("scripted", obs, masks, seed) & attacks for seed in range(60)))


def test_noop_never_acts() -> None:
    assert choices("noop", observation(player_health_percent=0.1)) == set()


def test_stayalive_shoots_and_eats_below_sixty_percent() -> None:
    assert choices("stayalive", observation(player_health_percent=0.6)) == {"ranged_attack", "basic_ranged_attack"}
    assert "eat_primary_food" in choices("stayalive", observation(player_health_percent=0.59))


def test_stayalive_waits_when_it_cannot_shoot_or_eat() -> None:
    masks = without("ranged_attack", "eat_primary_food")
    assert choices("stayalive", observation(player_health_percent=0.1), masks) == set()


@pytest.mark.parametrize(
    ("values", "masked", "expected"),
    [
        ({"player_health_percent": 0.59}, (), {"eat_primary_food"}),
        ({"player_health_percent": 0.39}, (), {"eat_primary_food", "eat_karambwan"}),
        ({"player_health_percent": 0.59}, ("eat_primary_food",), {"eat_karambwan"}),
        ({"player_health_percent": 0.6}, ("eat_primary_food",), set()),
        ({"prayer_points": 0.59, "ranged_level": 0.9}, (), {"use_restore_potion"}),
        ({"prayer_points": 0.59, "ranged_level": 0.9}, ("use_restore_potion",), {"use_ranged_potion"}),
        ({"ranged_level": 0.9, "strength_level": 0.9}, ("use_ranged_potion",), {"use_combat_potion"}),
        ({"strength_level": 0.94}, (), {"use_combat_potion"}),
        ({}, (), set()),
    ],
)
def test_scripted_eats_and_drinks(values: dict[str, float], masked: tuple[str, ...], expected: set[str]) -> None:
    supplies = {action.id for head in ("potion", "food", "karambwan") for action in head_actions(head)}
    assert choices("scripted", observation(**values), without(*masked)) & supplies == expected


def head_actions(head: str) -> tuple[object, ...]:
    return CONTRACT.heads[CONTRACT.head_index(head)].actions


@pytest.mark.parametrize("style", ["mage", "ranged", "melee"])
def test_scripted_prays_against_the_wielded_weapon(style: str) -> None:
    obs = observation(**{"target_using_mage": 0, f"target_using_{style}": 1})
    prayers = {"mage_prayer", "ranged_prayer", "melee_prayer"}
    assert choices("scripted", obs) & prayers == {f"{style}_prayer"}
    assert choices("scripted", obs, without(f"{style}_prayer")) & prayers == set()


def test_scripted_attacks_at_random_off_prayer() -> None:
    assert styles(observation()) == {"mage_attack", "ranged_attack", "melee_attack"}
    assert styles(observation(target_magic_prayer=1)) == {"ranged_attack", "melee_attack"}
    assert styles(observation(target_ranged_prayer=1), without("melee_attack")) == {"mage_attack"}


def test_scripted_shoots_into_prayer_rather_than_not_at_all() -> None:
    obs = observation(target_ranged_prayer=1)
    assert styles(obs, without("melee_attack", "use_ice_spell")) == {"ranged_attack"}
    assert styles(obs, without("melee_attack", "mage_attack", "ranged_attack")) == set()


def test_what_is_masked_is_not_chosen() -> None:
    assert choices("scripted", observation(player_health_percent=0.5), ~ALL) == set()


def test_deterministic_prediction_ignores_chance() -> None:
    opponent = ScriptedOpponent("scripted", CONTRACT)
    obs = np.repeat(observation(), 50, axis=0)
    actions, _ = opponent.predict(
        obs, opponent.initial_state(range(50)), np.ones(50, bool), True, np.repeat(ALL, 50, axis=0)
    )
    assert (actions == actions[0]).all()


def test_fights_are_independent_of_the_batch() -> None:
    rng = np.random.default_rng(0)
    obs = rng.random((8, CONTRACT.num_observations)).astype(np.float32)
    masks = rng.random((8, CONTRACT.num_flat_actions)) < 0.8
    opponent = ScriptedOpponent("scripted", CONTRACT)
    starts = np.zeros(8, bool)
    states = [opponent.initial_state(list(range(8))), *(opponent.initial_state([seed]) for seed in range(8))]
    for _ in range(5):
        together, states[0] = opponent.predict(obs, states[0], starts, False, masks)
        for k in range(8):
            alone, states[k + 1] = opponent.predict(obs[[k]], states[k + 1], starts[[k]], False, masks[[k]])
            assert np.array_equal(together[k], alone[0])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(known_opponents()[1:]), st.floats(0, 1))
def test_true_masks_are_obeyed(seed: int, name: str, density: float) -> None:
    """Every choice besides entry 0 is available, and the rules between heads hold for it."""
    rng = np.random.default_rng(seed)
    obs = (rng.random((4, CONTRACT.num_observations)) * 1.2).round().astype(np.float32)
    masks = rng.random((4, CONTRACT.num_flat_actions)) < density
    opponent = ScriptedOpponent(name, CONTRACT)
    actions, _ = opponent.predict(obs, opponent.initial_state([seed] * 4), np.zeros(4, bool), False, masks)
    for action, mask in zip(actions, masks, strict=True):
        for head in np.flatnonzero(action):
            assert CONTRACT.conditional_mask(mask, action[:head])[action[head]]


def test_opponents_by_name() -> None:
    assert make_opponent("baseline", CONTRACT) is None
    for name in known_opponents()[1:]:
        assert isinstance(make_opponent(name, CONTRACT), ScriptedOpponent)
        assert opponent_name(name) == name
    custom = ScriptedOpponent("scripted", CONTRACT)
    assert make_opponent(custom, CONTRACT) is custom
    assert opponent_name(custom) == "scripted"


def test_an_unknown_opponent_is_refused_with_a_hint() -> None:
    with pytest.raises(ValueError, match=r"unknown opponent 'scriptd' \(did you mean 'scripted'\?\).*baseline"):
        make_opponent("scriptd", CONTRACT)
