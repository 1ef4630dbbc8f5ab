"""What commands have in common: options, how they print, and what bad usage is turned into."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from linecache import getline
from pathlib import Path
from traceback import walk_tb
from typing import Annotated, Any, NoReturn

import orjson
import typer

from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.game import WorldError

#: Typer does not export it, and where it lives differs between versions.
_UsageError: Any = typer.BadParameter.__bases__[0]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
GameName = Annotated[str | None, typer.Option("--game", help="The game: a name or module:object.", metavar="GAME")]
JobsFolder = Annotated[Path, typer.Option("--jobs-dir", help="The folder where jobs are kept.", file_okay=False)]
NumTimesteps = Annotated[int | None, typer.Option("--n-timesteps", "-n", min=1, help="Steps; else the preset's.")]
Opponent = Annotated[str, typer.Option(help="Whom to fight: baseline, a script, a model's zip file or league:DIR.")]
ResetParams = Annotated[str | None, typer.Option(help="How fights start: the game's reset parameters.", metavar="JSON")]
OutFile = Annotated[Path | None, typer.Option("--out", "-o", help="The file; else standard output.", dir_okay=False)]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same fights.")]
World = Annotated[str, typer.Option(help="Where to fight: sim, in this process, or the address of a server.")]

#: For commands that take ``--game``: what it was called before is understood as well.
OLDER_NAMES = {"token_normalize_func": lambda option: "game" if option in ("env", "contract") else option}


def json_object(text: str | None, option: str) -> dict[str, Any]:
    """Parses the value of an option that takes a JSON object, ``{}`` if there is none; else a `Refusal`."""
    with refusals(about=f"{option} is not valid JSON"):
        value = json.loads(text or "{}")
    if not isinstance(value, dict):
        raise Refusal(f"{option} must be a JSON object such as '{{\"name\": 1}}'")
    return value


def tell(figures: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Prints one of the two; figures may be arrays and dataclasses."""
    typer.echo(orjson.dumps(figures, lambda array: array.tolist()) if as_json else text)


def table(rows: Iterable[Iterable[object]]) -> str:
    """Rows as aligned lines, the header first; nothing stands where ``None`` is."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in texts)


def write(text: str, out: Path | None) -> None:
    """Writes a file, or prints the text if there is none."""
    from sb3_pvp.common.atomic_files import write_atomically

    if out is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(out, text)


@contextmanager
def progress(text: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Shows on a terminal how long something takes already, and how far it is: call what this gives as it advances."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn

    columns, console = (
        ("{task.description}", BarColumn(), TaskProgressColumn(), TimeElapsedColumn()),
        Console(stderr=True),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=total)
        yield lambda count: bar.advance(task, count)


def use_one_thread() -> None:
    """For commands that only act: one thread for PyTorch, unless ``OMP_NUM_THREADS`` says otherwise.

    With networks as small as a fighter's, more only wait for one another: on two busy cores four times as long.
    """
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def run_app(app: typer.Typer, name: str, arguments: list[str] | None) -> NoReturn:
    """Runs a command line and exits; what it refuses is one line on stderr that begins with ``name``, and code 2."""
    try:
        if os.getcwd() not in sys.path:  # console scripts lack it, and games may be there; last, to hide no package
            sys.path.append(os.getcwd())
        app.rich_markup_mode = "rich" if sys.stdout.isatty() else None
        arguments = sys.argv[1:] if arguments is None else arguments
        command = typer.main.get_command(app)
        code = command.main(arguments, prog_name=name, standalone_mode=False, obj={"arguments": arguments})
    except (Refusal, ValueError, OSError, WorldError, _UsageError) as error:
        if sys.flags.dev_mode:  # PYTHONDEVMODE=1 shows where
            raise
        text = str(error)
        if isinstance(error, _UsageError):
            text = error.format_message().rstrip(".") + (f"; see {error.ctx.command_path} --help" if error.ctx else "")
        print(f"{name}: error: {' '.join(text.split()) or type(error).__name__}", file=sys.stderr)
        if not _is_meant(error, name):
            print(f"{name}: if this is no mistake of yours, PYTHONDEVMODE=1 shows where it is from", file=sys.stderr)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _is_meant(error: Exception, program: str) -> bool:
    """Whether our code raises this on purpose, or a file is to blame; other errors may be bugs of ours."""
    if not isinstance(error, (ValueError, OSError)) or getattr(error, "filename", None) is not None:
        return True
    frame, line = [*walk_tb(error.__traceback__)][-1]
    statement = getline(frame.f_code.co_filename, line).split()
    return statement[:1] == ["raise"] and frame.f_globals["__name__"].split(".")[0] in ("sb3_pvp", program)
