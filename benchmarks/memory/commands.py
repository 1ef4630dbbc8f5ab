"""The commands of ``python -m benchmarks memory``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.report import print_report
from sb3_pvp.common.errors import Refusal, refusals, require_known

PACKAGES = ("torch", "stable-baselines3", "sb3-contrib", "numpy")
memory = typer.Typer(help="Show what memory is worth, and what it costs.")
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Out = Annotated[Path, typer.Option(help="The folder of the runs.")]


@memory.command("games")
def games(
    seeds: Annotated[int, typer.Option(min=1, help="So many seeds of each.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each run.")] = 200_000,
    game: Annotated[str, typer.Option(help="cue or habit.")] = "cue",
    as_json: Json = False,
) -> None:
    """Learn a game that only memory wins, with each kind and without.

    A cue is shown at tick 0 and asked for at tick 10; a habit is the hand that an opponent prefers in a fight of
    rock-paper-scissors, of which ``share`` says how much of the best possible return is reached.
    """
    import torch as th

    from benchmarks.memory.games import KINDS, best_return, trained

    th.set_num_threads(1)
    with refusals():
        require_known("game", game, ("cue", "habit"))
    best, rows = best_return() if game == "habit" else 1.0, []
    for kind in KINDS:
        for seed in range(seeds):
            *_, (played, reached) = trained(game, kind, seed, steps)
            row = {"case": kind, "seed": seed, "steps": played, "reached": reached, "share": reached / best}
            typer.echo(f"{kind}, seed {seed}: {reached:.3f}, {reached / best:.1%}", err=True)
            rows.append(row)
    print_report("memory", rows, PACKAGES, as_json)


@memory.command("costs")
def costs(
    n_envs: Annotated[int, typer.Option(min=32, help="Environments of each learner.")] = 128,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over each rollout.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Rollouts of each, in turns.")] = 5,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure rollouts and learning with memory beside none, and beside RecurrentPPO, which knows no masks."""
    from benchmarks.memory.costs import RECURRENT, SHARED, measured, memories
    from benchmarks.stacks import one_thread

    with one_thread(seed):
        rows = measured([*memories(), RECURRENT, SHARED], n_envs, epochs, rounds, seed)
    print_report("memory", rows, PACKAGES, as_json)


@memory.command("serve")
def serve(
    kinds: Annotated[str, typer.Option(help="Comma-separated.")] = "gru,lstm,attention",
    clients: Annotated[int, typer.Option(min=1, help="How many ask at the same time.")] = 256,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each turn, on the wall clock.")] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each.")] = 5,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure sb3-pvp serve with memory beside none, replies per CPU second of the server."""
    from benchmarks.memory.serving import served
    from benchmarks.stacks import one_thread

    with refusals(), one_thread(seed):
        rows = served(kinds.split(","), clients, seconds, rounds, seed)
    print_report("memory", rows, PACKAGES, as_json)


@memory.command("run")
def run(
    jobs: Annotated[list[str], typer.Argument(help="Names of learners with seeds, such as gru:0, in this order.")],
    out: Out,
    minutes: Annotated[float, typer.Option(min=0.1, help="CPU minutes of each run in all.")] = 30.0,
    part: Annotated[float, typer.Option(min=0.01, help="CPU minutes of this part of each run at most.")] = 30.0,
) -> None:
    """Train fighters of NhEnv against themselves and their past, or go on with them, one thread each."""
    from benchmarks.memory.fighters import MEMORIES, train

    with refusals():
        for job in jobs:
            name, _, seed = job.partition(":")
            require_known("learner", name, MEMORIES)
            if not seed.isdecimal():
                raise Refusal(f"a learner is named with its seed, such as {name}:0; got {job!r}")
            train(name, int(seed), out, 60 * minutes, 60 * part)


@memory.command("compare")
def compare(
    out: Out,
    fights: Annotated[int, typer.Option(min=2, help="Of each pair of fighters.")] = 400,
    habits: Annotated[int, typer.Option(min=2, help="Fights against each habit.")] = 400,
    exploit: Annotated[int, typer.Option(min=0, help="Steps of each best response; 0: none.")] = 500_000,
    seed: Seed = 0,
) -> None:
    """Let all trained fighters meet each other, habits that none has seen, and best responses; writes results.json."""
    from benchmarks.memory.fighters import compared

    with refusals():
        compared(out, fights, habits, exploit, seed)


@memory.command("draw")
def draw(
    out: Out,
    picture: Annotated[Path, typer.Option("--picture", "-o", dir_okay=False)] = Path("memory.png"),
) -> None:
    """Draw the results of a folder; print them as a Markdown table."""
    from benchmarks.memory.pictures import draw_results, table

    with refusals():
        draw_results(out, picture)
        typer.echo(table(out))
