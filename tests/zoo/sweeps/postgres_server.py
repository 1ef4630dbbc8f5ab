"""A PostgreSQL server of its own for tests, in a temporary folder, reachable by a socket in that folder only."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

#: ``.ci/run`` sets it, where every test must run.
REQUIRED = "SB3_PVP_REQUIRE_POSTGRES"
_END_OTHERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"""
_PROGRAMS = ("initdb", "postgres", "pg_isready")


def require_postgres() -> None:
    """Skips the test where there is no PostgreSQL to run, or no driver for it, unless that is forbidden."""
    missing = [program for program in _PROGRAMS if _program(program) is None]
    if missing or find_spec("psycopg") is None:
        give_up = pytest.fail if os.environ.get(REQUIRED) else pytest.skip
        give_up(f"needs {', '.join(missing) or 'psycopg'}")


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of the database of a server that ends with the context."""
    with tempfile.TemporaryDirectory(prefix="sb3_pvp_postgres_") as name:
        folder = Path(name)
        as_user = _not_root(folder)
        made = [_program("initdb"), "--pgdata", str(folder / "data"), "--auth", "trust", "--username", "tester"]
        subprocess.run([*made, "--no-sync"], check=True, stdout=subprocess.DEVNULL, cwd=folder, **as_user)
        options = ["-D", str(folder / "data"), "-k", name, "-c", "listen_addresses=", "-c", "fsync=off"]
        with (folder / "log").open("w") as log:
            server = subprocess.Popen([str(_program("postgres")), *options], stderr=log, cwd=folder, **as_user)
        try:
            wait = [str(_program("pg_isready")), "--host", name, "--timeout", "1"]
            assert any(not subprocess.run(wait, stdout=subprocess.DEVNULL).returncode for _ in range(30))
            yield f"postgresql://tester@/postgres?host={name}"
        finally:
            server.send_signal(signal.SIGINT)  # clients may stay connected, and are cut off
            server.wait()


def empty_database(url: str) -> None:
    """Removes all tables, and ends the connections that still use them."""
    engine = sqlalchemy.create_engine(sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(_END_OTHERS))
        connection.execute(sqlalchemy.text("DROP SCHEMA public CASCADE; CREATE SCHEMA public"))
    engine.dispose()


def _program(name: str) -> str | None:
    # Distributions keep the server's programs away from the path.
    kept = sorted(str(folder) for folder in Path("/usr/lib/postgresql").glob("*/bin"))
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(reversed(kept)))


def _not_root(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
