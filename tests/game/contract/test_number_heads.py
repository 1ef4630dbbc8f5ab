"""Heads that are numbers: in contracts, their files, action spaces and checks, and in what scripts and viewers do."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from sb3_pvp.game import PlainViewer, make_world
from sb3_pvp.game.checks import check_world
from sb3_pvp.game.contract import Contract, ContractError, Head, Observation, SubAction, read_contract
from sb3_pvp.game.contract.turn import Turn, check_actions
from sb3_pvp.matches.replay.recording import decision_of, heads_of
from sb3_pvp.policies.files.description import contract_hash
from tests.game.aiming_game import CONTRACT, AimForTwo

SEEN = (Observation("seen", ""),)
STEPS = Head("step", "", (SubAction("left", ""), SubAction("right", ""), SubAction("stay", "")))
MIXED = Contract("mixed", (Head("force", "How strongly.", number=True), STEPS), SEEN)


def test_a_number_has_one_entry_and_a_box_of_its_own() -> None:
    assert MIXED.head_sizes == (1, 3) and MIXED.numbers.tolist() == [0] and MIXED.flat_index("force") == 0
    assert MIXED.action_space == spaces.Box(np.array([-1, 0], np.float32), np.array([1, 2], np.float32))
    assert isinstance(Contract("choices", (STEPS,), SEEN).action_space, spaces.MultiDiscrete)
    again = pickle.loads(pickle.dumps(MIXED))
    assert again == MIXED and contract_hash(again) == contract_hash(MIXED)
    choice = Contract("mixed", (Head("force", "How strongly.", (SubAction("force", ""),)), STEPS), SEEN)
    assert contract_hash(choice) != contract_hash(MIXED)
    with pytest.raises(ContractError, match="head 'force' is a number: leave out its choices"):
        Contract("wrong", (Head("force", "", STEPS.actions, number=True),), SEEN)


def test_a_file_may_have_numbers(tmp_path: Path) -> None:
    heads = [{"id": "force", "about": "How strongly.", "number": True}]
    heads.append({"id": "step", "about": "", "choices": [{"id": each, "about": ""} for each in ("left", "right")]})
    (tmp_path / "game.json").write_text(json.dumps({"heads": heads, "observations": [{"id": "seen", "about": ""}]}))
    contract = read_contract(tmp_path / "game.json")
    assert contract.numbers.tolist() == [0] and contract.head_sizes == (1, 2)


def test_random_actions_are_in_the_space() -> None:
    rng, mask = np.random.default_rng(0), np.array([[True, False, True, False]] * 300)
    actions = MIXED.random_action(mask, rng)
    assert actions.dtype == np.float32 and all(MIXED.action_space.contains(each) for each in actions)
    assert (actions[:, 1] == 1).all() and actions[:, 0].min() < -0.9 < 0.9 < actions[:, 0].max()


def test_numbers_are_cut_and_choices_checked() -> None:
    given = [[3.5, 2.0], [-0.25, 0.0]]
    checked = check_actions(given, MIXED, 2)
    assert checked.dtype == np.float32 and checked.tolist() == [[1.0, 2.0], [-0.25, 0.0]]
    assert check_actions([1, 2], MIXED).tolist() == [1.0, 2.0]
    for wrong, fault in (
        ([0.0, 3.0], "head 'step' has the actions 0 to 2, got 3.0"),
        ([0.0, 0.5], "head 'step' has the actions 0 to 2, got 0.5"),
        ([0.0, np.nan], "head 'step' has the actions 0 to 2, got nan"),
        ([np.nan, 0.0], "the actions of mixed have NaN where numbers from -1 to 1 should be"),
        ([0.0], "must have shape"),
    ):
        with pytest.raises(ValueError, match=fault):
            check_actions(wrong, MIXED)


def test_a_script_sets_numbers() -> None:
    turn = Turn(MIXED, np.zeros((2, 1), np.float32), np.ones((2, 4), bool), np.zeros(2))
    assert turn.actions().tolist() == [[0, 0], [0, 0]]
    turn.set("force", np.array([0.5, -1]))
    turn.choose("stay", np.array([True, False]))
    assert turn.actions().tolist() == [[0.5, 2.0], [-1.0, 0.0]] and turn.actions().dtype == np.float32
    with pytest.raises(ContractError, match="unknown head"):
        turn.set("farce", 0.0)


def test_a_world_with_numbers_is_one() -> None:
    world = make_world(AimForTwo, "sim", 3)
    check_world(world, ticks=5)
    world.reset(options={"seed": 0})
    actions = np.array([[[1, 0.5, 0, -2]] * 2] * 3, np.float32)
    world.step(actions)
    viewer = PlainViewer(CONTRACT)
    scene = viewer.scene(world, 0, ("a", "b"), actions[0].clip(-1, 1))
    assert "a has chosen first_positive, first_amount 0.5, second_negative, second_amount -1" in viewer.text(scene)
    decision = decision_of(CONTRACT, actions[0, 0], world.masks[0, 0])
    assert decision.chosen == (1, 0.5, 0, -2.0) and [type(each) for each in decision.chosen] == [int, float, int, float]
    assert [head.number for head in heads_of(CONTRACT)] == [False, True, False, True]
