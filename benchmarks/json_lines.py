"""Files with a JSON object a line, to which runs append, also where one before was cut off in the middle of a line."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any


def append_line(path: Path, line: dict[str, Any]) -> None:
    """Appends an object at once, so that several processes may."""
    text = json.dumps(line) + "\n"
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            text = text if file.read() == b"\n" else f"\n{text}"
        file.write(text.encode())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Returns all objects, without what a process was cut off in."""
    found = []
    for line in path.read_text().splitlines():
        with suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found
