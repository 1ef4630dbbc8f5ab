"""How many processor cores this process may use, and which kind of work goes first when there are too few."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: An environment variable that limits `num_cores`. It is 1 in every worker process: others have the other cores.
CORES = "SB3_PVP_CORES"
#: Niceness of processes by kind of work, 0 (first) to 19 (only what all others leave); that of the learner is 0.
PRIORITY = {"actors": 5, "evaluation": 6, "rating": 8, "exploiters": 10, "sweeps": 12}


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
