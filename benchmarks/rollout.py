"""``python -m benchmarks rollout``."""

from __future__ import annotations

from typing import Annotated

import typer

from benchmarks.report import Row, measure, print_report


def bench_rollout(
    n_envs: Annotated[int, typer.Option(min=1, help="Number of environments.")] = 100,
    n_steps: Annotated[int, typer.Option(min=1, help="Steps of each environment in a rollout.")] = 32,
    seconds: Annotated[float, typer.Option(min=0.01, help="CPU seconds to spend on each case.")] = 5.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure acting alone and whole rollouts, compared with a plain loop over heads and stock MaskablePPO.

    The row of rollouts against 8 models also has the share of the CPU time that these opponents take.
    """
    from benchmarks.stacks import PACKAGES, one_thread

    with one_thread(seed):
        rows = _rows(n_envs, n_steps, seed, seconds)
    print_report("rollout", rows, PACKAGES, as_json)


def _rows(n_envs: int, n_steps: int, seed: int, seconds: float) -> list[Row]:
    import torch as th

    from benchmarks import stacks

    size = stacks.Size(n_envs, n_steps, seed)
    core, loop, samples = stacks.make_core(size)
    equal, stock = stacks.make_model(stacks.EQUAL, size), stacks.make_model(stacks.STOCK, size)
    default, league = stacks.make_model(stacks.DEFAULT, size), stacks.make_league(size)
    batch = samples[th.arange(n_envs)]
    acting = [
        stacks.acting(stacks.CORE, core.policy, batch, stacks.LOOP),
        stacks.acting(stacks.LOOP, loop, batch, None),
        stacks.acting(stacks.EQUAL, equal.policy, batch, stacks.STOCK),
        stacks.acting(stacks.STOCK, stock.policy, batch, None),
    ]
    collecting = [
        stacks.collecting(stacks.CORE, core, None),
        stacks.collecting(stacks.EQUAL, equal, stacks.STOCK),
        stacks.collecting(stacks.STOCK, stock, None),
        stacks.collecting(stacks.DEFAULT, default, None),
        stacks.collecting(stacks.LEAGUE, league, stacks.DEFAULT),
    ]
    rows = [*measure(acting, seconds), *measure(collecting, seconds)]
    rows[-1]["opponents_share"] = stacks.opponents_share(collecting[-1], league)
    return rows
