"""Commands that only read work in folders that this user may only read, and leave nothing there."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from sb3_pvp.cli import main
from sb3_pvp.players import opponents
from sb3_pvp.players.league import League, MatchLog, MatchRecord, Player
from sb3_pvp.zoo.runs.resume import LOCK
from tests.paths import DATA, ROOT

NOBODY = 65534
LAST = MatchRecord(Player("a"), Player("b"), "won", 0, None, 9, True, 0.0, "last")
ENV = "maskable_ppo/NhEnv_1"


@pytest.fixture
def logs() -> Iterator[Path]:
    """A log folder with trained runs; not pytest's own folder, which only its owner may open."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copytree(DATA / "first_edition/trained", Path(folder, "logs")))


@contextmanager
def only_reading(folder: Path) -> Iterator[None]:
    """Takes from this user the right to write in a folder, and checks that nothing in it changes."""

    def content() -> dict[Path, bytes | None]:
        return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}

    before, is_root = content(), os.geteuid() == 0
    for path in (folder, *before):
        path.chmod(0o555 if path.is_dir() else 0o444)
    if is_root:  # who may write anywhere
        os.seteuid(NOBODY)
    try:
        with pytest.raises(PermissionError):
            (folder / "new").touch()
        if not os.access(ROOT / "sb3_pvp", os.R_OK, effective_ids=True):
            pytest.skip("this checkout is in a folder that only its owner may open")
        yield
    finally:
        if is_root:
            os.seteuid(0)
        for path in (folder, *before):
            path.chmod(0o755)
    assert content() == before


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    with pytest.raises(SystemExit) as raised:
        main([*map(str, arguments)])
    output = capsys.readouterr()
    assert raised.value.code == 0, output.err
    return output.out


def test_what_only_reads_needs_no_more(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = logs / ENV
    against = ("--opponent", f"league:{run}", "--episodes", 2, "--seed", 1, "--jobs", 1, "--json")
    commands: list[tuple[object, ...]] = [("runs", logs, "--json"), ("league", "show", run), ("league", "export", run)]
    commands.append(("evaluate", run / "NhEnv.zip", *against))
    expected = [printed(capsys, *command) for command in commands]
    opponents._league.cache_clear()
    with only_reading(logs):
        assert [printed(capsys, *command) for command in commands] == expected
        with pytest.raises(OSError, match="cannot use the match log"):
            League.existing(run).log.append([LAST])
    opponents._league.cache_clear()


def test_a_run_that_somebody_else_trains_is_seen_to_be_running(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def states() -> list[str]:
        return [each["state"] for each in json.loads(printed(capsys, "runs", logs, "--json"))["runs"]]

    with only_reading(logs):
        assert "running" not in states()
    with FileLock(logs / ENV / LOCK), only_reading(logs):
        assert states().count("running") == 1


@pytest.mark.parametrize("is_shared", [True, False])
def test_matches_that_a_killed_process_has_written_last(logs: Path, is_shared: bool) -> None:
    """They are in a file beside the log; without the third one SQLite can read neither in such a folder."""
    path = logs / ENV / "league/matches.sqlite"
    count, copy = len(MatchLog(path)), logs / "copy" / path.name
    copy.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:  # the last one that is open would merge the files
        connection.execute("SELECT COUNT(*) FROM matches").fetchone()
        MatchLog(path).append([LAST])
        for each in path.parent.glob(f"{path.name}*"):
            if is_shared or not each.name.endswith("-shm"):
                shutil.copyfile(each, copy.parent / each.name)
    with only_reading(logs):
        if is_shared:
            assert len(MatchLog(copy)) == count + 1
        else:
            with pytest.raises(OSError, match="cannot use the match log"):
                MatchLog(copy)
