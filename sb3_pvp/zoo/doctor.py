"""What this machine and this installation are, and what is known to go wrong on such ones."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Any

import psutil

from sb3_pvp.common.cores import num_cores
from sb3_pvp.common.errors import DISTRIBUTION, missing, of_checkout, one_line

#: Below these, in bytes: a run, its replay and its checkpoints may not fit; worker processes share too little.
_LEAST_DISK, _LEAST_SHARED = 2 << 30, 64 << 20
_MISSING = " is missing"
_LEAST_FILES = 1024  #: Each connection of a server is an open file.
_GROUPS = ("sb3_pvp.games", "sb3_pvp.algorithms", "sb3_pvp.commands")


@dataclass(frozen=True)
class Finding:
    """What was found about one thing; ``advice`` is what to do, unless all is well.

    With an error, something of this package does not work; a warning only costs time or memory, or may surprise.
    """

    about: str
    found: str
    advice: str = ""
    is_error: bool = False

    @property
    def state(self) -> str:
        """``ok``, ``warning`` or ``error``."""
        return "error" if self.is_error else "warning" if self.advice else "ok"


def examine(folder: Path) -> list[Finding]:
    """Returns all findings; ``folder`` is where runs are to be written."""
    parts = {
        "machine": _machine(),
        "packages": _packages(),
        "extras": _extras(),
        "entry points": _entry_points(),
        "PyTorch": _torch(),
        "Numba": _numba(),
        "folders": _folders(folder),
        "limits": _limits(),
    }
    found = list[Finding]()
    for about, part in parts.items():
        try:
            found.extend(part)
        except Exception as error:  # what is broken enough to raise here is what this command is for
            advice = f"repair what it names, such as by pip install --upgrade {DISTRIBUTION}"
            found.append(Finding(about, one_line(error), advice, is_error=True))
    return found


def _machine() -> Iterator[Finding]:
    yield Finding("sb3-pvp", f"{version(DISTRIBUTION)} in {Path(__file__).parents[1]}")
    is_slow = "" if __debug__ else "python -O leaves out checks that libraries rely on: start Python without -O"
    yield Finding("Python", f"{platform.python_version()}, {sys.executable}", is_slow)
    yield Finding("system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    memory = psutil.virtual_memory()
    yield Finding("memory", f"{memory.total / 2**30:.1f} GiB, of which {memory.available / 2**30:.1f} are free")
    cores, present = num_cores(), os.cpu_count() or 1
    yield Finding("cores", f"{cores} of {present} may be used" if cores < present else f"{cores}")


def _packages() -> Iterator[Finding]:
    """Compares what is installed with what this package needs."""
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:  # it comes with most extras
        yield Finding("packages", "not compared with what is needed", "pip install packaging")
        return
    found = [Requirement(each) for each in requires(DISTRIBUTION) or ()]
    needed = [each for each in found if each.marker is None or each.marker.evaluate({"extra": ""})]
    wrong = [misfit for each in needed if (misfit := _misfit(each))]
    fine = ", ".join(f"{name} {version(name)}" for name in ("torch", "stable-baselines3") if not wrong)
    advice = f"pip install --upgrade {DISTRIBUTION}" if wrong else ""
    yield Finding("packages", "; ".join(wrong) or f"all {len(needed)} fit: {fine}, …", advice, is_error=bool(wrong))


def _extras() -> Iterator[Finding]:
    """Says which optional parts are there; what is missing, or of another version, is no fault."""
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:
        return
    found = [Requirement(each) for each in requires(DISTRIBUTION) or ()]
    optional = [each for each in found if each.marker and not each.marker.evaluate({"extra": ""})]
    names = metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    wrong = {name: [misfit for each in _installed_by(name, optional) if (misfit := _misfit(each))] for name in names}
    present, lacking = ([name for name in names if bool(wrong[name]) is lacks] for lacks in (False, True))
    others = [misfit for name in lacking for misfit in wrong[name] if not misfit.endswith(_MISSING)]
    said = "".join(f"; {each}" for each in dict.fromkeys(others))
    hint = f"; pip install '{DISTRIBUTION}[{lacking[0]}]' and so on for: {', '.join(lacking)}" if lacking else ""
    yield Finding("extras", (", ".join(present) or "none") + said + hint)


def _installed_by(extra: str, optional: list[Any]) -> Iterator[Any]:
    """Yields what an extra installs with this Python, also by other extras."""
    for each in optional:
        if each.marker.evaluate({"extra": extra}):
            if each.name == DISTRIBUTION:
                for other in each.extras:
                    yield from _installed_by(other, optional)
            else:
                yield each


def _misfit(requirement: Any) -> str:
    """Returns what is wrong with the package of a requirement, nothing if it fits."""
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return f"{requirement.name}{_MISSING}"
    is_fit = requirement.specifier.contains(installed, prereleases=True)
    return "" if is_fit else f"{requirement.name} {installed} is not {requirement.specifier}"


def _entry_points() -> Iterator[Finding]:
    """Looks for games, algorithms and commands of a checkout that its installation does not know."""
    stale = [text for group in _GROUPS for name in of_checkout(group) if (text := missing(group, name))]
    advice = "pip install --editable . again" if stale else ""
    yield Finding("entry points", stale[0] if stale else "all known", advice, is_error=bool(stale))


def _torch() -> Iterator[Finding]:
    import torch

    threads, cores = torch.get_num_threads(), num_cores()
    advice = "several processes with as many threads each wait for each other: set OMP_NUM_THREADS=1"
    if threads > cores:
        advice = f"more threads than the {cores} cores that may be used: set OMP_NUM_THREADS={cores} or less"
    is_set = "OMP_NUM_THREADS" in os.environ
    yield Finding("threads of PyTorch", f"{threads}", "" if threads == 1 or (is_set and threads <= cores) else advice)
    built: Any = torch.version.cuda
    if torch.cuda.is_available():
        names = {torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())}
        yield Finding("GPU", f"{torch.cuda.device_count()}: {', '.join(sorted(names))}, CUDA {built}")
    elif built:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
        why = (
            "CUDA_VISIBLE_DEVICES hides all"
            if hidden
            else "look at nvidia-smi; without a GPU, the CPU build is smaller"
        )
        yield Finding("GPU", f"none is seen, though PyTorch is built for CUDA {built}", why)
    else:
        yield Finding("GPU", "none: this PyTorch is built for CPUs")


def _numba() -> Iterator[Finding]:
    import numba

    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        yield Finding("Numba", "compiles nothing", "unset NUMBA_DISABLE_JIT: worlds are hundreds of times slower")
        return
    own = numba.config.CACHE_DIR or Path(__file__).parents[1] / "games"  # type: ignore[attr-defined]
    is_kept = os.access(own, os.W_OK) or os.access(Path.home(), os.W_OK)
    advice = "" if is_kept else "each process compiles for half a minute: set NUMBA_CACHE_DIR to a folder to write to"
    yield Finding("Numba", f"{numba.__version__}, {'keeps' if is_kept else 'cannot keep'} what it compiles", advice)


def _folders(folder: Path) -> Iterator[Finding]:
    for about, path in (("folder of runs", folder), ("temporary files", Path(tempfile.gettempdir()))):
        path = path.absolute()
        existing = next(each for each in (path, *path.parents) if each.exists())
        if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
            yield Finding(
                about, f"{path} cannot be written", "take another folder, or change its rights", is_error=True
            )
            continue
        free = shutil.disk_usage(existing).free
        advice = "" if free >= _LEAST_DISK else "checkpoints and replays may fill the disk: make room"
        yield Finding(about, f"{path}, {free / 2**30:.1f} GiB free", advice)


def _limits() -> Iterator[Finding]:
    if sys.platform == "win32":
        return
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    is_few = files != resource.RLIM_INFINITY and files < _LEAST_FILES
    shown = "without a limit" if files == resource.RLIM_INFINITY else f"{files:,}"
    yield Finding("open files", shown, f"servers need one for each client: ulimit -n {_LEAST_FILES}" if is_few else "")
    if (shared := Path("/dev/shm")).is_dir():
        size = shutil.disk_usage(shared).total
        advice = "" if size > _LEAST_SHARED else "too little for Ray and worker processes: docker run --shm-size=1g"
        yield Finding("shared memory", f"{size / 2**20:,.0f} MiB", advice)
