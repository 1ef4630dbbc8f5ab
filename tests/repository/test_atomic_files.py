"""A file is replaced completely or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from sb3_pvp.common.atomic_files import replacing, write_atomically


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "model.zip"
    write_atomically(path, "befõre")
    with replacing(path) as partial:
        partial.write_text("after")
        assert partial.suffix == path.suffix and partial.name.startswith(".")
        assert path.read_text(encoding="utf-8") == "befõre"
    assert path.read_text() == "after"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_atomically(tmp_path, "text")
    assert list(tmp_path.iterdir()) == []


def test_an_error_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    write_atomically(path, "before")
    with pytest.raises(KeyError), replacing(path) as partial:
        partial.write_text("half")
        raise KeyError
    assert path.read_text() == "before"
    with pytest.raises(FileNotFoundError, match=r"/model\.zip'"), replacing(path):
        pass  # nothing was written; the message must name the file and not the hidden one
    assert list(tmp_path.iterdir()) == [path] and path.read_text() == "before"
