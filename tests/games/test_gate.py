"""Gate: a button that costs the agent which presses it, and what the others get for it."""

from __future__ import annotations

import numpy as np
import pytest

from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game import Outcome
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.gate import CONTRACT, EXIT, PRESS, WAIT, Gate, GateWorld


def play(*ticks: tuple[int, int, int]) -> tuple[GateWorld, list[tuple[float, float]]]:
    """Plays a fight of the first side against nobody; returns the world and what it reported of each tick."""
    world, reports = GateWorld(1, 0), []
    world.reset()
    for moves in ticks:
        world.step(np.array([[moves, (WAIT, WAIT, WAIT)]]))
        reports.append((round(float(world.report[0, 0]["pressed"])), round(float(world.report[0, 0]["out"]))))
    return world, reports


def active(world: GateWorld) -> list[bool]:
    flags: list[bool] = CONTRACT.active_agents(world.obs[0, 0]).tolist()
    return flags


def test_it_is_a_world() -> None:
    check_world(GateWorld(8, 0), ticks=40)


def test_who_presses_is_gone_and_the_others_get_out_in_the_next_tick() -> None:
    world, reports = play((PRESS, EXIT, WAIT), (WAIT, EXIT, WAIT), (WAIT, WAIT, WAIT))
    assert reports == [(1, 0), (0, 2), (0, 0)]
    assert active(world) == [False] * 3 and not world.outcome.any()


def test_the_gate_is_open_for_one_tick() -> None:
    world, reports = play((PRESS, WAIT, WAIT), (WAIT, WAIT, WAIT), (WAIT, EXIT, EXIT))
    assert reports == [(1, 0), (0, 0), (0, 0)]
    assert active(world) == [False, True, True]


def test_who_is_gone_has_one_legal_action_and_the_fight_ends_after_five_decisions() -> None:
    world, _ = play((PRESS, WAIT, WAIT))
    assert world.masks[0, 0].reshape(3, 3).tolist() == [[True, False, False], [True] * 3, [True] * 3]
    world, _ = play((PRESS, WAIT, WAIT), (WAIT, EXIT, WAIT), *[(WAIT,) * 3] * 3)
    assert world.outcome[0].tolist() == [Outcome.WON, Outcome.LOST]


def test_the_team_is_rewarded() -> None:
    env = PvpVecEnv(1, game=Gate, opponent="noop")
    env.reset()
    rewards = [env.step(np.array([moves]))[1].item() for moves in [(PRESS, PRESS, WAIT), (WAIT, WAIT, EXIT)]]
    assert rewards == pytest.approx([-0.4, 1.0])
