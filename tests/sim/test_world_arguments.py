"""Wrong arguments of worlds are refused before anything changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sb3_pvp.contract import load_contract
from sb3_pvp.contract.actions import fight_numbers, joint_actions

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


@pytest.mark.parametrize("head", range(CONTRACT.num_heads))
def test_every_action_lies_in_its_head(head: int) -> None:
    actions = np.zeros((3, 2, CONTRACT.num_heads), np.int64)
    actions[1, 1, head] = CONTRACT.head_sizes[head] - 1
    assert np.array_equal(joint_actions(actions.astype(np.uint8), 3, CONTRACT), actions)
    for outside in (CONTRACT.head_sizes[head], 2**62, -1, -(2**63)):
        actions[1, 1, head] = outside
        with pytest.raises(ValueError, match="has the actions"):
            joint_actions(actions, 3, CONTRACT)
