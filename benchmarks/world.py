"""``python -m benchmarks world``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from benchmarks.report import Case, Row, Turn, make_row, measure, positive_numbers, print_report, take_turn
from sb3_pvp.games.osrs.meta_fields import RANDOMISED

_FIRST_TICK = """
from sb3_pvp.games.osrs import SimWorld
world = SimWorld(num_fights=1)
world.reset()
world.step(world.random_actions())
"""


def bench_world(
    fights: Annotated[str, typer.Option(help="Numbers of fights, comma-separated.")] = "1,32,1024,16384",
    seconds: Annotated[float, typer.Option(min=0.01, help="CPU seconds to spend on each number of fights.")] = 3.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the worlds.")] = 0,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Also measure compiling, in new processes.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure the embedded world with randomised builds and random legal actions, for both seats.

    And the two faces of many fights against the bot, Gymnasium's and that of Stable-Baselines3, in turns.
    """
    counts = positive_numbers(fights, "--fights")
    rows = [_ticks_row(count, seconds, seed) for count in counts]
    rows += [row for count in counts if count > 1 for row in _faces_rows(count, seconds, seed)]
    rows += _start_rows() if start else []
    print_report("world", rows, ("numba", "numpy"), as_json)


def _ticks_row(num_fights: int, seconds: float, seed: int) -> Row:
    from sb3_pvp.games.osrs.sim import SimWorld

    world = SimWorld(num_fights=num_fights, seed=seed, reset_params=RANDOMISED)
    world.reset()
    _tick(world)  # compiles the rules if they are not in the cache
    case = Case("random legal actions", num_fights, 2 * num_fights, lambda: _tick(world))
    return make_row(case.name, case.n, take_turn(case, seconds), bytes_per_fight=world.nbytes_per_fight)


def _faces_rows(count: int, seconds: float, seed: int) -> list[Row]:
    import gymnasium as gym
    import numpy as np

    from sb3_pvp.envs import NhVecEnv

    ours, theirs = NhVecEnv(count, seed=seed), gym.make_vec("sb3_pvp:NhEnv", count)
    ours.reset(), theirs.reset(seed=seed)
    idle = np.zeros(theirs.action_space.shape or (), np.int64)
    cases = [
        Case("NhVecEnv", count, count, lambda: ours.step(idle)),
        Case("gymnasium.make_vec", count, count, lambda: theirs.step(idle), "NhVecEnv"),
    ]
    return measure(cases, seconds)


def _tick(world: Any) -> None:
    """Plays one tick of every fight and restarts fights that have ended, as in training."""
    world.step(world.random_actions())
    ended = world.outcome.any(1).nonzero()[0]
    if ended.size:
        world.reset(ended)


def _start_rows() -> list[Row]:
    """Measures a new process up to its first tick, with an empty compile cache and then with the filled one."""
    with TemporaryDirectory() as cache:
        return [_start_row(case, {"NUMBA_CACHE_DIR": cache}) for case in ("cold start", "warm start")]


def _start_row(case: str, environment: dict[str, str]) -> Row:
    cpu, wall = -_cpu_of_children(), -time.perf_counter()
    subprocess.run([sys.executable, "-c", _FIRST_TICK], env=os.environ | environment, check=True)
    return make_row(case, 1, Turn(2, cpu + _cpu_of_children(), wall + time.perf_counter()))


def _cpu_of_children() -> float:
    # These include a child only after it has been waited for, as `subprocess.run` does.
    times = os.times()
    return times.children_user + times.children_system
