"""Logs that are read while they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.zoo.jobs import Job, Jobs, last_lines

LINES = st.lists(st.text("aä€ ", max_size=9), max_size=12)


@given(LINES, st.integers(0, 14), st.booleans())
def test_the_last_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[str], count: int, ended: bool) -> None:
    text = "\n".join(lines) + ("\n" if ended and lines else "")
    path = tmp_path_factory.mktemp("logs") / "log"
    path.write_text(text, encoding="utf-8")
    whole = text.splitlines()
    assert last_lines(path, count) == whole[max(len(whole) - count, 0) :]


def test_no_log_has_no_lines(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "none", 5) == []


def test_a_log_is_followed_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"before one\n")
    parts = iter(["two €\n".encode()[:5], "two €\n".encode()[5:], b"three\n"])

    def is_running(_: Jobs, __: Job) -> bool:
        part = next(parts, b"")
        with path.open("ab") as file:
            file.write(part)
        return bool(part)

    monkeypatch.setattr(Jobs, "is_running", is_running)
    job = Job(id=1, name="one", command=["true"], folder="", log=str(path), mark="", started_at=0.0)
    assert b"".join(Jobs(tmp_path).follow(job, start=7)).decode() == "one\ntwo €\nthree\n"
