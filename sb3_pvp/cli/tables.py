"""How commands print their results: as one JSON object with ``--json``, else as text or a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from shutil import get_terminal_size
from string import Formatter
from textwrap import wrap
from typing import Annotated, Any, Literal

import orjson
import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
OutFile = Annotated[Path | None, typer.Option("--out", "-o", help="Output file; default: stdout.", dir_okay=False)]

#: A column of a table: a template such as ``"{steps:,}"`` for the record's keys, or what makes a cell of a record.
Column = str | Callable[[Any], object]

_LEAST = 5  #: Width of a column whose words are broken.


class _Cells(Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        """Formats a value of a template; nothing for ``None``, which has no format."""
        return "" if value is None else str(super().format_field(value, spec))


def table(records: Iterable[Any], columns: Mapping[str, Column]) -> str:
    """Returns records as aligned lines, the names of the columns first; cells that are ``None`` stay empty.

    See `aligned`. Templates name the keys of records that are dicts, and other records as a whole: ``"{0.steps:,}"``.
    """
    cells, rows = _Cells(), [list(columns)]
    for record in records:
        keys = record if isinstance(record, dict) else {}
        values = (
            cells.vformat(each, (record,), keys) if isinstance(each, str) else each(record) for each in columns.values()
        )
        rows.append(["" if value is None else str(value) for value in values])
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]], justify: Literal["left", "right"] = "left") -> str:
    """Returns rows, the header first, as aligned lines; on a terminal they fit it, and long cells have several lines.

    ``justify`` is for all columns but the first.
    """
    columns = [*zip(*rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    if sys.stdout.isatty():
        _shrink(widths, columns, get_terminal_size().columns)
    sides, lines = [str.ljust, *[str.ljust if justify == "left" else str.rjust] * (len(widths) - 1)], []
    for row in rows:
        cells = (wrap(cell, width) if len(cell) > width else [cell] for cell, width in zip(row, widths, strict=True))
        for parts in zip_longest(*cells, fillvalue=""):
            line = (side(part, width) for side, part, width in zip(sides, parts, widths, strict=True))
            lines.append("  ".join(line).rstrip())
    return "\n".join(lines)


def _shrink(widths: list[int], columns: Sequence[Sequence[str]], room: int) -> None:
    """Makes columns narrower until the table fits: the widest first, and words, such as paths, are broken last."""
    words = [max(len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    for least in words, [_LEAST] * len(widths):
        while sum(widths) + 2 * (len(widths) - 1) > room:
            wider = [number for number, width in enumerate(widths) if width > least[number]]
            if not wider:
                break
            widths[max(wider, key=widths.__getitem__)] -= 1


def print_result(figures: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Prints ``figures``, which may contain arrays and dataclasses, as one JSON object, or otherwise ``text``."""
    # The second argument converts what orjson does not know: NumPy's arrays and scalars.
    typer.echo(orjson.dumps(figures, lambda array: array.tolist()) if as_json else text)


def print_table(
    name: str, records: Sequence[Any], columns: Mapping[str, Column], as_json: bool, empty: str = ""
) -> None:
    """Prints records as a JSON object with their list under ``name``, or as a table; ``empty`` if there are none."""
    print_result({name: records}, table(records, columns) if records or not empty else empty, as_json)


def write(text: str, out: Path | None) -> None:
    """Writes the text to a file, or prints it if ``out`` is ``None``."""
    from sb3_pvp.common.atomic_files import write_atomically

    if out is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(out, text)
