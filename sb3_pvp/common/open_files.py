"""The limit of open files, of which each connection of a server is one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

#: Connections that are accepted in a row. For each, asyncio tries again, and logs, if no file may be opened any more.
ACCEPTED_AT_ONCE = 16
#: Connections that may wait to be accepted: thousands of clients may start at once.
_WAITING = 4096
#: Files that a server needs for everything else: connections that it is about to close, models, logs.
_SPARE = 128


def allow_many_open_files() -> None:
    """Raises the limit of open files to the system's maximum."""
    import resource  # not on every system, and only needed where a server runs

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def most_connections(wanted: int) -> int:
    """Returns how many connections a server may have at the same time: ``wanted``, or as files allow."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if limit == resource.RLIM_INFINITY else max(min(wanted, limit - _SPARE), 1)


async def start_accepting(server: asyncio.Server) -> None:
    """Starts a server that was created with ``backlog=ACCEPTED_AT_ONCE``, so that more clients may wait."""
    await server.start_serving()
    for listening in server.sockets:
        with socket.socket(fileno=os.dup(listening.fileno())) as same:
            same.listen(_WAITING)
