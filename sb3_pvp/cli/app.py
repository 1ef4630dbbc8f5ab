"""The Typer app of all commands, and the entry point of the console script."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from sb3_pvp.cli.arena import arena
from sb3_pvp.cli.doctor import doctor
from sb3_pvp.cli.exchange import export, import_mlagents, import_upstream, pull, push
from sb3_pvp.cli.exploit import exploit
from sb3_pvp.cli.fights import evaluate, record, replay
from sb3_pvp.cli.imitate import demonstrate_command, imitate, likeness_command
from sb3_pvp.cli.jobs import jobs
from sb3_pvp.cli.league import league
from sb3_pvp.cli.models import models
from sb3_pvp.cli.quickstart import quickstart
from sb3_pvp.cli.runs import plot, presets, runs
from sb3_pvp.cli.serve import NAMES_OF_THE_ORIGINAL, serve
from sb3_pvp.cli.stream import stream
from sb3_pvp.cli.sweep import sweep
from sb3_pvp.cli.usage import OLDER_NAMES, run_app, written_alike
from sb3_pvp.cli.zoo_words import ZooCommand
from sb3_pvp.common.errors import Refusal, command_line, installed, missing
from sb3_pvp.common.stop_signals import interrupts

_ENTRY_POINTS = "sb3_pvp.commands"  #: Entry-point group of the commands of games.
#: For commands that pass all arguments to rl-zoo3's parsers, including ``--help``.
_PASS_THROUGH = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


class _Commands(TyperGroup):
    """Our commands, then those that games add by entry point, which are imported on first use."""

    def list_commands(self, context: Any) -> list[str]:
        """Returns the names of all commands, without importing those of games."""
        return [*dict.fromkeys([*super().list_commands(context), *installed(_ENTRY_POINTS)])]

    def get_command(self, context: Any, name: str) -> Any:
        """Returns a command; imports one of a game, a function or a Typer app, and makes a Typer command of it."""
        found = super().get_command(context, name)
        if found is None and (of_game := installed(_ENTRY_POINTS).get(name)):
            loaded = of_game.load()
            # Typer only makes commands as part of an app; an app with a single command is that command.
            alone = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
            if isinstance(loaded, typer.Typer):
                loaded.rich_markup_mode, alone = self.rich_markup_mode, loaded
            else:
                alone.command(name)(loaded)
            return written_alike(typer.main.get_command(alone))
        if found is None and (lacking := missing(_ENTRY_POINTS, name)):
            raise Refusal(lacking)
        return found

    def invoke(self, context: Any) -> Any:
        """Runs the command; if it was stopped and can be continued, prints how."""
        try:
            with interrupts():
                return super().invoke(context)
        except KeyboardInterrupt as error:
            if error.args:
                print(f"sb3-pvp: {error}: {command_line(*context.obj['arguments'])}", file=sys.stderr)
            raise  # for Typer, which exits with `STOPPED`


app = typer.Typer(
    cls=_Commands,
    help="Train, evaluate and rate self-play fighters. To get started: sb3-pvp quickstart",
    context_settings={"help_option_names": ["-h", "--help"]},  # -h as in rl-zoo3
)


def _zoo(context: typer.Context) -> None:
    from sb3_pvp.zoo.front_ends import COMMANDS

    COMMANDS[str(context.info_name)](context.args)  # "train" or "enjoy", whichever it was called as


# The order here is that of ``--help``.
app.command()(quickstart)
for _name, _verb in (("train", "Train"), ("enjoy", "Watch")):
    _help = f"{_verb} a fighter, with the options of rl-zoo3."
    app.command(_name, cls=ZooCommand, help=_help, context_settings=_PASS_THROUGH)(_zoo)
app.command()(presets)
app.command()(runs)
app.command()(models)
app.command(context_settings=OLDER_NAMES)(evaluate)
app.command(context_settings=OLDER_NAMES)(exploit)
app.command(context_settings=OLDER_NAMES)(imitate)
app.command("demonstrate", context_settings=OLDER_NAMES)(demonstrate_command)
app.command("likeness", context_settings=OLDER_NAMES)(likeness_command)
app.command()(import_upstream)
app.command()(import_mlagents)
app.command()(plot)
app.command(context_settings=OLDER_NAMES)(record)
app.command()(replay)
app.command(context_settings=NAMES_OF_THE_ORIGINAL)(serve)
app.command()(stream)
app.command()(export)
app.command()(push)
app.command()(pull)
app.command()(doctor)
app.command("first-fighter", hidden=True)(quickstart)  # the former name
for _name, _group in (("arena", arena), ("league", league), ("sweep", sweep), ("jobs", jobs)):
    app.add_typer(_group, name=_name)


@app.callback(invoke_without_command=True)  # else --version would need a command
def _options(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", "-V", help="Show the version and exit.")] = False,
) -> None:
    if show_version:
        typer.echo(f"sb3-pvp {version('sb3-pvp')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs the console script, see `run_app`."""
    run_app(app, "sb3-pvp", arguments)
