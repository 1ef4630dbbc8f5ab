"""``python -m benchmarks faults``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from benchmarks.fault_proxy import DIRECTIONS, KINDS, RandomFaults
from benchmarks.report import Row, print_report
from sb3_pvp.common.errors import Refusal, refusals


class Mode(StrEnum):
    """`benchmarks.fault_trials.MODES` for the command line, without importing that module at start."""

    INDEPENDENT = "independent"
    SYNCHRONOUS = "synchronous"
    TICK = "tick"


class Game(StrEnum):
    """The environment."""

    NH = "NhEnv"
    DHAROK = "DharokEnv"


TOGETHER, REQUESTS = "together", "together, requests only"


def bench_faults(
    rate: Annotated[float, typer.Option(help="Share of the lines that suffer each kind of fault.")] = 0.01,
    steps: Annotated[int, typer.Option(min=1, help="Steps of learners, for each case.")] = 10_000,
    n_envs: Annotated[int, typer.Option(min=1, help="Fights in each NhVecEnv.")] = 16,
    seed: Annotated[int, typer.Option(min=0, help="Seed of faults, actions and the world.")] = 0,
    kinds: Annotated[str, typer.Option(help="Kinds of faults, comma-separated.")] = ",".join(KINDS),
    mode: Annotated[
        Mode, typer.Option(help="What a tick waits for: the agents of its fight, all agents, or a clock.")
    ] = Mode.INDEPENDENT,
    env: Annotated[Game, typer.Option(help="The environment.")] = Game.NH,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play on a server through a proxy that injects faults, and check what is promised about them.

    The cases are each kind of fault, all of them together, and all of them on the way to the server only. The exit code
    is 1 if a call takes too long, an exception escapes, a fight gets a wrong result, an agent stays logged in, or
    another client of the same server loses a fight: on a synchronous server that client waits for the others, and with
    a clock fights in which it is late do not count.

    A synchronous server stops at every lost line: use few environments there, such as --n-envs 2.
    """
    from benchmarks.fault_trials import Terms, open_course, run_trial

    rows: list[Row] = []
    broken_promises: list[str] = []
    cases = _cases(kinds, rate)
    with open_course(seed, Terms(mode.value, env.value)) as course:
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
        raise Refusal(f"--rate must be more than 0; got {rate:g}")
    with refusals():
        single = {name: RandomFaults({name: rate}, DIRECTIONS) for name in every}
        return {**single, TOGETHER: RandomFaults(every), REQUESTS: RandomFaults(every, DIRECTIONS[:1])}
