"""What installed packages add by entry point: games, commands."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path

DISTRIBUTION = "sb3-pvp"  #: The name of this package on the registry.
_PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of a group by name: first those of this package, which no other one can replace."""
    try:
        own = {each.name: each for each in distribution(DISTRIBUTION).entry_points if each.group == group}
    except PackageNotFoundError:  # the folder of a checkout is on the path, but it was not installed
        own = {}
    return own | {each.name: each for each in entry_points(group=group)} | own


def is_own(point: EntryPoint) -> bool:
    """Returns whether this package has added it."""
    return point.dist is not None and point.dist.name == DISTRIBUTION


def missing(group: str, name: str) -> str:
    """Returns what to do if a checkout has this entry point, but its installation is older or there is none, or ``""``.

    The metadata of an editable install is as old as the last ``pip install``.
    """
    if name in installed(group) or not _PYPROJECT.is_file():
        return ""
    _, _, rest = _PYPROJECT.read_text(encoding="utf-8").partition(f'[project.entry-points."{group}"]')
    if re.search(rf"^{re.escape(name)}\s*=", rest.partition("\n[")[0], re.MULTILINE) is None:
        return ""
    return (
        f"{name!r} is in the checkout, but not in what is installed of {DISTRIBUTION}: pip install --editable . again"
    )
