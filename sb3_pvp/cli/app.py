"""The sub-commands put together, and how the console script ends."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from sb3_pvp.cli.evaluate import evaluate
from sb3_pvp.cli.first_fighter import first_fighter
from sb3_pvp.cli.jobs import jobs, tensorboard
from sb3_pvp.cli.league import league
from sb3_pvp.cli.plot import plot
from sb3_pvp.cli.replay import record, replay
from sb3_pvp.cli.sweep import sweep
from sb3_pvp.cli.usage import OLDER_NAMES, run_app
from sb3_pvp.common.errors import Refusal
from sb3_pvp.game import OWN_COMMANDS

_GROUP = "sb3_pvp.commands"


class _Commands(TyperGroup):
    """Our commands, and after them those of games by entry point, imported when they are asked for."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._of_games = {name: EntryPoint(name, place, _GROUP) for name, place in OWN_COMMANDS.items()}
        self._of_games |= {point.name: point for point in entry_points(group=_GROUP)}

    def list_commands(self, context: Any) -> list[str]:
        return [*dict.fromkeys([*super().list_commands(context), *self._of_games])]

    def get_command(self, context: Any, name: str) -> Any:
        if name in self._of_games and name not in self.commands:
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(name)(self._of_games[name].load())
            self.commands[name] = typer.main.get_command(alone)
        return super().get_command(context, name)


app = typer.Typer(
    cls=_Commands, add_completion=False, help="Train, rate and serve self-play fighters.", rich_markup_mode=None
)
app.command(context_settings=OLDER_NAMES)(evaluate)
app.command(context_settings=OLDER_NAMES)(record)
app.command()(first_fighter)
app.command()(plot)
app.command()(replay)
app.command()(tensorboard)
for _name, _group in (("jobs", jobs), ("league", league), ("sweep", sweep)):
    app.add_typer(_group, name=_name)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if show_version:
        typer.echo(f"sb3-pvp {version('sb3-pvp')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise Refusal("no command given; see sb3-pvp --help")


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the console script; bad usage is one line on stderr and exit code 2."""
    run_app(app, "sb3-pvp", arguments)
