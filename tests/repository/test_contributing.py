"""CONTRIBUTING.md and ARCHITECTURE.md name commands, files and floors that there are."""

import re

from tests.paths import ROOT

PAGE, HOUSE = ((ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "ARCHITECTURE.md"))


def test_its_commands_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([\w-]+)`", PAGE))
    assert {"lint", "type", "test", "test-slow", "bench"} <= named <= targets


def test_its_files_are_there() -> None:
    text = PAGE + HOUSE
    paths = {*re.findall(r"`([\w.-]+/[\w./-]*)`", text), *re.findall(r"\]\(([^)#]+)\)", text)}
    assert len(paths) > 20 and not [path for path in paths if not (ROOT / path).exists()]


def test_its_picture_shows_who_imports_whom() -> None:
    arrows = set(re.findall(r"^ +(\w+)(?:\[.+?\])? --> (\w+)", HOUSE, re.MULTILINE))
    rooms = {room for arrow in arrows for room in arrow}
    imports = {
        (room, other)
        for room in rooms
        for file in (ROOT / "sb3_pvp" / room).rglob("*.py")
        if room != "games" or file.parent.name != "cli"  # commands of a game are a part of the front door
        for other in re.findall(r"^\s*from sb3_pvp\.(\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        if other in rooms - {room}
    }
    assert len(rooms) == 13 and arrows <= imports
    paths = set(arrows)
    for between in rooms:
        paths |= {(one, two) for one, here in paths for there, two in paths if here == there == between}
    assert imports <= paths, "and nothing is left out"


def test_its_floors_are_those_that_the_linter_holds() -> None:
    linter = (ROOT / "pyproject.toml").read_text().partition('name = "Floors"')[2].partition("exhaustive")[0]
    layers = [set(re.findall(r"\w+", line)) for line in re.findall(r'^    "(.+)",$', linter, re.MULTILINE)]
    rows = re.findall(r"^\| \d \| (.+?) \|", HOUSE, re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == layers[: len(rows)]
    assert layers[len(rows) :] == [{"former"}]  # a table, of which only packages that read old files know
