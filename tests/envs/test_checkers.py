"""`check_world` and `check_pvp_env`: they pass what is right and name what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sb3_pvp.envs import NhEnv
from sb3_pvp.game import Outcome
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.osrs.meta_fields import RANDOMISED
from sb3_pvp.games.osrs.sim import SimWorld
from tests.envs.env_checks import check_pvp_env
from tests.envs.fake_world import FakeWorld, ending
from tests.reports import check_reports


def test_the_embedded_world_keeps_its_promises() -> None:
    world = SimWorld(12, reset_params=RANDOMISED)
    check_world(world, ticks=250)
    check_reports(world, ticks=250)


def test_the_fake_world_and_its_environment_pass() -> None:
    check_world(FakeWorld(2), ticks=60)
    check_reports(FakeWorld(2), ticks=60)
    check_pvp_env(NhEnv(opponent="noop", world=FakeWorld), ticks=60)


class Float64(FakeWorld):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.obs = self.obs.astype(np.float64)


class NotANumber(FakeWorld):
    def step(self, actions: Any, fights: Any = None) -> None:
        super().step(actions, fights)
        self.meta["attack_level_scale"][0, 1] = np.nan


class Unseeded(FakeWorld):
    """Forgets its seed."""

    def reset(self, fights: Any = None, options: Any = None) -> None:
        generators = list(self._random)
        super().reset(fights, options)
        self._random = generators


class Resurrecting(FakeWorld):
    """The outcome lasts for one tick only."""

    def step(self, actions: Any, fights: Any = None) -> None:
        over = self.outcome != Outcome.RUNNING
        super().step(actions, fights)
        self.outcome[over] = Outcome.RUNNING


class Timeless(FakeWorld):
    def step(self, actions: Any, fights: Any = None) -> None:
        before = self.meta["episode_ticks"].copy()
        super().step(actions, fights)
        self.meta["episode_ticks"] = before


class Careless(FakeWorld):
    """Takes actions of floats."""

    def step(self, actions: Any, fights: Any = None) -> None:
        super().step(np.asarray(actions).astype(np.int64), fights)


class Stuck(FakeWorld):
    """Has a head without a legal action."""

    def reset(self, fights: Any = None, options: Any = None) -> None:
        super().reset(fights, options)
        self.masks[:, 1, self.contract.flat_offset(2) : self.contract.flat_offset(3)] = False


class AnySeed(FakeWorld):
    def reset(self, fights: Any = None, options: Any = None) -> None:
        if isinstance(options, dict) and options.get("seed") == -1:
            options = {}
        super().reset(fights, options)


class TwoDistances(FakeWorld):
    def step(self, actions: Any, fights: Any = None) -> None:
        super().step(actions, fights)
        self.meta["distance"][0, 1] = 3


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (Float64(2), "obs must be float32"),
        (Unseeded(2), "differs after the same seed"),
        (Resurrecting(2), "must keep its outcome"),
        (Timeless(2), "ticks must grow by one"),
        (Stuck(2), "masks must leave every seat an action of head"),
        (Careless(2), "an action of floats must raise ValueError, it was accepted"),
        (AnySeed(2), "seed -1 must raise ValueError"),
        (ending((Outcome.WON, Outcome.TIED))(2), "the seats disagree about the outcome: WON and TIED"),
        (ending((Outcome.LOST, Outcome.RUNNING))(2), "LOST and RUNNING"),
    ],
)
def test_a_broken_world_is_found_out(world: FakeWorld, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_world(world, ticks=60)


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (NotANumber(2), "'attack_level_scale' must be finite"),
        (TwoDistances(2), "the seats disagree: 'distance'"),
    ],
)
def test_a_broken_report_is_found_out(world: FakeWorld, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_reports(world, ticks=60)


class WrongMask(NhEnv):
    def action_masks(self) -> Any:
        return ~super().action_masks()


class WrongDtype(NhEnv):
    def action_masks(self) -> Any:
        return super().action_masks().astype(np.int8)


class Lenient(NhEnv):
    """Repairs wrong actions."""

    def step(self, action: Any) -> Any:
        return super().step(np.clip(np.asarray(action, np.int64), 0, 1))


class Unseedable(NhEnv):
    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return super().reset(seed=None, options=options)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WrongMask, "must equal action_masks"),
        (WrongDtype, "must be bool"),
        (Lenient, "must raise ValueError"),
        (Unseedable, "Gymnasium's checker says"),
    ],
)
def test_a_broken_environment_is_found_out(kind: type[NhEnv], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_pvp_env(kind(opponent="noop", world=FakeWorld), ticks=20)
