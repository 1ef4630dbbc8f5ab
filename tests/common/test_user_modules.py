"""What lies in the working directory is no code, unless a user names it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.common.user_modules import importing_here, path_for_workers
from sb3_pvp.common.worker_pool import WorkerPool
from sb3_pvp.policies.files.shipped import find_model
from tests.paths import ROOT

TRAP = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\nraise ImportError\n"
#: Modules that installed packages import if they are there, and one that is there.
NAMES = "cv2", "numexpr", "zstandard", "bottleneck", "orjson", "custom_envs"
MAIN = "from sb3_pvp.cli import main\nmain()\n"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the console script in a folder."""
    script = folder / "bin" / "sb3-pvp"
    script.parent.mkdir(exist_ok=True)
    script.write_text(MAIN)
    command = [sys.executable, str(script), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def ran(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.ran"))


def lay_traps(folder: Path) -> None:
    for name in NAMES:
        (folder / f"{name}.py").write_text(TRAP)


@pytest.fixture
def traps(tmp_path: Path) -> Path:
    lay_traps(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_no_file_beside_a_fighter_runs(traps: Path) -> None:
    (traps / "it.fighter").write_bytes(find_model("generalist").read_bytes())
    done = run(traps, "evaluate", "it.fighter", "--safe", "--episodes", "4", "--jobs", "2")
    assert done.returncode == 0 and "win rate" in done.stdout, done.stderr
    assert ran(traps) == []


def test_a_worker_has_the_working_directory_last(traps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook there, or after ``python -m``."""
    monkeypatch.chdir(traps)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert path_for_workers().split(os.pathsep)[-1] == str(traps)
    with closing(WorkerPool(1, "commands")) as pool:
        place: Any = pool.submit(eval, "__import__('orjson').__file__").result()
    assert not place.startswith(str(traps)) and ran(traps) == []


def test_a_worker_imports_what_came_from_a_named_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named_by_user.py").write_text("def answer():\n    return 42\n")
    monkeypatch.chdir(tmp_path)
    with importing_here():
        import named_by_user  # type: ignore[import-not-found]
    assert str(tmp_path) not in sys.path
    with closing(WorkerPool(1, "commands")) as pool:
        assert pool.submit(named_by_user.answer).result() == 42
