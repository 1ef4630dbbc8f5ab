"""Modules of users: the working directory, where anybody's files may be, has code only where a user names some."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: How a module becomes a process. `-m` alone would put the working directory in front of all packages.
PYTHON = (sys.executable, "-P", "-m")
_SAFE_PATH = "PYTHONSAFEPATH"
_HOME = str(Path(__file__).resolve().parents[2])  #: Where this package is, a checkout or the folder of all packages.


@contextmanager
def importing_here() -> Iterator[None]:
    """Lets modules be in the working directory: for what a user has named; last, so that they hide no package."""
    here = os.getcwd()
    sys.path.append(here)
    try:
        yield
    finally:
        # The last one: others may have been there before, or be of an outer context.
        if here in sys.path:
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(here)]


def path_for_workers() -> str:
    """Returns where a worker process finds modules: where this one does, but in the working directory last."""
    here = os.getcwd()
    places = [place or here for place in sys.path]
    return os.pathsep.join(places if here == _HOME else sorted(places, key=here.__eq__))


@contextmanager
def safe_path() -> Iterator[None]:
    """Keeps child processes that Python starts itself from looking into the working directory."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        del os.environ[_SAFE_PATH]
        os.environ.update({} if before is None else {_SAFE_PATH: before})
