"""``python -m benchmarks train``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchmarks.report import Row, measure, positive_numbers, print_report

if TYPE_CHECKING:
    from benchmarks.stacks import Size


def bench_train(
    batches: Annotated[str, typer.Option(help="Batches to act on, comma-separated.")] = "1,16,100",
    n_envs: Annotated[int, typer.Option(min=1, help="Number of environments of complete training.")] = 100,
    n_steps: Annotated[int, typer.Option(min=1, help="Steps of each environment in a rollout.")] = 128,
    seconds: Annotated[float, typer.Option(min=0.01, help="CPU seconds to spend on each case.")] = 5.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    device: Annotated[str, typer.Option(help="Where networks compute: cpu, cuda. On cuda, look at wall_s.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure acting, learning and complete training, compared with a plain loop over heads and stock MaskablePPO."""
    sizes = positive_numbers(batches, "--batches")
    from benchmarks import stacks

    with stacks.one_thread(seed):
        rows = [
            *_parts_rows(sizes, seed, device, seconds),
            *_complete_rows(stacks.Size(n_envs, n_steps, seed, device), seconds),
        ]
    print_report("train", rows, stacks.PACKAGES, as_json)


def _parts_rows(sizes: list[int], seed: int, device: str, seconds: float) -> list[Row]:
    """Acting and learning with the Core network, fused and as a loop over heads, on samples of real fights."""
    import torch as th

    from benchmarks import stacks

    largest = max(*sizes, stacks.BATCH_SIZE)
    core, loop, samples = stacks.make_core(stacks.Size(64, -(-largest // 64), seed, device))
    rows = []
    for size in sizes:
        batch = samples[th.arange(size, device=device)]
        own = stacks.acting(stacks.CORE, core.policy, batch, stacks.LOOP)
        rows += measure([own, stacks.acting(stacks.LOOP, loop, batch, None)], seconds)
    batch = samples[th.arange(stacks.BATCH_SIZE, device=device)]
    own = stacks.learning(stacks.CORE, core.policy, batch, stacks.LOOP)
    return [*rows, *measure([own, stacks.learning(stacks.LOOP, loop, batch, None)], seconds)]


def _complete_rows(size: Size, seconds: float) -> list[Row]:
    from benchmarks import stacks

    controls = {stacks.CORE: None, stacks.EQUAL: stacks.STOCK, stacks.STOCK: None}
    cases = [stacks.training(name, stacks.make_model(name, size), control) for name, control in controls.items()]
    return measure(cases, seconds)
