"""Files that are either there as a whole or as they were before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden path with the same ending, whose file takes the place of ``path`` when the ``with`` block is left.

    If an error leaves the block, ``path`` stays as it was. The folder is made if it is missing.

    Raises:
        IsADirectoryError: at once, if ``path`` is a folder.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: a file cannot take its place")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield partial
        with partial.open("rb+") as file:  # the disk must have the content before it has the name
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if error.filename == str(partial):  # nobody has asked for that one
            error.filename = str(path)
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file that is either there as a whole or as it was before."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
