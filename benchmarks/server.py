"""``python -m benchmarks server``."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.report import Row, Turn, make_row, print_report
from benchmarks.server_process import CPU_RESOLUTION, ServerProcess, Usage, allow_descriptors, started_server
from sb3_pvp.common.errors import refusals

if TYPE_CHECKING:
    from benchmarks.server_load import Load

#: File descriptors that client and server need besides those of the connections.
_SPARE = 200
#: Seconds from the last rapid connection to the end of the measurement.
_AFTERWARDS = 1.0


def bench_server(
    connections: Annotated[int, typer.Option(min=1, help="How many clients fight at the same time.")] = 100,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure, on the wall clock.")] = 10.0,
    pairs: Annotated[float, typer.Option(min=0, max=1, help="Share of the clients that fight each other.")] = 0.5,
    pace: Annotated[
        float | None, typer.Option(min=0.01, help="Requests per second of each client; as many as it can by default.")
    ] = None,
    rapid_connects: Annotated[
        int, typer.Option(min=0, help="Further connections that send nonsense and close while the others fight.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the server and of the clients.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure a sim-server in a separate process: CPU time, latency, memory, descriptors, lost steps.

    The exit code is 1 if a step was lost.
    """
    from benchmarks.server_load import Load

    with refusals():
        allow_descriptors(connections + _SPARE)
        with started_server(seed) as server:
            load = Load(("127.0.0.1", server.port), connections, pairs, pace, seed)
            row = asyncio.run(_measure(server, load, seconds, rapid_connects))
    print_report("server", [row], ("numba", "numpy", "orjson"), as_json)
    for reason, count in load.faults.items():
        typer.echo(f"{count} times: {reason}", err=True)
    if load.faults:
        raise typer.Exit(1)


async def _measure(server: ServerProcess, load: Load, seconds: float, rapid_connects: int) -> Row:
    """Measures from the moment when all clients fight, until the time is over and all rapid connections were made."""
    await load.start()
    before, wall, steps = server.usage(), -time.perf_counter(), len(load.latencies)
    _, accepted = await asyncio.gather(asyncio.sleep(seconds), load.connect_rapidly(rapid_connects))
    # Until the server has noticed that they are closed, their descriptors would look like a leak.
    await asyncio.sleep(_AFTERWARDS if rapid_connects else 0)
    after, wall = server.usage(), wall + time.perf_counter()
    latencies = np.array(load.latencies[steps:])
    await load.end()
    # A short measurement may round to 0 CPU seconds.
    turn = Turn(len(latencies), max(after.cpu_s - before.cpu_s, CPU_RESOLUTION), wall)
    row = make_row(f"{load.num_paired} in pairs, {load.size - load.num_paired} against the bot", load.size, turn)
    counts = {"rapid_connects": accepted, "lost_steps": sum(load.faults.values())}
    return row | _speed(latencies, wall) | _resources(before, after) | counts


def _speed(latencies: NDArray[np.float64], wall: float) -> Row:
    p50, p99 = np.percentile(latencies, (50, 99)) * 1000 if len(latencies) else (None, None)
    return {"agent_steps_per_s": len(latencies) / wall, "p50_ms": p50, "p99_ms": p99}


def _resources(before: Usage, after: Usage) -> Row:
    return {
        "rss_mb_start": before.rss_mb,
        "rss_mb_end": after.rss_mb,
        "descriptors_start": before.descriptors,
        "descriptors_end": after.descriptors,
    }
