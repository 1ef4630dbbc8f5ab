"""Where the numbers of Unity's own network and rays are."""

from __future__ import annotations

import os
from pathlib import Path

from tests.paths import DATA


def golden_file(name: str) -> Path:
    """Returns a file of the folder that the environment variable SB3_PVP_GOLDEN names, or else our own copy."""
    given = Path(os.environ.get("SB3_PVP_GOLDEN") or DATA / "team-play") / name
    return given if given.is_file() else DATA / "team-play" / name
