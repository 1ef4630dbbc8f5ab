"""What `benchmarks.peers` installs: a virtual environment for each foreign project, and older commits of this one."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

from sb3_pvp.common.errors import Refusal

#: What NhVecEnv imports. Not this package itself: it refuses a Gymnasium as old as sample-factory's.
NEEDED = ("torch", "stable-baselines3", "numba", "orjson", "psutil", "pydantic", "rich")


class NotInstalled(Exception):
    """Raised when a virtual environment cannot be made; the message says why, in one line."""


def default_folder() -> Path:
    """Returns where virtual environments, older commits and logs are kept, below the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sb3_pvp" / "peers"


def install(folder: Path, requirement: str, constraints: Path, unpinned: Iterable[str]) -> Path:
    """Returns the interpreter of a virtual environment with a project, in ``folder``; what is there already is used.

    pip runs as this machine has it configured. All versions are those of ``constraints``, except of ``unpinned``
    packages.

    Raises:
        NotInstalled: with pip's reason.
    """
    python, stamp = folder / "bin" / "python", folder / "installed.json"
    pins = loosened(constraints.read_text(), unpinned)
    wanted = json.dumps({"python": sys.version, "requirements": [requirement, *NEEDED], "constraints": pins})
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    own = folder / "constraints.txt"
    own.write_text(pins)
    _run([str(python), "-m", "pip", "install", "--quiet", "--constraint", str(own), requirement, *NEEDED])
    stamp.write_text(wanted)  # last: an interrupted installation starts again
    return python


def loosened(constraints: str, unpinned: Iterable[str]) -> str:
    """Returns constraints without the lines of some packages."""
    names = set(unpinned)
    lines = constraints.splitlines(keepends=True)
    return "".join(line for line in lines if re.split(r"[=<>~!;\s]", line, maxsplit=1)[0] not in names)


def checkout_of(name: str, repository: Path, folder: Path) -> tuple[Path, str]:
    """Returns a checkout and its label: ``name`` is a folder, or a commit, which is unpacked below ``folder``.

    Raises:
        Refusal: if it is neither.
    """
    if Path(name).is_dir():
        path = Path(name).resolve()
        if not (path / "sb3_pvp" / "__init__.py").is_file():
            raise Refusal(f"--old: there is no sb3_pvp in {name!r}")
        return path, path.name
    git = ["git", "-C", str(repository)]
    found = subprocess.run([*git, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"], capture_output=True)
    if found.returncode:
        raise Refusal(f"--old: {name!r} is neither a folder nor a commit")
    commit = found.stdout.decode().strip()
    path = folder / commit
    if not path.is_dir():
        files = subprocess.run([*git, "archive", commit], capture_output=True, check=True).stdout
        unfinished = folder / f"{commit}.unfinished"
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            archive.extractall(unfinished, filter="data")
        unfinished.rename(path)
    return path, commit[:7]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("ERROR")]
        raise NotInstalled((errors or said or [f"code {done.returncode}"])[-1])
