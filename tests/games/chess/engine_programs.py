"""Chess engines for tests: those of Debian, and ones that misbehave."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

#: ``.ci/run`` sets it, where every test must run.
REQUIRED = "SB3_PVP_REQUIRE_ENGINES"
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/games"])

_ENGINE = """#!/bin/sh
trap '' TERM HUP
echo $$ > "{pid}"
while read -r word rest; do
    case $word in
        uci) echo "id name Fake"; echo "option name Skill Level type spin default 20 min 0 max 20"
             echo "option name Threads type spin default 1 min 1 max 8"; {on_uci} ;;
        isready) echo readyok ;;
        go) {on_go} ;;
        quit) exit ;;
    esac
done
{at_end}
"""


def need(*programs: str) -> dict[str, str]:
    """Their paths; skips the test where one is missing, unless that is forbidden."""
    found = {each: shutil.which(each, path=_PATH) for each in programs}
    missing = [each for each, path in found.items() if path is None]
    if missing and os.environ.get(REQUIRED):
        pytest.fail(f"not installed: {', '.join(missing)}")
    if missing:
        pytest.skip(f"needs Debian's {', '.join(missing)}")
    return {each: str(path) for each, path in found.items()}


def python_chess() -> Any:
    """The package of this name. A folder of tests has it too, and counts as an empty one if nothing is installed."""
    if not os.environ.get(REQUIRED):
        pytest.importorskip("chess.pgn", reason="python-chess is not installed")
    import chess.pgn

    return chess


def fake_engine(
    folder: Path,
    on_go: str,
    on_uci: str = "echo uciok",
    at_end: str = "",
    name: str = "stockfish",
) -> Path:
    """Writes an engine that does this in sh; returns the file to which it writes its number."""
    folder.mkdir(parents=True, exist_ok=True)
    pid = folder / "pid"
    (folder / name).write_text(_ENGINE.format(pid=pid, on_go=on_go, on_uci=on_uci, at_end=at_end))
    (folder / name).chmod(0o755)
    return pid
