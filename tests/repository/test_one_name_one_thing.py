"""The house at one glance: few rooms, and no two classes or files with one name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.paths import ROOT

PACKAGE = ROOT / "sb3_pvp"
FILES = [file for file in PACKAGE.rglob("*.py") if file.stem not in ("__init__", "__main__")]


def named_twice(places: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: where for name, where in places.items() if len(where) > 1}


def test_there_are_few_rooms() -> None:
    listed = [path for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    assert len([path for path in listed if path.is_dir()]) <= 13
    assert len([path for path in listed if path.is_file()]) <= 3


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(file.relative_to(PACKAGE)))
    assert len(places) > 200
    assert not named_twice(places)


def test_no_two_files_have_one_name() -> None:
    """But commands are called as what they show, and each game has the same parts."""

    def counts(file: Path) -> bool:
        return "cli" not in file.parts and "games" not in file.parts

    places: dict[str, list[str]] = defaultdict(list)
    for file in filter(counts, FILES):
        places[file.name].append(str(file.relative_to(PACKAGE)))
    assert len(places) > 100
    assert not named_twice(places)
