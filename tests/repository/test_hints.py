"""Hints: a command that is printed can be pasted into a shell, whatever the names of files in it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from sb3_pvp.common.errors import command_line
from tests.paths import ROOT

#: A command line with something filled in.
_FILLED_IN = re.compile(r"f\"[^\"\n]*sb3-pvp (?:[a-z][a-z-]*) [^\"\n]*\{[^\"\n]*\"")


def test_commands_are_quoted() -> None:
    names = ["a file.zip", "it's", "$(rm x)", "plain.zip"]
    assert shlex.split(command_line("evaluate", *map(Path, names), "-n", 3)) == [
        "sb3-pvp",
        "evaluate",
        *names,
        "-n",
        "3",
    ]
    assert command_line("evaluate", Path("-x.zip")) == "sb3-pvp evaluate ./-x.zip", "not an option"


def test_every_hint_is_made_by_this_function() -> None:
    assert _FILLED_IN.search('x = f"watch it: sb3-pvp replay {output}"')
    found = {
        f"{path.relative_to(ROOT)}: {hint[0]}"
        for path in (ROOT / "sb3_pvp").rglob("*.py")
        for hint in _FILLED_IN.finditer(path.read_text(encoding="utf-8"))
        if not any(harmless in hint[0] for harmless in ("listens on", "{self.trial_id}"))  # no command, and a number
    }
    assert not found
