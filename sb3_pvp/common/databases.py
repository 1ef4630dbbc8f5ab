"""SQLite files and PostgreSQL databases through one door: connections, transactions, and errors in one line."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sb3_pvp.common.errors import extra, without_password

# A stop may come while a connection is closed: it is raised again, so its traceback is no news.
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)

#: What most columns are, for `sqlalchemy.Column`: a text or an integer that is never missing.
TEXT: Any = {"type_": sa.Text, "nullable": False}
NUMBER: Any = {"type_": sa.BigInteger, "nullable": False}


def is_database(path: str | Path) -> bool:
    """Whether this is the URL of a database, and not the path of a file."""
    return str(path).startswith("postgresql")


def shown_address(path: str | Path) -> str:
    """Returns the path of a file, or the URL of a database without its password."""
    return without_password(str(path)) if is_database(path) else str(path)


def postgresql_url(address: str) -> sa.URL:
    """Returns the URL of a database, for our driver; `ValueError` where a password would be read as a host.

    Raises `MissingExtra` without the driver.
    """
    with extra("postgres", "PostgreSQL databases"):
        import psycopg  # noqa: F401
    url = sa.make_url(address).set(drivername="postgresql+psycopg")
    if "@" in (url.host or ""):
        raise ValueError(f"an @ in the password of {without_password(address)} must be written as %40")
    return url


@contextmanager
def connected(path: str | Path, what: str, mode: str = "") -> Iterator[sa.Connection]:
    """Opens an SQLite file or a database for one use: connections must not cross threads, forks or pickles.

    Args:
        path: of the file, which is created if missing, or the URL ``postgresql://…`` of the database.
        what: it is to be, such as "match log", for errors.
        mode: parameters of SQLite's file URL.

    Raises:
        OSError: if it cannot be used, also if the disk is full.
        ValueError: if it is something else.
    """
    address = str(path) if is_database(path) else f"{Path(path).absolute().as_uri()}{mode}"
    try:
        with _engine(address).connect() as connection:
            yield connection
    except (sqlite3.OperationalError, sa.exc.OperationalError) as error:  # before its base class DatabaseError
        reason = getattr(error, "orig", None) or error
        if "disk is full" in str(reason):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), shown_address(path)) from error
        raise OSError(f"cannot use the {what} {shown_address(path)}: {' '.join(str(reason).split())}") from error
    except (sqlite3.DatabaseError, sa.exc.DatabaseError) as error:
        reason = getattr(error, "orig", None) or error
        raise ValueError(f"{shown_address(path)} is not a {what}: {' '.join(str(reason).split())}") from error


@contextmanager
def writing(connection: sa.Connection, lock: int) -> Iterator[None]:
    """A transaction that holds the lock of writers from the start; ``lock`` is its number in a database."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({lock})")
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


@cache
def _engine(address: str) -> sa.Engine:
    """Returns what opens connections; it keeps none, so it may be used after a fork."""
    if is_database(address):
        return sa.create_engine(postgresql_url(address), poolclass=sa.NullPool)

    def connect() -> sqlite3.Connection:
        # Wait up to a minute for other writers. isolation_level=None: we begin transactions ourselves.
        connection = sqlite3.connect(address, timeout=60, isolation_level=None, uri=True)
        connection.execute("PRAGMA synchronous = FULL")  # in WAL mode, survives a power failure only if FULL
        return connection

    return sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool)
