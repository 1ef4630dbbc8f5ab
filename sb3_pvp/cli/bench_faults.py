"""``sb3-pvp bench faults``."""

from __future__ import annotations

from typing import Annotated

import typer

from sb3_pvp.cli.bench_report import Row, print_report
from sb3_pvp.cli.usage import UsageError, bad_usage_if_refused
from sb3_pvp.rsps.fault_proxy import DIRECTIONS, KINDS, RandomFaults

TOGETHER, REQUESTS = "together", "together, requests only"


def bench_faults(
    rate: Annotated[float, typer.Option(help="Share of the lines that suffer each kind of fault.")] = 0.01,
    steps: Annotated[int, typer.Option(min=1, help="Steps of learners, for each case.")] = 10_000,
    n_envs: Annotated[int, typer.Option(min=1, help="Fights in each NhVecEnv.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Seed of faults, actions and the world.")] = 0,
    kinds: Annotated[str, typer.Option(help="Kinds of faults, comma-separated.")] = ",".join(KINDS),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play on a server through a proxy that spoils lines, and check what is promised about it.

    Each kind of fault on its own, then all of them together, then on the way to the server only. Exit code 1 if a call
    takes too long, an exception escapes, a fight counts as what it is not, somebody stays logged in, or another client
    of the same server is disturbed.
    """
    from sb3_pvp.cli.fault_trials import open_course, run_trial

    rows: list[Row] = []
    broken_promises: list[str] = []
    cases = _cases(kinds, rate)
    with open_course(seed) as course:
        for name, faults in cases.items():
            row, broken = run_trial(course, name, faults, n_envs, steps, seed)
            rows.append(row)
            broken_promises += [f"{name}: {text}" for text in broken]
    print_report("faults", rows, ("numpy", "stable-baselines3"), as_json)
    for text in broken_promises:
        typer.echo(text, err=True)
    if broken_promises:
        raise typer.Exit(1)


def _cases(kinds: str, rate: float) -> dict[str, RandomFaults]:
    names = [name.strip() for name in kinds.split(",")]
    every = dict.fromkeys(names, rate)
    if not rate > 0:
        raise UsageError(f"--rate must be more than 0; got {rate:g}")
    with bad_usage_if_refused():
        single = {name: RandomFaults({name: rate}, DIRECTIONS) for name in every}
        return {**single, TOGETHER: RandomFaults(every), REQUESTS: RandomFaults(every, DIRECTIONS[:1])}
