"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def html_table(rows: Sequence[Sequence[object]]) -> str:
    """Returns an HTML table of cells, the header first; ``None`` is an empty cell."""
    lines = []
    for number, row in enumerate(rows):
        kind = "td" if number else "th"
        cells = ("" if cell is None else escape(str(cell)) for cell in row)
        lines.append("<tr>" + "".join(f"<{kind}>{cell}</{kind}>" for cell in cells) + "</tr>")
    return f"<table>{''.join(lines)}</table>"
