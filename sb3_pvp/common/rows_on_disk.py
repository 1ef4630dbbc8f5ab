"""Rows in a file, as many as fit on a disk, which can be set back to how they were at a mark."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.atomic_files import reading, write_atomically

VERSION = 1
ABOUT, ROWS = "about.json", "rows"
#: Bytes that are written between two times that the memory of pages is given back, and by which the file grows.
_PAGES, _GROWTH = 1 << 24, 1 << 20


def remove_rows(folder: Path) -> None:
    """Removes the files of a `RowsOnDisk`, and nothing else."""
    for path in (folder / ABOUT, folder / ROWS, *folder.glob("before.*")):
        path.unlink(missing_ok=True)


class RowsOnDisk:
    """Up to ``count`` rows of one type; whoever writes to `rows` calls `changing` before.

    What rows were at the last `mark` goes to a journal before they change, so that `go_back` finds it also after the
    process was killed at any moment. Rows and journals together take up to three times the bytes of all rows; the
    journals of old marks go first. Memory stays as it is.

    Raises `ValueError` if the folder holds other rows, or something else; ``OSError`` if the disk is full.
    """

    rows: NDArray[Any]  #: Those so far, ``(rows,)``.

    def __init__(self, folder: Path, count: int, dtype: np.dtype[Any]) -> None:
        self.folder, self.count, self.dtype = folder, count, dtype
        about = {"version": VERSION, "count": count, "row": str(dtype)}
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / ABOUT
        self.is_new = not any(folder.iterdir())  #: Whether there was nothing in the folder.
        if self.is_new:
            write_atomically(file, json.dumps(about))
        with reading(file):
            if json.loads(file.read_text(encoding="utf-8")) != about:
                raise ValueError("it is of rows of another kind, or of another number of them")
        self._entry = np.dtype([("row", np.int64), ("before", dtype)])
        self._file = os.open(folder / ROWS, os.O_RDWR | os.O_CREAT)
        self._kept = np.zeros(count, np.bool_)  # since the last mark
        self._touched = 0
        self._map()
        self._open_journal(max(self._journals(), default=0))

    def _map(self) -> None:
        """Maps all whole rows in the file."""
        size = os.fstat(self._file).st_size // self.dtype.itemsize
        self._pages = mmap.mmap(self._file, size * self.dtype.itemsize) if size else None
        self.rows = np.empty(0, self.dtype) if self._pages is None else np.frombuffer(self._pages, self.dtype)

    def _journals(self) -> dict[int, Path]:
        return {int(path.suffix[1:]): path for path in sorted(self.folder.glob("before.*"))}

    def changing(self, numbers: NDArray[np.int64]) -> None:
        """Prepares that the rows with these numbers change; those that do not exist are 0 then."""
        if (last := int(numbers.max())) >= len(self.rows):
            more = _GROWTH // self.dtype.itemsize + 1
            grown = min(last + more, self.count)
            # Zeros, not a hole: what is mapped and finds no room on the disk would end the process.
            size = len(self.rows) * self.dtype.itemsize
            self._write(self._file, bytes(grown * self.dtype.itemsize - size), size)
            self._map()
        fresh = np.unique(numbers[~self._kept[numbers]])
        entries = np.empty(len(fresh), self._entry)
        entries["row"], entries["before"] = fresh, self.rows[fresh]
        # At the end of the last whole entry: a full disk may have cut one off.
        written = os.fstat(self._journal).st_size // self._entry.itemsize
        self._write(self._journal, entries.tobytes(), written * self._entry.itemsize)
        self._kept[fresh] = True
        self._touched += numbers.size * self.dtype.itemsize
        if self._touched > _PAGES and self._pages is not None:
            self._touched = 0
            self._pages.madvise(mmap.MADV_DONTNEED)

    def _write(self, file: int, content: bytes, offset: int) -> None:
        try:
            while content:
                written = os.pwrite(file, content, offset)
                content, offset = content[written:], offset + written
        except OSError as error:
            error.filename = str(self.folder)
            raise

    def mark(self) -> int:
        """Returns a number by which `go_back` finds the rows as they are now."""
        os.close(self._journal)
        self._open_journal(self._number + 1)
        journals = self._journals()
        sizes = {number: path.stat().st_size for number, path in journals.items()}
        for number in [*journals][:-2]:
            if sum(sizes.values()) <= 2 * self.count * self.dtype.itemsize:
                break
            journals[number].unlink()
            del sizes[number]
        return self._number

    def _open_journal(self, number: int) -> None:
        self._number, path = number, self.folder / f"before.{number:09}"
        self._journal = os.open(path, os.O_RDWR | os.O_CREAT)
        self._kept[:] = False
        for entries in self._entries(path):
            self._kept[entries["row"]] = True

    def go_back(self, mark: int, num_rows: int) -> None:
        """Sets all rows back to a mark, when at least ``num_rows`` had been written; raises `ValueError` if it is gone.

        A process that is killed meanwhile can do it again.
        """
        journals = {number: path for number, path in self._journals().items() if number >= mark}
        if [*journals] != [*range(mark, mark + len(journals))] or not journals:
            raise ValueError(
                f"{self.folder} has no journal from mark {mark} on: it is damaged, of a later checkpoint, or of an "
                "earlier checkpoint than the replay goes back to: resume a newer one"
            )
        if len(self.rows) < num_rows:
            raise ValueError(f"{self.folder} is damaged: it has {len(self.rows)} of {num_rows} rows")
        for path in reversed(journals.values()):
            for entries in self._entries(path):
                self.rows[entries["row"]] = entries["before"]
        # The newest first: those that are left, if this process is killed, lead to the same rows.
        for number in reversed([*journals][1:]):
            journals[number].unlink()
        os.close(self._journal)
        self._open_journal(mark)

    def _entries(self, path: Path) -> Iterator[NDArray[Any]]:
        """Yields the entries of a journal in parts; the last one is left out if it is not whole."""
        with path.open("rb") as file:
            while len(entries := np.fromfile(file, self._entry, 1 << 10)):
                if not ((entries["row"] >= 0) & (entries["row"] < len(self.rows))).all():
                    raise ValueError(f"{path} is damaged: it names rows that there are not")
                yield entries
