"""Atomic writing: after a crash a file is either complete or as it was before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path in the same folder, whose file replaces ``path`` at the end of the ``with`` block.

    If the block raises, ``path`` stays as it was. Missing parent folders are created. `IsADirectoryError` is raised
    before the block if ``path`` is a folder.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, and cannot be replaced by a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    # The ending stays: matplotlib chooses the format by it, and SB3 appends .zip where there is none.
    partial = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield partial
        # Without fsync a power failure may leave the new name with no content.
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if error.filename == str(partial):  # a name that the caller does not know
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Writes a UTF-8 text file atomically, see `replacing`."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
