"""Files after a crash: what is written atomically is complete or as it was before, and what is damaged is named."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from zlib import crc32

from sb3_pvp.common.errors import one_line

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def own_prefix() -> str:
    """Returns how the names begin of what this process makes for itself only: `sweep` finds it if that is killed."""
    return f"sb3-pvp-{_machine()}-{os.getpid()}-"


@cache
def _machine() -> str:
    """Returns where the numbers of processes mean the same: containers may share a folder, and even the host's name."""
    namespace = Path("/proc/self/ns/pid")
    return f"{crc32(f'{platform.node()} {os.readlink(namespace) if namespace.exists() else 0}'.encode()):08x}"


@cache
def sweep(folder: Path) -> None:
    """Removes what killed processes have left in a folder, see `own_prefix`; looks once per process."""
    name = re.compile(rf"\.?sb3-pvp-{_machine()}-([0-9]{{1,7}})-.*")
    with suppress(OSError):  # such as a folder that cannot be listed
        for path in folder.iterdir():
            if (match := name.fullmatch(path.name)) and not _is_alive(int(match[1])):
                with suppress(OSError):  # such as a file of another user
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _is_alive(pid: int) -> bool:
    import psutil  # takes a while

    return psutil.pid_exists(pid)


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Makes a folder that is deleted at the end of a ``with`` block, or by `sweep`."""
    sweep(Path(tempfile.gettempdir()))
    return tempfile.TemporaryDirectory(prefix=own_prefix(), ignore_cleanup_errors=True)


def no_space(error: BaseException | None) -> OSError | None:
    """Returns the error which says that the disk is full, if it has led to this one."""
    while error is not None and not (isinstance(error, OSError) and error.errno in _NO_SPACE):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path with the same ending, whose file replaces ``path`` at the end of the ``with`` block.

    If the block raises, ``path`` stays as it was. Missing parent folders are created. A link stays: the file that it
    leads to is replaced. An existing file keeps its permissions, and its owner where this user may set it. A device or
    a pipe, such as ``/dev/stdout``, is written to instead.

    Raises before the block: `IsADirectoryError` for a folder, `PermissionError` for a file that this user may not
    write, and `OSError` for a socket.
    """
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, and cannot be replaced by a file")
    if path.is_socket():
        raise OSError(f"{path} is a socket, to which nothing can be written")
    is_stream = path.exists() and not path.is_file()
    target = path if is_stream else Path(os.path.realpath(path))
    if target.is_file():
        target.open("rb+").close()  # a folder lets its files be replaced even where they may not be written
    target.parent.mkdir(parents=True, exist_ok=True)
    if not is_stream:
        sweep(target.parent)
    with temporary_folder() if is_stream else nullcontext(target.parent) as folder:
        # The ending is that of ``path``: matplotlib chooses the format by it, and SB3 appends .zip where there is none.
        partial = Path(folder, f".{own_prefix()}{path.name}")
        try:
            yield partial
            (_pour if is_stream else _put)(partial, target)
        except Exception as error:
            if full := no_space(error):  # of which libraries make other errors, or do not say where
                raise OSError(full.errno, full.strerror, str(path)) from error
            if isinstance(error, OSError) and error.filename == str(partial):  # a name that the caller does not know
                error.filename = str(path)
            raise
        finally:
            partial.unlink(missing_ok=True)


def _put(partial: Path, target: Path) -> None:
    """Moves a file to where another one may be."""
    # Without fsync a power failure may leave the new name with no content.
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    if target.exists():
        before = target.stat()
        with suppress(PermissionError):  # first, because it resets some of the permissions
            os.chown(partial, before.st_uid, before.st_gid)
        shutil.copymode(target, partial)
    partial.replace(target)


def _pour(partial: Path, stream: Path) -> None:
    """Writes the content of a file to a device or a pipe."""
    with partial.open("rb") as content:
        try:
            with stream.open("wb") as output:
                shutil.copyfileobj(content, output)
        except OSError as error:  # which says that there is no space left, but not where
            error.filename = str(stream)
            raise


def write_atomically(path: Path, text: str) -> None:
    """Writes a UTF-8 text file atomically, see `replacing`."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


class DamagedFile(ValueError):
    """Raised for a file whose content cannot be read; the message is one line that names it."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns whatever the content of a file raises into `DamagedFile`; a file that is missing is not damaged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # of zip, YAML, NumPy's and pandas' files, whose readers check little
        raise DamagedFile(f"{path}: it is damaged ({one_line(error):.200})") from error


@contextmanager
def skipping_damage() -> Iterator[None]:
    """Ends its block at a `DamagedFile`, with a warning."""
    try:
        yield
    except DamagedFile as error:
        warnings.warn(f"Skipping {error}", RuntimeWarning, stacklevel=3)
