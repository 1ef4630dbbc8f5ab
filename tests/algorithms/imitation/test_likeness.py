"""How alike players are: laws of the divergence, and players that are known to be alike or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.matrix_games import WITH_A_WELL
from sb3_pvp.algorithms.imitation import likeness
from sb3_pvp.algorithms.imitation.likeness import Habit, divergence
from sb3_pvp.game import find_game
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.habits import LONGEST, habits
from sb3_pvp.matches.demonstrating import answers, demonstrate
from sb3_pvp.players.opponents import make_opponent
from tests.algorithms.imitation.test_cloning import random_fights

NH = load_contract("NhEnv")
COUNTS = st.lists(st.integers(0, 50), min_size=3, max_size=3).map(np.array)


@given(COUNTS, COUNTS)
def test_divergence_is_symmetric_and_between_0_and_1(ours: np.ndarray, theirs: np.ndarray) -> None:
    found = divergence(ours, theirs)
    assert 0 <= found <= 1 + 1e-9 and found == pytest.approx(divergence(theirs, ours))
    assert divergence(ours, 3 * ours) == pytest.approx(0, abs=1e-9)
    if ours.sum() and theirs.sum() and not (ours * theirs).any():
        assert found == pytest.approx(1)


@given(st.lists(st.floats(0, 1), min_size=1), st.lists(st.floats(0, 1), min_size=1))
def test_a_habit_is_like_itself(ours: list[float], theirs: list[float]) -> None:
    one, other = np.array(ours), np.array(theirs)
    assert Habit(one, one).divergence == pytest.approx(0, abs=1e-9)
    assert 0 <= Habit(one, other).divergence <= 1 + 1e-9
    assert Habit(one, one[:0]).divergence == 0


def test_the_same_player_cannot_be_told_apart_and_another_one_can() -> None:
    theirs = [*demonstrate("champion", WITH_A_WELL, 600, "champion", seed=1)]
    acting = make_opponent("champion", WITH_A_WELL.contract, WITH_A_WELL)
    assert acting is not None
    same = likeness(theirs, answers(acting, theirs, 5), theirs, WITH_A_WELL)
    assert same.mean_divergence < 0.01 and same.accuracy == pytest.approx(0.5, abs=0.08)
    stubborn = [replace(each, actions=np.full_like(each.actions, 3)) for each in theirs]
    other = likeness(stubborn, stubborn, theirs, WITH_A_WELL)
    assert other.mean_divergence == pytest.approx(1) and other.accuracy > 0.95
    with pytest.raises(ValueError, match="two fights of each"):
        likeness(theirs[:1], theirs, theirs, WITH_A_WELL)


def test_answers_leave_what_was_seen_and_obey_what_was_open() -> None:
    fights = random_fights(3, 12)
    fights[1] = replace(
        fights[1], **{name: getattr(fights[1], name)[:5] for name in ("observations", "masks", "actions")}
    )
    acting = make_opponent("scripted", NH, find_game("NhEnv"))
    assert acting is not None
    found = answers(acting, fights)
    assert [len(each.actions) for each in found] == [12, 5, 12]
    for before, after in zip(fights, found, strict=True):
        assert after.observations is before.observations and after.masks is before.masks
        assert (after.actions >= 0).all() and (after.actions < NH.head_sizes).all()


def test_habits_of_a_fight_that_is_known() -> None:
    seen, actions = np.zeros((30, NH.num_observations), np.float32), np.zeros((30, NH.num_heads), np.int64)
    seen[:, NH.observation_index("player_health_percent")] = np.linspace(1, 0.1, 30)
    seen[:10, NH.observation_index("target_using_melee")] = 1
    seen[10:20, NH.observation_index("target_using_ranged")] = 1
    seen[20:, NH.observation_index("target_using_mage")] = 1
    head, against_ranged = NH.action_index("ranged_prayer")
    actions[13, head] = against_ranged  # three ticks late, and never against magic
    food, eats = NH.action_index("eat_primary_food")
    actions[[5, 7], food] = eats
    found = habits(NH, seen, actions)
    assert found["ticks until a prayer suits a new style"].tolist() == [3, LONGEST]
    assert found["share of chosen prayers that suit what is wielded"].tolist() == [1.0]
    np.testing.assert_allclose(found["health at which it eats"], np.linspace(1, 0.1, 30)[[5, 7]], rtol=1e-5)
    assert found["meals in 100 ticks"].tolist() == [pytest.approx(200 / 30)]
    assert found["special attacks in 100 ticks"].tolist() == [0.0]
