"""Logs that are read while they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from sb3_pvp.zoo.jobs import Job, Jobs


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
