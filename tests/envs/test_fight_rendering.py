"""Fights as text."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from sb3_pvp.envs import NhEnv
from sb3_pvp.game import Outcome
from sb3_pvp.game.contract import Contract, load_contract
from sb3_pvp.games.osrs.meta_fields import META_DTYPE
from sb3_pvp.games.osrs.remote.client_replies import ReplyDecoder, View
from sb3_pvp.games.osrs.rendering import ShownFighter, fighters_scene, render_text, scene_of
from sb3_pvp.games.osrs.sim import SimWorld
from tests.envs.fake_world import FakeWorld, ending
from tests.games.osrs.remote.replay import Recording
from tests.games.osrs.sim.recordings import FOLDER

ESCAPE = re.compile(r"\033\[\d+m")
STAB = np.array([3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])


def test_every_tick_of_a_fight_fits_a_terminal() -> None:
    world = SimWorld(1, seed=2, reset_params={"accountBuild": "LMS_MED"})
    world.reset()
    heights = set()
    for _ in range(250):
        actions = world.random_actions()
        world.step(actions)
        lines = ESCAPE.sub("", render_text(scene_of(world, 0, ("a" * 60, "b" * 60), actions[0]))).split("\n")
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


def recorded_frames(path: str, agent: str) -> list[str]:
    """A recorded fight as text, one string per reply."""
    contract = load_contract("DharokEnv")
    replies = map(ReplyDecoder(contract).decode, Recording(FOLDER / path).bodies(agent))
    pairs = ((reply.own, reply.target) for reply in replies)
    return [
        render_text(fighters_scene([drawn("a", contract, own), drawn("b", contract, other)]), color=False)
        for own, other in pairs
    ]


def drawn(name: str, contract: Contract, view: View | None) -> ShownFighter:
    assert view is not None
    return ShownFighter(name, contract, view.obs, np.array([view.meta], META_DTYPE)[0], np.ones(6, int))


def test_it_shows_what_matters_in_the_second_game() -> None:
    frames = recorded_frames("dharok/baseline-10.jsonl.gz", "7020")
    assert all(len(line) <= 80 for frame in frames for line in frame.split("\n"))
    assert len({frame.count("\n") for frame in frames}) == 1
    first = frames[0]
    for expected in ("99/99", "100 %", "wields tentacle", "14 angler, 3 karam", "8 brew 12 restore 4 combat", "ready"):
        assert expected in first, expected
    everything = "\n".join(frames)
    for expected in ("wields greataxe", "wields maul", "no armour", "veng", "hits melee", "> whip_attack use_brew"):
        assert expected in everything, expected
    waits = {
        kind: max(map(int, re.findall(rf"\b{kind} (\d)[,\s]", everything))) for kind in ("attack", "food", "potion")
    }
    assert waits["attack"] >= 6
    assert (waits["food"], waits["potion"]) == (2, 2)


def test_a_contract_without_a_picture_is_refused() -> None:
    contract = replace(load_contract("DharokEnv"), name="Chess")
    fighter = ShownFighter("a", contract, np.zeros(40, np.float32), np.zeros(1, META_DTYPE)[0])
    with pytest.raises(ValueError, match="unknown contract to draw 'Chess'"):
        render_text(fighters_scene([fighter, fighter]))


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


def test_a_timeout_is_shown() -> None:
    env = NhEnv(opponent="noop", world=FakeWorld, max_episode_ticks=1, render_mode="ansi")
    env.reset(seed=0)
    env.step(STAB)
    assert "tick 1 * time is up *" in ESCAPE.sub("", env.render())
