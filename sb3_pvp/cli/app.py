"""The sub-commands put together, and how the console script ends."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from sb3_pvp import __version__
from sb3_pvp.cli.bench_faults import bench_faults
from sb3_pvp.cli.bench_rollout import bench_rollout
from sb3_pvp.cli.bench_server import bench_server
from sb3_pvp.cli.bench_train import bench_train
from sb3_pvp.cli.bench_world import bench_world
from sb3_pvp.cli.evaluate import evaluate
from sb3_pvp.cli.first_fighter import first_fighter
from sb3_pvp.cli.jobs import jobs
from sb3_pvp.cli.league import league
from sb3_pvp.cli.learning_curve import learning_curve
from sb3_pvp.cli.plot import plot
from sb3_pvp.cli.replay import record, replay
from sb3_pvp.cli.rsps import rsps
from sb3_pvp.cli.sim_server import sim_server
from sb3_pvp.cli.sweep import sweep
from sb3_pvp.cli.tensorboard import tensorboard
from sb3_pvp.cli.usage import UsageError

app = typer.Typer(add_completion=False, help="Train, rate and serve self-play fighters.", rich_markup_mode=None)
app.command("evaluate")(evaluate)
app.command("first-fighter")(first_fighter)
app.command("plot")(plot)
app.command("record")(record)
app.command("replay")(replay)
app.command("rsps")(rsps)
app.command("sim-server")(sim_server)
app.command("tensorboard")(tensorboard)
bench = typer.Typer(help="Measure speed, and what faults do.")
bench.command("world")(bench_world)
bench.command("rollout")(bench_rollout)
bench.command("train")(bench_train)
bench.command("server")(bench_server)
bench.command("faults")(bench_faults)
app.add_typer(bench, name="bench")
app.add_typer(learning_curve, name="learning-curve")
app.add_typer(jobs, name="jobs")
app.add_typer(league, name="league")
app.add_typer(sweep, name="sweep")


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        typer.echo(f"sb3-pvp {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise UsageError("no command given; see sb3-pvp --help")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the console script; bad usage is one line on stderr and exit code 2."""
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="sb3-pvp", standalone_mode=False)
    except UsageError as error:
        print(f"sb3-pvp: error: {' '.join(error.format_message().split())}", file=sys.stderr)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)
