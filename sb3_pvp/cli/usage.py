"""What commands share: options, progress, and the handling of errors."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from traceback import walk_tb
from typing import Annotated, Any, NoReturn

import typer

from sb3_pvp.common.atomic_files import no_space
from sb3_pvp.common.errors import Refusal, print_in_order, refusal_of
from sb3_pvp.common.stop_signals import stopping
from sb3_pvp.game import WorldError
from sb3_pvp.policies.files.shipped import shipped_names

#: Typer does not export this class, and its module differs between versions.
_UsageError: Any = typer.BadParameter.__bases__[0]


def completing(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Returns what completes a word in a shell to one of these names; to names of files where none begins so."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def choice(names: Sequence[str], *flags: str, text: str) -> Any:
    """Returns an option that takes one of these names: its help and completion show them, the command checks them."""
    return typer.Option(*flags, help=text, metavar="|".join(names), autocompletion=completing(lambda: names))


def _games() -> Iterable[str]:
    from sb3_pvp.game import game_names

    return game_names()


def _presets() -> Iterable[str]:
    from sb3_pvp.algorithms.presets import presets

    return presets()


def _opponents() -> Iterable[str]:
    from sb3_pvp.game import HOME_GAME, find_game

    return ["baseline", *find_game(HOME_GAME).scripts, *shipped_names()]


complete_model = completing(lambda: shipped_names())
complete_opponent, complete_preset, complete_game = completing(_opponents), completing(_presets), completing(_games)

_GAME = typer.Option("--game", help="Game: a name or module:object.", autocompletion=complete_game)
_OPPONENT = "Opponent: baseline, a fighter or script, a model's file, league:DIR or mcts:FILE?simulations=100."

Average = Annotated[bool, typer.Option("--average", help="The averaged policy of a training with ema_decay.")]
GameName = Annotated[str | None, _GAME]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; default: all cores, if the fights take long.")]
JobsFolder = Annotated[Path, typer.Option("--jobs-dir", help="Folder of the jobs.", file_okay=False)]
NumTimesteps = Annotated[int | None, typer.Option("--n-timesteps", "-n", min=1, help="Steps; default: the preset's.")]
Opponent = Annotated[str, typer.Option(help=_OPPONENT, autocompletion=complete_opponent)]
ResetParams = Annotated[str | None, typer.Option(help="How fights start: the game's reset parameters.", metavar="JSON")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same fights.")]
World = Annotated[str, typer.Option(help="Where to fight: sim (in this process) or the address of a server.")]

#: For commands with ``--game``, which also accept its former names ``--env`` and ``--contract``.
OLDER_NAMES = {"token_normalize_func": lambda option: "game" if option in ("env", "contract") else option}


@contextmanager
def progress(text: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar on a terminal, else lines; yields what to call with each number of completed items."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn

    columns = "{task.description}", BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    console = Console(stderr=True)  # stdout is for results
    if not console.is_terminal and total is not None:
        yield _lines(text, total)
        return
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=total)
        yield lambda count: bar.advance(task, count)


def _lines(text: str, total: int) -> Callable[[int], None]:
    from sb3_pvp.common.waiting import ProgressLines

    lines, done = ProgressLines(text, total), 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        lines.show(done)

    return advance


def say_processes(count: int) -> None:
    """Prints in how many processes fights are played, if there are several."""
    if count > 1:
        typer.echo(f"fighting in {count} processes, see --jobs", err=True)


def watched(num_fights: int) -> Callable[[int], AbstractContextManager[Callable[[int], None]]]:
    """Returns what shows the fights that a model file is scored by, see `sb3_pvp.matches.scoring.Watch`."""

    def watch(processes: int) -> AbstractContextManager[Callable[[int], None]]:
        say_processes(processes)
        return progress(f"{num_fights} fights", num_fights)

    return watch


@contextmanager
def resumable(text: str) -> Iterator[None]:
    """Gives this text to the `KeyboardInterrupt` that stops the command: it is printed, with the command line."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(text) from error


def use_one_thread() -> None:
    """Limits PyTorch to one thread unless ``OMP_NUM_THREADS`` is set, for commands that do not train.

    A fighter's network is so small that more threads mostly wait for each other: four times slower on two busy cores.
    """
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def written_alike(command: Any) -> Any:
    """Returns a command after writing its help alike: values in capitals, and paragraphs as wide as the terminal is."""
    for each in getattr(command, "commands", {}).values():
        written_alike(each)
    command.help = re.sub(r"(?<=\S) *\n(?=\S)", " ", command.help or "")
    for parameter in command.params:
        if parameter.metavar is None:
            parameter.metavar = "" if getattr(parameter, "is_flag", False) else str(parameter.name).upper()
        if parameter.param_type_name == "argument":  # whose kind newer versions of Typer show beside its name
            parameter.display_type_rich = lambda ctx: ""
    made = command.get_help_option

    def help_option(context: Any) -> Any:
        if (option := made(context)) is not None:
            option.metavar = ""
        return option

    command.get_help_option = help_option
    return command


@lru_cache(maxsize=4)
def _command_of(app: typer.Typer, at_terminal: bool) -> Any:
    """Returns the command that an app is; Typer reads the signatures of all functions for it, which takes a while."""
    app.rich_markup_mode = "rich" if at_terminal else None  # no box drawing in pipes and files
    return written_alike(typer.main.get_command(app))


def run_app(app: typer.Typer, name: str, arguments: list[str] | None) -> NoReturn:
    """Runs a command line and exits: with code 2 and one line on stderr for wrong usage and impossible values."""
    try:
        print_in_order()
        arguments = sys.argv[1:] if arguments is None else arguments
        with stopping():
            command = _command_of(app, sys.stdout.isatty())
            code = command.main(arguments, prog_name=name, standalone_mode=False, obj={"arguments": arguments})
    except Exception as error:
        machine = no_space(error) or (error if isinstance(error, OSError) else None)
        if sys.flags.dev_mode or not (machine or isinstance(error, (Refusal, ValueError, WorldError, _UsageError))):
            raise  # PYTHONDEVMODE=1: with traceback
        text = refusal_of(machine) if machine else str(error)
        if isinstance(error, _UsageError):
            lacking: Any = getattr(error, "param", None) if "Missing" in type(error).__name__ else None
            is_argument = lacking is not None and lacking.param_type_name == "argument"  # an option's name says it
            text = f"{error.format_message()} {lacking.help if is_argument else ''}".rstrip(". ")
            text += f"; see {error.ctx.command_path} --help" if error.ctx else ""
        print(f"{name}: error: {' '.join(text.split()) or type(error).__name__}", file=sys.stderr)
        if not machine and not _is_deliberate(error, name):
            print(f"{name}: this may be a bug; PYTHONDEVMODE=1 shows the traceback", file=sys.stderr)
        sys.exit(2)
    # If a signal comes while Python runs source text, as dataclasses do, it remembers an unhandled Ctrl-C until it runs
    # source again, and `python -m` would end by SIGINT whatever the exit code is.
    exec("")
    sys.exit(code if isinstance(code, int) else 0)


def _is_deliberate(error: Exception, program: str) -> bool:
    """Returns whether this error says what is wrong with the command line or a file; others may be bugs."""
    if not isinstance(error, ValueError):
        return True
    # What is invalid is a ValueError of our own code; one that comes from inside NumPy may have another cause.
    *_, (frame, _) = walk_tb(error.__traceback__)
    return frame.f_globals["__name__"].partition(".")[0] in ("sb3_pvp", program)
