"""How commands print their results: as one JSON object with ``--json``, else as text or a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Annotated, Any

import orjson
import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
OutFile = Annotated[Path | None, typer.Option("--out", "-o", help="Output file; default: stdout.", dir_okay=False)]

#: A column of a table: a template such as ``"{steps:,}"`` for the record's keys, or what makes a cell of a record.
Column = str | Callable[[Any], object]


class _Cells(Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        """Formats a value of a template; nothing for ``None``, which has no format."""
        return "" if value is None else str(super().format_field(value, spec))


def table(records: Iterable[Any], columns: Mapping[str, Column]) -> str:
    """Returns records as aligned lines, the names of the columns first; cells that are ``None`` stay empty.

    Templates name the keys of records that are dicts, and other records as a whole: ``"{0.steps:,}"``.
    """
    cells, rows = _Cells(), [list(columns)]
    for record in records:
        keys = record if isinstance(record, dict) else {}
        values = (
            cells.vformat(each, (record,), keys) if isinstance(each, str) else each(record) for each in columns.values()
        )
        rows.append(["" if value is None else str(value) for value in values])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


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
