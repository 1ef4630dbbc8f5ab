"""Wrong arguments of worlds are refused before anything changes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from sb3_pvp.game.contract import load_contract
from sb3_pvp.game.contract.turn import fight_numbers, joint_actions
from sb3_pvp.games.osrs.sim.world import SimWorld

CONTRACT = load_contract("NhEnv")


@pytest.mark.parametrize("fights", [[-1], [4], [0, 2**62], [-(2**63)], -5])
def test_fights_that_do_not_exist(fights: Any) -> None:
    with pytest.raises(ValueError, match="from 0 to 3"):
        fight_numbers(fights, 4)


@pytest.mark.parametrize(
    ("fights", "numbers"),
    [(None, [0, 1, 2, 3]), ([], []), (3, [3]), ([2, 0, 2], [2, 0, 2]), ([True, False] * 2, [0, 2])],
)
def test_fights_are_numbers_or_flags(fights: Any, numbers: list[int]) -> None:
    assert fight_numbers(fights, 4).tolist() == numbers


def test_options_are_checked_although_equal_ones_are_known() -> None:
    world = SimWorld(3)
    for known in ({"training": True}, {"reset_params": {"accountBuild": "MED"}}):
        world.reset(None, known)
    for wrong in ({"training": 1}, {"reset_params": {"accountBuild": "MED", "agent": 1}}, {"seed": -1}, {"seeds": 1}):
        with pytest.raises(ValueError, match="must be|unknown"):
            world.reset([1], {"training": True, **wrong})


def test_fights_of_known_options_differ_in_their_seeds_only() -> None:
    shared, listed = SimWorld(20, seed=1), SimWorld(20, seed=2)
    for world in (shared, listed):  # more options than are kept
        for build, smite, gear in product(("PURE", "MED", "ZERKER"), (True, False), (True, False)):
            params = {"accountBuild": build, "allowSmite": smite, "randomizeGear": gear}
            for training in (True, False):
                world.reset([0], {"reset_params": params, "training": training})
    shared.reset(None, {"seed": 5, "bots": (None, "baseline")})
    listed.reset(None, [{"bots": (None, "baseline"), "seed": 5 + fight} for fight in range(20)])
    assert np.array_equal(shared.obs, listed.obs) and np.array_equal(shared.fights, listed.fights)
    assert len(np.unique(shared.fights["rng"])) == 20


@pytest.mark.parametrize("head", range(CONTRACT.num_heads))
def test_every_action_lies_in_its_head(head: int) -> None:
    actions = np.zeros((3, 2, CONTRACT.num_heads), np.int64)
    actions[1, 1, head] = CONTRACT.head_sizes[head] - 1
    assert np.array_equal(joint_actions(actions.astype(np.uint8), 3, CONTRACT), actions)
    for outside in (CONTRACT.head_sizes[head], 2**62, -1, -(2**63)):
        actions[1, 1, head] = outside
        with pytest.raises(ValueError, match="has the actions"):
            joint_actions(actions, 3, CONTRACT)
