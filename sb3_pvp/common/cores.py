"""How much a process may use: cores, which kind of work goes first when there are too few, and open files."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from sb3_pvp.common.user_modules import path_for_workers

#: An environment variable that limits `num_cores`. It is 1 in every worker process: others have the other cores.
CORES = "SB3_PVP_CORES"
#: Niceness of processes by kind of work, 0 (first) to 19 (only what all others leave); that of the learner is 0, and so
#: is that of all for which a command waits. The learner waits for its actors, so these are next to it; at 10, three
#: exploiters would take a quarter of an actor's core.
PRIORITY = {"commands": 0, "actors": 1, "evaluation": 6, "exploiters": 18}
_TRIES, _PAUSE = 50, 0.1  # seconds


def num_cores() -> int:
    """Returns the number of cores that this process may use, at least 1.

    This may be fewer than the machine has: because of ``taskset``, a container's limit of CPU time, or `CORES`.
    """
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file outside of containers, and "max" instead of a number
        quota, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text().split())
        cores = min(cores, quota // period)
    with suppress(ValueError):
        cores = min(cores, int(os.environ.get(CORES, "")))
    return max(cores, 1)


def worker_variables() -> dict[str, str]:
    """Returns the variables of a process that has one core, and finds modules where this one does."""
    # Such as a user's own game, which may be in the folder of a script.
    return {CORES: "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path_for_workers()}


def give_way(nice: int) -> None:
    """Adds to the niceness of this process, which should have a session of its own."""
    if not hasattr(os, "nice"):  # on Windows
        return
    niceness = os.nice(nice)
    # Linux first divides the cores among sessions, whatever the niceness of their processes is.
    for _ in range(_TRIES):
        try:
            Path("/proc/self/autogroup").write_text(str(niceness))
        except BlockingIOError:  # without privileges, there may be ten such changes per second in the whole system
            time.sleep(_PAUSE)
        except OSError:  # it does not divide them so
            return
        else:
            return
