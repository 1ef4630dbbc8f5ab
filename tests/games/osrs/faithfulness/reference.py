"""What the reference recordings say, condensed into ``tests/data`` by `condense`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.paths import DATA

RESETS, SCENARIOS, STATISTICS = (
    DATA / f"reference_{name}.gz" for name in ("resets.jsonl", "scenarios.json", "fights.json")
)

Json = dict[str, Any]


def read_lines(path: Path) -> Iterator[Json]:
    """The objects of a compressed file with one JSON object per line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def read(path: Path) -> Json:
    """The JSON object of a compressed file."""
    (content,) = read_lines(path)
    return content
