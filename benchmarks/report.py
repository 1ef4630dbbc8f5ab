"""Shared parts of the benchmarks: cases that are measured in turns, and reports as a table or JSON."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median
from typing import Any

import psutil
import typer

from sb3_pvp import __version__
from sb3_pvp.common.errors import Refusal

#: Turns of each case. Cases take turns, so that a slow phase of the machine affects all of them.
ROUNDS = 5
MEASURED = ("case", "n", "agent_steps", "cpu_s", "wall_s", "agent_steps_per_core_s")
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Something to measure.

    Attributes:
        name: in the report.
        n: its size, such as a batch or a number of environments.
        agent_steps: steps of one seat per call of ``run``.
        run: runs the case once.
        control: name of the case that its speed is divided by.
    """

    name: str
    n: int
    agent_steps: int
    run: Callable[[], object]
    control: str | None = None


@dataclass(frozen=True)
class Turn:
    """A measurement: agent steps, CPU seconds of all threads of this process, and wall-clock seconds."""

    agent_steps: int
    cpu: float
    wall: float

    @property
    def rate(self) -> float:
        """Agent steps per second of one core."""
        return self.agent_steps / self.cpu


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of all that it has started, also of those that have ended."""
    me = psutil.Process()
    total = 0.0
    for each in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += sum(each.cpu_times()[:4])  # its own, and those of its children that have ended
    return total


def measure(cases: Sequence[Case], seconds: float, rounds: int = ROUNDS) -> list[Row]:
    """Measures cases in turns, for about ``seconds`` of CPU time each, after a warm-up call of each.

    A row's ``ratio`` is the median over the rounds of its speed divided by that of its control in the same round.
    """
    for case in cases:
        case.run()
    turns = [{case.name: take_turn(case, seconds / rounds) for case in cases} for _ in range(rounds)]
    return [_case_row(case, turns) for case in cases]


def take_turn(case: Case, seconds: float) -> Turn:
    """Calls ``run`` once, and again until ``seconds`` of CPU time are spent."""
    calls, cpu, wall = 0, -time.process_time(), -time.perf_counter()
    while not calls or time.process_time() + cpu < seconds:
        case.run()
        calls += 1
    return Turn(calls * case.agent_steps, cpu + time.process_time(), wall + time.perf_counter())


def make_row(case: str, n: int, turn: Turn, **more: Any) -> Row:
    """Returns one row of a report: the columns of `MEASURED`, then ``more``."""
    values = (case, n, turn.agent_steps, turn.cpu, turn.wall, turn.rate)
    return dict(zip(MEASURED, values, strict=True)) | more


def print_report(bench: str, rows: list[Row], packages: Iterable[str], as_json: bool) -> None:
    """Prints one JSON object (with the versions of Python, of this and of other ``packages``), or a table."""
    if as_json:
        versions = {"sb3_pvp": __version__, "python": platform.python_version()}
        versions |= {name: version(name) for name in packages}
        typer.echo(json.dumps({"bench": bench, "rows": rows, "versions": versions}))
        return
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, *([_text(row.get(name)) for name in columns] for row in rows)]
    widths = [max(map(len, cells)) + 2 for cells in zip(*lines, strict=True)]
    for line in lines:
        typer.echo("".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def positive_numbers(text: str, option: str) -> list[int]:
    """Parses comma-separated positive integers; raises `Refusal` for anything else."""
    numbers = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if min(numbers) < 1:
        raise Refusal(f"{option} must be positive numbers such as 1,32,1024; got {text!r}")
    return numbers


def _case_row(case: Case, turns: list[dict[str, Turn]]) -> Row:
    own = [turn[case.name] for turn in turns]
    total = Turn(sum(t.agent_steps for t in own), sum(t.cpu for t in own), sum(t.wall for t in own))
    row = make_row(case.name, case.n, total)
    if case.control is None:
        return row
    ratio = median(turn[case.name].rate / turn[case.control].rate for turn in turns)
    return row | {"control": case.control, "ratio": ratio}


def _text(value: Any) -> str:
    return "" if value is None else f"{value:,.2f}" if isinstance(value, float) else str(value)


def running_means(values: Sequence[float], window: int) -> list[float]:
    """Returns the mean of the last ``window`` values after each of them, at first of fewer."""
    starts = [max(0, i - window) for i in range(1, len(values) + 1)]
    return [sum(values[start:end]) / (end - start) for end, start in enumerate(starts, 1)]
