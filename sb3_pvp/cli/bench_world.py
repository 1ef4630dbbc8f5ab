"""``sb3-pvp bench world``."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from sb3_pvp import __version__
from sb3_pvp.cli.usage import UsageError

# Every build, randomised gear and fight type: the widest mix that the world knows.
BUILDS = ["PURE", "ZERKER", "MED", "MAXED", "LMS_PURE", "LMS_ZERKER", "LMS_MED"]
RANDOMISED = {
    "randomizeBuild": True,
    "randomBuildOptions": BUILDS,
    "randomizeGear": True,
    "randomizeFightType": True,
}
_FIRST_TICK = """
from sb3_pvp.sim import SimWorld
world = SimWorld(num_fights=1)
world.reset()
world.step(world.random_actions())
"""
COLUMNS = ("case", "n", "agent_steps", "cpu_s", "wall_s", "agent_steps_per_core_s", "bytes_per_fight")


def bench_world(
    fights: Annotated[str, typer.Option(help="Numbers of fights, comma-separated.")] = "1,32,1024,16384",
    seconds: Annotated[float, typer.Option(min=0.01, help="CPU seconds to spend on each number of fights.")] = 3.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the worlds.")] = 0,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Also measure compiling, in own processes.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure the embedded world: randomised builds, random legal actions, everything a tick writes."""
    rows = [_ticks_row(count, seconds, seed) for count in _numbers(fights)]
    rows += _start_rows() if start else []
    versions = {"sb3_pvp": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in ("numba", "numpy")}
    if as_json:
        typer.echo(json.dumps({"bench": "world", "rows": rows, "versions": versions}))
        return
    typer.echo("".join(f"{name:>24}" for name in COLUMNS))
    for row in rows:
        typer.echo("".join(f"{_text(row.get(name)):>24}" for name in COLUMNS))


def _ticks_row(num_fights: int, seconds: float, seed: int) -> dict[str, Any]:
    from sb3_pvp.sim import SimWorld

    world = SimWorld(num_fights=num_fights, seed=seed, reset_params=RANDOMISED)
    world.reset()
    _tick(world)  # compiles, if nothing did before
    ticks, cpu, wall = 0, -time.process_time(), -time.perf_counter()
    while time.process_time() + cpu < seconds:
        _tick(world)
        ticks += 1
    cpu, wall = cpu + time.process_time(), wall + time.perf_counter()
    row = _row("random legal actions", num_fights, 2 * num_fights * ticks, cpu, wall)
    return row | {"bytes_per_fight": world.nbytes_per_fight}


def _tick(world: Any) -> None:
    """One tick of every fight; fights that ended begin anew, as in training."""
    world.step(world.random_actions())
    ended = world.outcome.any(1).nonzero()[0]
    if ended.size:
        world.reset(ended)


def _start_rows() -> list[dict[str, Any]]:
    """A fresh process up to its first tick, with an empty compile cache and then with the cache that it left."""
    with TemporaryDirectory() as cache:
        return [_start_row(case, {"NUMBA_CACHE_DIR": cache}) for case in ("cold start", "warm start")]


def _start_row(case: str, environment: dict[str, str]) -> dict[str, Any]:
    cpu, wall = -_cpu_of_children(), -time.perf_counter()
    subprocess.run([sys.executable, "-c", _FIRST_TICK], env=os.environ | environment, check=True)
    return _row(case, 1, 2, cpu + _cpu_of_children(), wall + time.perf_counter())


def _cpu_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _row(case: str, n: int, agent_steps: int, cpu: float, wall: float) -> dict[str, Any]:
    rates = {"agent_steps": agent_steps, "cpu_s": cpu, "wall_s": wall, "agent_steps_per_core_s": agent_steps / cpu}
    return {"case": case, "n": n, **rates}


def _numbers(text: str) -> list[int]:
    numbers = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if min(numbers) < 1:
        raise UsageError(f"--fights must be positive numbers such as 1,32,1024; got {text!r}")
    return numbers


def _text(value: Any) -> str:
    return "" if value is None else f"{value:,.2f}" if isinstance(value, float) else str(value)
