"""Rows on a disk go back to their marks, also after the process was killed in the middle of anything."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.common import rows_on_disk
from sb3_pvp.common.atomic_files import DamagedFile, no_space
from sb3_pvp.common.rows_on_disk import RowsOnDisk

ROW = np.dtype([("number", np.int64), ("flag", np.bool_)], align=True)


def change(kept: RowsOnDisk, numbers: list[int], value: int) -> None:
    kept.changing(np.array(numbers))
    kept.rows["number"][numbers] = value


def content(kept: RowsOnDisk) -> list[int]:
    numbers: list[int] = kept.rows["number"].tolist()
    return numbers


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.lists(st.integers(0, 19), min_size=1)), max_size=30), st.data())
def test_any_mark_is_found_again_by_another_process(steps: list[Any], data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        kept, marks = RowsOnDisk(Path(folder), 20, ROW), {}
        for value, step in enumerate(steps, 1):
            if step is None:
                marks[kept.mark()] = content(kept)
            else:
                change(kept, step, value)
        # Nothing is closed: this is what a kill leaves. The newest journals, at least, are there.
        for mark in sorted(marks, reverse=True)[:2]:
            again = RowsOnDisk(Path(folder), 20, ROW)
            again.go_back(mark, len(marks[mark]))
            assert content(again)[: len(marks[mark])] == marks[mark]
            assert not any(content(again)[len(marks[mark]) :])
            change(again, [data.draw(st.integers(0, 19))], 99)


def test_going_back_can_be_killed_and_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = RowsOnDisk(tmp_path / "rows", 8, ROW)
    change(kept, [*range(8)], 1)
    mark = kept.mark()
    for value in (2, 3, 4):
        change(kept, [value, value + 1], value)
        kept.mark()
    for survivors in range(3):
        copy = Path(shutil.copytree(tmp_path / "rows", tmp_path / str(survivors)))
        removed: list[Path] = []

        def unlink(path: Path, survivors: int = survivors, removed: list[Path] = removed) -> None:
            if len(removed) == survivors:
                raise KeyboardInterrupt
            removed.append(path)
            os.unlink(path)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            again = RowsOnDisk(copy, 8, ROW)
            patched.setattr(Path, "unlink", unlink)
            again.go_back(mark, 8)
        again = RowsOnDisk(copy, 8, ROW)
        again.go_back(mark, 8)
        assert content(again) == [1] * 8


def test_the_disk_is_bounded_and_memory_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = np.dtype([("bytes", np.uint8, (1 << 16,))])
    kept, whole = RowsOnDisk(tmp_path, 1000, row), 1000 << 16
    monkeypatch.setattr(rows_on_disk, "_PAGES", 1 << 22)
    begun = psutil.Process().memory_info().rss
    for number in range(5000):
        kept.changing(np.array([number % 1000]))
        kept.rows["bytes"][number % 1000] = number % 251
        if number % 100 == 0:
            kept.mark()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3.2 * whole
    assert psutil.Process().memory_info().rss - begun < whole / 4
    assert kept.rows["bytes"][7, 5] == 4007 % 251


def test_other_rows_and_damage_are_one_line(tmp_path: Path) -> None:
    kept = RowsOnDisk(tmp_path, 8, ROW)
    change(kept, [*range(8)], 1)
    mark = kept.mark()
    with pytest.raises(DamagedFile, match="about.json: .*rows of another kind, or of another number"):
        RowsOnDisk(tmp_path, 9, ROW)
    with pytest.raises(ValueError, match="no journal from mark 7 on: .*earlier checkpoint.*: resume a newer one"):
        RowsOnDisk(tmp_path, 8, ROW).go_back(7, 8)
    os.truncate(tmp_path / "rows", 5 * ROW.itemsize + 3)
    with pytest.raises(ValueError, match="is damaged: it has 5 of 8 rows"):
        RowsOnDisk(tmp_path, 8, ROW).go_back(mark, 8)
    (tmp_path / "about.json").unlink()
    with pytest.raises(FileNotFoundError):
        RowsOnDisk(tmp_path, 8, ROW)


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = RowsOnDisk(tmp_path, 8, ROW)
    change(kept, [*range(8)], 1)
    mark = kept.mark()
    change(kept, [3], 2)
    write = os.pwrite

    def full(file: int, content: bytes, offset: int) -> int:
        write(file, content[:5], offset)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left") as error:
        patched.setattr(os, "pwrite", full)
        change(kept, [4, 5], 3)
    assert no_space(error.value) is not None and str(tmp_path) in str(error.value)
    change(kept, [4], 4)
    again = RowsOnDisk(tmp_path, 8, ROW)
    again.go_back(mark, 8)
    assert content(again) == [1] * 8
