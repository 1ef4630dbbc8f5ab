"""What training forbids beside the world's masks (rewards.md §7), and the time that it follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import sb3_pvp  # noqa: F401  (registers NhEnv)
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.game.contract import load_contract
from sb3_pvp.players.seats import ActionMaskOverride
from tests.envs.fake_world import FakeWorld

CONTRACT = load_contract("NhEnv")
SIZE = CONTRACT.num_flat_actions
NOTHING = np.zeros((3, CONTRACT.num_heads), np.int64)
VENG = CONTRACT.flat_index("use_veng")


def forbidden(override: ActionMaskOverride) -> list[int]:
    return np.flatnonzero(~override.allowed).tolist()


@pytest.mark.parametrize(
    "config",
    [
        {"type": "npboolarray", "size": SIZE, "false-indices": [VENG, 3]},
        {"type": "npboolarray", "false_indices": ["use_veng", 3]},
        {"forbid": ["use_veng", "melee_attack"]},
        {"type": "npboolarray", "default-value": False, "true-indices": [i for i in range(SIZE) if i not in (3, VENG)]},
        [index not in (3, VENG) for index in range(SIZE)],
    ],
)
def test_positions_and_ids_say_what_is_forbidden(config: Any) -> None:
    assert forbidden(ActionMaskOverride(config, CONTRACT)) == [3, VENG]


def test_jumps_unlock_actions() -> None:
    config = {
        "type": "jump",
        "jumps": {0: {"forbid": ["use_veng", "use_brew"]}, "10": {"forbid": ["use_veng"]}, 20: {"forbid": []}},
    }
    override = ActionMaskOverride(config, CONTRACT)
    brew = CONTRACT.flat_index("use_brew")
    for time, expected in ((0, [brew, VENG]), (9, [brew, VENG]), (10, [VENG]), (25, [])):
        override.set_trained_rollouts(time)
        assert forbidden(override) == expected


def test_it_can_only_forbid_and_leaves_every_head_its_first_entry() -> None:
    override = ActionMaskOverride({"forbid": ["no_op_attack", "mage_attack", "dont_use_veng"]}, CONTRACT)
    masks = np.ones((2, SIZE), bool)
    attack, veng = CONTRACT.flat_offset("attack"), CONTRACT.flat_offset("veng")
    masks[1, attack + 2 : attack + 4] = masks[1, veng + 1] = False
    kept = masks.copy()
    left = override.applied(masks)
    assert np.array_equal(masks, kept)
    assert left[0, attack : attack + 4].tolist() == [False, False, True, True]
    assert left[1, attack : attack + 4].tolist() == [True, False, False, False]
    assert left[:, veng : veng + 2].tolist() == [[False, True], [True, False]]
    assert np.array_equal(override.applied(masks[1]), left[1])


@pytest.mark.parametrize("frame_ages", [(0,), (0, 1)])
def test_masks_and_observations_agree(frame_ages: tuple[int, ...]) -> None:
    settings: dict[str, Any] = {"action_mask_override": {"forbid": ["use_veng"]}, "frame_ages": frame_ages}
    vec, single = NhVecEnv(3, world=FakeWorld, **settings), NhEnv(world=FakeWorld, **settings)
    together, (alone, _) = vec.reset(), single.reset(seed=0)
    for _ in range(5):
        assert np.array_equal(together["action_mask"], vec.action_masks())
        assert np.array_equal(together["action_mask"], get_action_masks(vec))
        assert np.array_equal(alone["action_mask"], single.action_masks())
        assert not vec.action_masks()[:, VENG].any()
        assert vec.fights.world.masks[:, :, VENG].all()  # the world, and with it the opponent, is as it was
        together, alone = vec.step(NOTHING)[0], single.step(NOTHING[0])[0]


def test_the_time_of_schedules_is_set_on_every_face() -> None:
    jump = {"type": "jump", "jumps": {0: {"forbid": ["use_veng"]}, 3: {"forbid": []}}}
    settings: dict[str, Any] = {"world": FakeWorld, "action_mask_override": jump}
    direct, through, wrapped = (NhVecEnv(2, **settings) for _ in range(3))
    slow = make_vec_env("NhEnv", 2, env_kwargs=settings, vec_env_cls=DummyVecEnv)
    envs = [direct, through, VecNormalize(wrapped, norm_obs_keys=["observation"]), slow]
    for env in envs:
        env.reset()
        assert not get_action_masks(env)[:, VENG].any()
    direct.set_trained_rollouts(np.int64(3))  # type: ignore[arg-type]
    for env in envs[1:]:
        env.env_method("set_trained_rollouts", 3)
    for env in envs:
        assert get_action_masks(env)[:, VENG].all()
    assert direct.fights.trained_rollouts == 3
    assert type(direct.fights.trained_rollouts) is int


@pytest.mark.parametrize("time", [-1, 1.5, True, None, "3"])
def test_wrong_times_are_refused(time: Any) -> None:
    env = NhEnv(world=FakeWorld)
    with pytest.raises(ValueError, match="trained_rollouts must be a non-negative integer"):
        env.set_trained_rollouts(time)
    assert env.fights.trained_rollouts == 0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"forbid": ["use_vengeance"]}, "unknown sub-action 'use_vengeance' .did you mean 'use_veng'"),
        ({"forbid": "use_veng"}, "false_indices of an npboolarray must be a list"),
        ({"forbid": [SIZE]}, "below its size, 45"),
        ({"type": "npboolarray", "size": 44}, r"must give 45 booleans, one per sub-action, got bool \(44,\)"),
        ({"type": "jump", "jumps": {0: {"forbid": []}, 5: 3}}, r"got int64 \(\) at t = 5"),
        (3, "must give 45 booleans"),
        ({"type": "nothing"}, "unknown schedule type"),
        ({"forbidden": []}, "needs the key 'type'"),
    ],
)
def test_bad_overrides_are_refused(config: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NhEnv(world=FakeWorld, action_mask_override=config)
