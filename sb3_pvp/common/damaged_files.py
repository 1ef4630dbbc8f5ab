"""Files that cannot be read, for instance because their writing was cut short: named, or skipped where one may be."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DamagedFile(ValueError):
    """Raised for a file whose content cannot be read; the message is one line that names it."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns whatever the content of a file raises into `DamagedFile`; a file that is missing is not damaged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # of zip, YAML, NumPy's and pandas' files, whose readers check little
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DamagedFile(f"{path}: it is damaged ({reason:.200})") from error


@contextmanager
def skipping_damage() -> Iterator[None]:
    """Ends its block at a `DamagedFile`, with a warning."""
    try:
        yield
    except DamagedFile as error:
        warnings.warn(f"Skipping {error}", RuntimeWarning, stacklevel=3)
