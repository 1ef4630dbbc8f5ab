"""The learner in the second seat: the same fights, seen and played from the other side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sb3_pvp.envs import NhVecEnv, OpponentChoice, PvpVecEnv
from sb3_pvp.game.contract import load_contract
from sb3_pvp.policies.acting import Decision

CONTRACT = load_contract("NhEnv")
ROWS, TICKS = 4, 500


class Puppet:
    """An opponent that does what it is told, and remembers what it saw."""

    frame_ages = (0, 1)

    def initial_state(self, seeds: Any) -> Any:
        return np.zeros((len(seeds), 0), np.float32)

    def predict(self, observation: Any, state: Any, starts: Any, deterministic: bool, masks: Any) -> Decision:
        self.seen, self.masks = observation, masks
        return self.told, None


def make(seat: int) -> tuple[PvpVecEnv, Puppet]:
    puppet = Puppet()
    env = NhVecEnv(ROWS, OpponentChoice(puppet, name="puppet"), seed=5, frame_ages=(0, 1), noise=None)
    env.fights.take_seat(seat)
    env.reset()
    return env, puppet


def tell(env: PvpVecEnv, puppet: Puppet, actions: Any, seat: int) -> Any:
    puppet.told = actions[:, 1 - seat]
    return env.step(actions[:, seat])


def test_both_seats_are_the_two_sides_of_the_same_fights() -> None:
    (first, told), (second, teller) = make(0), make(1)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(TICKS):
        assert np.array_equal(first.fights.world.obs, second.fights.world.obs)
        seen = second.fights.observation()
        assert np.array_equal(seen["observation"][:, 0], second.fights.world.obs[:, 1])
        assert np.array_equal(seen["privileged"][:, 0], first.fights.world.obs[:, 0][:, CONTRACT.partial_indices])
        assert np.array_equal(second.action_masks(), second.fights.world.masks[:, 1])
        choices = CONTRACT.random_action(first.fights.world.masks.reshape(2 * ROWS, -1), rng).reshape(ROWS, 2, -1)
        before = first.fights.observation()["observation"]
        _, rewards, dones, infos = tell(first, told, choices, 0)
        _, others, over, reports = tell(second, teller, choices, 1)
        assert np.array_equal(teller.seen, before) and np.array_equal(told.seen, seen["observation"])
        assert np.array_equal(dones, over) and (others[dones] != rewards[dones]).all()
        for row in np.flatnonzero(dones):
            outcomes = infos[row]["outcome"], reports[row]["outcome"]
            assert {*outcomes} in ({"won", "lost"}, {"tied"}) and infos[row]["seed"] == reports[row]["seed"]
            ends += 1
    assert ends >= ROWS


def test_a_snapshot_knows_the_seat() -> None:
    env, puppet = make(1)
    rng = np.random.default_rng(1)
    tell(env, puppet, CONTRACT.random_action(env.fights.world.masks.reshape(2 * ROWS, -1), rng).reshape(ROWS, 2, -1), 1)
    again, other = make(0)
    again.set_state(env.get_state())
    for _ in range(20):
        masks = env.fights.world.masks.reshape(2 * ROWS, -1)
        choices = CONTRACT.random_action(masks, rng).reshape(ROWS, 2, -1)
        one, two = tell(env, puppet, choices, 1), tell(again, other, choices, 1)
        assert all(np.array_equal(one[0][key], part) for key, part in two[0].items())
        assert np.array_equal(one[1], two[1]) and np.array_equal(puppet.seen, other.seen)


def test_the_worlds_bot_takes_the_first_seat_and_its_own_start() -> None:
    env = NhVecEnv(2, OpponentChoice("baseline", reset_params={"build": "pure"}), seed=5)
    assert env.fights._world_options(env.fights.opponents.current[0], 1, {})["bots"] == (None, "baseline")
    env.fights.take_seat(1)
    options = env.fights._world_options(env.fights.opponents.current[0], 1, {"reset_params": {"build": "zerker"}})
    assert options["bots"] == ("baseline", None)
    assert [each["build"] for each in options["seat_reset_params"]] == ["pure", "zerker"]


def test_self_play_is_refused_from_the_second_seat() -> None:
    env = NhVecEnv(2, "self", seed=0)
    env.fights.take_seat(1)
    with pytest.raises(ValueError, match="the learner sits in seat 1") as error:
        env.reset()
    assert "\n" not in str(error.value)
