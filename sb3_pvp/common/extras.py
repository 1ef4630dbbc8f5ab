"""Parts of other packages that not everybody installs: what is missing is said in one line, with the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sb3_pvp.common.errors import Refusal


class MissingExtra(Refusal, ImportError):
    """Raised when a feature needs packages that an extra of this one installs; commands exit with 2."""


@contextmanager
def extra(name: str, who: str) -> Iterator[None]:
    """Turns a failed import of another package into `MissingExtra`: ``who``, such as "sweeps", need the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (lacking := (error.name or "").partition(".")[0]) == "sb3_pvp":
            raise
        raise MissingExtra(f'{who} need {lacking}: pip install "sb3-pvp[{name}]"', name=lacking) from None
