"""The Ray cluster: joining it, and how many actors it has room for."""

from __future__ import annotations

import importlib
import os
import socket
from typing import Any

from sb3_pvp.common.errors import extra
from sb3_pvp.common.stop_signals import kept

#: CPUs of an actor; it uses one thread.
CPUS_PER_ACTOR = 1.0


def connect() -> Any:
    """Joins a Ray cluster unless this process has joined one, and returns the module ``ray``.

    ``RAY_ADDRESS`` names the cluster. Without it, that of this machine is taken if ``ray start`` has begun one;
    otherwise one begins here, which ends with this process.

    Raises:
        MissingExtra: if Ray is not installed.
        ConnectionError: if there is no cluster at that address.
    """
    # Ray reports the usage of every cluster to its makers unless told otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with extra("ray", "actors on many machines"):
        ray = importlib.import_module("ray")
    if not ray.is_initialized():
        _check_address(os.environ.get("RAY_ADDRESS", ""))
        with kept():  # Ray exits at once at SIGTERM
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    return ray


def _check_address(address: str) -> None:
    """Raises `ConnectionError` if nobody listens there, for which Ray would wait several minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:  # not a plain address, such as "auto"
        return
    try:
        socket.create_connection((host, int(port)), timeout=10.0).close()
    except OSError as error:
        raise ConnectionError(f"there is no Ray cluster at RAY_ADDRESS={address}: {error}") from error


def room_for_actors(num_cpus: float = CPUS_PER_ACTOR) -> int:
    """Returns how many actors with so many CPUs each the whole cluster has room for (training.md §14).

    Raises `ValueError` if there is no room for one.
    """
    cpus = connect().cluster_resources().get("CPU", 0.0)
    count = int(cpus / num_cpus) if num_cpus else 0
    if count < 1:
        raise ValueError(
            f"the Ray cluster has {cpus:g} CPUs, and an actor gets {num_cpus:g}: name a number of actors, such as "
            "--distribute 2, and fewer CPUs for each of them, such as --num-cpus-per-actor 0.5"
        )
    return count
