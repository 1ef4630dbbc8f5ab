"""The limit of open files, of which each connection of a server is one."""

from __future__ import annotations

import contextlib


def allow_many_open_files() -> None:
    """Raises the limit of open files to the system's maximum."""
    import resource  # not on every system, and only needed where a server runs

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
