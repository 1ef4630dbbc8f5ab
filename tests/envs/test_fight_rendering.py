"""Fights as text."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sb3_pvp.envs import NhEnv
from sb3_pvp.envs.render import render_world
from sb3_pvp.sim import SimWorld
from sb3_pvp.world import Outcome
from tests.envs.fake_world import FakeWorld, ending

ESCAPE = re.compile(r"\033\[\d+m")
STAB = np.array([3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])


def test_every_tick_of_a_fight_fits_a_terminal() -> None:
    world = SimWorld(1, seed=2, reset_params={"accountBuild": "LMS_MED"})
    world.reset()
    heights = set()
    for _ in range(250):
        actions = world.random_actions()
        world.step(actions)
        lines = ESCAPE.sub("", render_world(world, 0, ("a" * 60, "b" * 60), actions[0])).split("\n")
        heights.add(len(lines))
        assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert len(heights) == 1


def test_it_shows_what_matters() -> None:
    env = NhEnv(opponent="noop", world=FakeWorld, render_mode="ansi")
    env.reset(seed=0)
    assert "99/99" in env.render()
    env.step(STAB)
    text = ESCAPE.sub("", env.render())
    damage = 99 - int(env.fights.world.hitpoints[0, 1])
    assert "tick 1" in text
    assert "[0] learner" in text
    assert "[1] noop" in text
    assert "> melee_attack basic_melee_attack" in text
    assert f"hits melee {damage}" in text
    assert f"{99 - damage}/99" in text
    assert "does nothing" in text  # the opponent


@pytest.mark.parametrize("outcome", list(Outcome)[1:])
def test_it_tells_the_end(outcome: Outcome) -> None:
    env = NhEnv(opponent="noop", world=ending((outcome, Outcome.LOST), tick=1), render_mode="ansi")
    env.reset(seed=0)
    env.step(STAB)
    assert f"learner {outcome.name.replace('_', ' ').lower()}" in env.render()


def test_colours_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    env = NhEnv(world=FakeWorld, render_mode="ansi")
    env.reset(seed=0)
    monkeypatch.delenv("NO_COLOR", raising=False)
    colored = env.render()
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESCAPE.search(colored)
    assert env.render() == ESCAPE.sub("", colored)


def test_human_mode_prints_every_tick(capsys: pytest.CaptureFixture[str]) -> None:
    env = NhEnv(opponent="noop", world=FakeWorld, render_mode="human")
    env.reset(seed=0)
    env.step(STAB)
    env.step(STAB)
    assert env.render() is None  # what `enjoy` calls after every step: it must not print the tick again
    printed = capsys.readouterr().out
    assert [printed.count(f"tick {tick} ") for tick in range(4)] == [1, 1, 1, 0]


def test_unknown_modes_are_refused_and_none_warns() -> None:
    with pytest.raises(TypeError, match="unknown render_mode 'rgb_array'"):
        NhEnv(world=FakeWorld, render_mode="rgb_array")
    env = NhEnv(world=FakeWorld)
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="nothing to render"):
        assert env.render() is None
