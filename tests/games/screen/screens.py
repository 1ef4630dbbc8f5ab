"""Games behind a screen for tests: a small program of ours, and what Debian has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import sb3_pvp.games.screen as screen_package
from tests.games.chess.engine_programs import need

PAINTER = Path(__file__).with_name("painter.py")
DIGITS = Path(screen_package.__file__).parent / "data" / "xgalaga-digits.png"


def need_display(*programs: str) -> None:
    """Skips the test, unless that is forbidden, without Xvfb, what reads screens, or one of these programs."""
    need("Xvfb", *programs)
    for name in ("mss", "Xlib"):
        pytest.importorskip(name)


def painter(delay: float = 0.0, code: int = 0, **changes: Any) -> dict[str, Any]:
    """The values of a file with the program `PAINTER`."""
    return {
        "program": [sys.executable, str(PAINTER), str(delay), str(DIGITS), str(code)],
        "environment": {"PYTHONPATH": ":".join(sys.path)},
        "display": [200, 100],
        "title": "painter",
        "scale": [40, 20],
        "tick": 0.05,
        "actions": [
            {"name": "wait"},
            {"name": "left", "tap": ["Left"]},
            {"name": "right", "tap": ["Right"]},
            {"name": "hold", "hold": ["a"]},
            {"name": "click", "click": [30, 40]},
            {"name": "drag", "drag": [[10, 50], [150, 90]]},
            {"name": "end", "tap": ["q"]},
        ],
        "readers": {
            "score": {"kind": "number", "region": [0, 0, 60, 13], "digits": str(DIGITS), "color": [255, 255, 0]}
        },
        "rewards": [{"reader": "score"}],
        "reset": [{"start": True, "until": "score"}],
        **changes,
    }


def written(folder: Path, content: dict[str, Any], name: str = "painter.yaml") -> Path:
    """A file with these values."""
    import yaml

    path = folder / name
    path.write_text(yaml.safe_dump(content))
    return path


def started_by(pid: int) -> set[int]:
    """The processes below another one, without those that Python keeps for further ones, and those that have ended."""
    below = [each for each in psutil.Process(pid).children(recursive=True) if each.status() != psutil.STATUS_ZOMBIE]
    return {each.pid for each in below if "from multiprocessing" not in " ".join(each.cmdline())}


def of_display(folder: Path) -> list[psutil.Process]:
    """The processes that run with a display's folder as their home, or write into it."""
    found = []
    for each in psutil.process_iter(["pid", "environ", "cwd"]):
        if str(folder) in ((each.info["environ"] or {}).get("HOME", ""), each.info["cwd"]):
            found.append(each)
    return found
