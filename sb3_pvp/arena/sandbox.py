"""Strangers' fighters meet in a process behind `walls`; whatever it does, who asked it gets replies or `SandboxDied`.

``python -m sb3_pvp.arena.sandbox DESCRIPTOR`` is the guard of such a process: it prepares, forks the process that locks
itself and does the jobs, and ends it, with all that it has started, as soon as its own input is closed.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from mmap import mmap
from pathlib import Path
from typing import IO, Any

import orjson
import psutil
from pydantic import BaseModel, PositiveFloat, PositiveInt

from sb3_pvp.arena import walls
from sb3_pvp.common.cores import worker_variables
from sb3_pvp.common.stop_signals import leave_to_parent
from sb3_pvp.common.user_modules import PYTHON

#: Calls of a job: its message, and what notes whose code runs next.
Function = Callable[[Any, Callable[[int], None]], Iterator[Mapping[str, Any]]]

MAX_LINE = 16 << 20  #: Bytes of a reply.
_MAX_PRINTED = 8 << 10
_CHUNK = 1 << 18
_GRACE = 3.0  # seconds for the guard to end what it guards
_OUT_OF_MEMORY = 77  # exit code
_NOBODY = -1
#: The environment variables that a process gets; none of them is a secret.
_KEPT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "NUMBA_CACHE_DIR", "PATH", "TZ")
# Threads do not survive a fork.
_ONE_THREAD = {f"{of}_NUM_THREADS": "1" for of in ("OMP", "MKL", "OPENBLAS", "NUMBA")}


class Limits(BaseModel, frozen=True, extra="forbid"):
    """What a job may use; whoever goes beyond it dies."""

    memory_mb: PositiveInt = 2048  #: Beyond what the process uses when it is locked.
    call_seconds: PositiveFloat = 10.0  #: How long one marked call may last.
    silence_seconds: PositiveFloat = 600.0  #: How long without any reply.


class SandboxDied(RuntimeError):
    """Raised when the process of a job has ended, or had to be ended.

    Attributes:
        cause: ``"crashed"``, ``"out of memory"``, ``"hung"`` or ``"nonsense"``: a reply that is no JSON object, or too
            large.
        marked: the number that was marked last, or ``None`` if none was. Machine code of a stranger can mark any.
    """

    def __init__(self, cause: str, marked: int | None) -> None:
        super().__init__(
            f"a match's process is gone: {cause}{'' if marked is None else f', while {marked} was marked'}"
        )
        self.cause, self.marked = cause, marked


@cache
def missing_walls() -> tuple[str, ...]:
    """Returns what this machine cannot enforce, one sentence each; it is tried, in a process that ends at once."""
    if not sys.platform.startswith("linux"):
        return (walls.NO_LINUX,)
    with closing(_Worker("", {}, Limits(), ())) as worker:
        return next(tuple(message["lacking"]) for message in worker.messages(Limits()) if "lacking" in message)


class Sandbox:
    """One process at a time for jobs that run strangers' code. POSIX only.

    Before it is locked, the process imports the module and calls its ``prepare(setup)``, if there is one: trusted code,
    which imports and compiles what matches need, and leaves no threads. What is printed goes to stderr, a few kB of it.

    Args:
        target: ``"module:function"``. For each job, ``function(job, mark)`` yields replies that orjson can write (NaN
            arrives as ``None``). It calls ``mark(number)`` before a player's code, and ``mark(-1)`` after it; a reply
            does so too.
        setup: what ``prepare`` gets.
        limits: of each job.
        readable: files and folders that the process may read, beside Python and its packages.
    """

    def __init__(self, target: str, setup: Mapping[str, Any], limits: Limits, readable: Sequence[Path] = ()) -> None:
        self._target, self._setup, self._limits = target, setup, limits
        self._readable = [str(path.resolve()) for path in readable]
        self._worker: _Worker | None = None

    def run(self, job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the replies of one job as they come; after all but an error of the function, a process is reused.

        Raises `SandboxDied`, and `RuntimeError` with the traceback if ``prepare`` or the function has raised one.
        """
        if self._worker is not None and self._worker.has_ended():
            self.close()
        if self._worker is None:
            self._worker = _Worker(self._target, self._setup, self._limits, self._readable)
        else:
            self._worker.send(job)
        worker, is_over = self._worker, False
        try:
            for message in worker.messages(self._limits):
                if "reply" in message:
                    yield message["reply"]
                elif "lacking" in message:
                    if lost := {*message["lacking"]} - {*missing_walls()}:
                        raise RuntimeError(f"a wall that stood before is missing: {'; '.join(sorted(lost))}")
                    worker.send(job)
                else:
                    is_over = "done" in message
                    break
            if not is_over:
                raise RuntimeError(message["error"])
        finally:
            if not is_over:
                self.close()

    def close(self) -> None:
        """Ends the process and everything that it has started; later calls do nothing."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


class _Worker:
    """A guard, the process behind its walls, and the pipes to it."""

    def __init__(self, target: str, setup: Mapping[str, Any], limits: Limits, readable: Sequence[str]) -> None:
        self._user, self._reserved = _unused_user()
        descriptor = _shared_memory()
        self._memory = mmap(descriptor, 16)
        self._marks = memoryview(self._memory).cast("q")  # the number, and how often it was set
        self._marks[0] = _NOBODY
        self._process = subprocess.Popen(
            [*PYTHON, __name__, str(descriptor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: os.environ[name] for name in _KEPT if name in os.environ} | worker_variables() | _ONE_THREAD,
            cwd="/",
            start_new_session=True,
            pass_fds=(descriptor,),
            bufsize=0,
        )
        os.close(descriptor)
        self._unsent, self._received, self._printed = b"", bytearray(), bytearray()
        self._selector = selectors.DefaultSelector()
        for pipe, read in ((self._process.stdout, self._receive), (self._process.stderr, self._print)):
            os.set_blocking(_number(pipe), False)
            self._selector.register(_number(pipe), selectors.EVENT_READ, read)
        os.set_blocking(_number(self._process.stdin), False)
        order = {"target": target, "setup": setup, "readable": readable, "memory_mb": limits.memory_mb}
        self.send({**order, "user": self._user})

    def send(self, message: Mapping[str, Any]) -> None:
        """Puts a message on its way: it leaves while one waits for replies, since the other side may not read."""
        self._unsent += orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"
        with suppress(KeyError):  # it is waited for already
            self._selector.register(_number(self._process.stdin), selectors.EVENT_WRITE, self._send)

    def has_ended(self) -> bool:
        """Returns whether it has died since the last job."""
        return self._process.poll() is not None

    def messages(self, limits: Limits) -> Iterator[dict[str, Any]]:
        """Yields what the process says; raises `SandboxDied`."""
        marks: list[int] = []
        heard = called = time.monotonic()
        while True:
            ready = self._selector.select(min(0.25, limits.call_seconds / 4))
            now = time.monotonic()
            # Who asks may have been busy elsewhere: only a mark that has not changed meanwhile has lasted so long.
            if marks != (marks := self._marks.tolist()):
                called = now
            has_ended = [key.data() for key, _ in ready].count(True) > 0
            lines = self._lines()
            for line in lines:
                yield self._understood(line)
            if lines:
                heard = time.monotonic()
            elif has_ended:
                raise self._died(self._cause_of_death())
            if now - heard > limits.silence_seconds or (
                marks[0] != _NOBODY and marks == self._marks.tolist() and now - called > limits.call_seconds
            ):
                raise self._died("hung")

    def close(self) -> None:
        """Ends the process and everything that it has started."""
        pipes = self._process.stdin, self._process.stdout, self._process.stderr
        self._selector.close()
        _close(pipes[0])
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:  # it still prepares; its child, if it has one, dies with it
            self._process.kill()
            self._process.wait()
            walls.end_all_of(self._user)
        for pipe in pipes[1:]:
            _close(pipe)
        self._marks.release()
        self._memory.close()
        if self._reserved is not None:
            self._reserved.close()

    def _send(self) -> None:
        with suppress(BrokenPipeError, BlockingIOError):
            self._unsent = self._unsent[os.write(_number(self._process.stdin), self._unsent[:_CHUNK]) :]
            if self._unsent:
                return
        self._selector.unregister(_number(self._process.stdin))
        self._unsent = b""

    def _receive(self) -> bool:
        """Reads replies; returns whether there will be no more."""
        chunk = os.read(_number(self._process.stdout), _CHUNK)
        self._received += chunk
        return not chunk

    def _print(self) -> None:
        """Passes on what was printed, without what could steer a terminal."""
        chunk = os.read(_number(self._process.stderr), _CHUNK)
        if not chunk:
            self._selector.unregister(_number(self._process.stderr))
        chunk = chunk[: _MAX_PRINTED - len(self._printed)]
        self._printed += chunk
        text = chunk.decode(errors="replace")
        with suppress(OSError, ValueError, AttributeError):  # stderr is closed
            sys.stderr.write("".join(each if each.isprintable() or each == "\n" else "?" for each in text))

    def _lines(self) -> list[bytearray]:
        """Takes all complete lines from what was received."""
        end = self._received.rfind(b"\n", max(0, len(self._received) - _CHUNK))
        if end < 0 and len(self._received) > MAX_LINE:
            raise self._died("nonsense")
        lines = self._received[:end].split(b"\n") if end >= 0 else []
        del self._received[: end + 1]
        return lines

    def _understood(self, line: bytearray) -> dict[str, Any]:
        with suppress(orjson.JSONDecodeError):
            message = orjson.loads(line)
            if isinstance(message, dict) and len(message) == 1 and len(line) <= MAX_LINE:
                ((kind, value),) = message.items()
                if isinstance(value, {"reply": dict, "lacking": list, "error": str, "done": bool}.get(kind, ())):
                    return message
        raise self._died("nonsense")

    def _cause_of_death(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        with suppress(KeyError, BlockingIOError):
            self._print()
        # Nobody but the kernel, when memory is short, ends it by SIGKILL; C++ says why it aborts.
        is_too_large = (
            self._process.returncode in (_OUT_OF_MEMORY, 128 + signal.SIGKILL) or b"bad_alloc" in self._printed
        )
        return "out of memory" if is_too_large else "crashed"

    def _died(self, cause: str) -> SandboxDied:
        marked = self._marks[0]
        return SandboxDied(cause, None if marked < 0 else marked)


def _number(pipe: IO[bytes] | None) -> int:
    assert pipe is not None
    return pipe.fileno()


def _close(pipe: IO[bytes] | None) -> None:
    assert pipe is not None
    pipe.close()


def _shared_memory() -> int:
    """Returns a descriptor of 16 bytes; no size but this one, where a reader could be killed for reading beyond it."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryFile() as file:
            file.truncate(16)
            return os.dup(file.fileno())
    descriptor = os.memfd_create("marks", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 16)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return descriptor


def _unused_user() -> tuple[int | None, socket.socket | None]:
    """Returns the number of a user that no process has, and what reserves it as long as it is open."""
    if os.geteuid() != 0:
        return None, None
    taken = {each.info["uids"].real for each in psutil.process_iter(["uids"]) if each.info["uids"] is not None}
    for user in sorted({*walls.USERS} - taken):
        reserved = socket.socket(socket.AF_UNIX)
        try:
            reserved.bind(f"\0sb3_pvp.arena.{user}")
        except OSError:
            reserved.close()
        else:
            return user, reserved
    raise RuntimeError("all numbers for users of matches are taken")


def _guard(descriptor: int) -> int:
    """Prepares, forks the process that does the jobs, and ends it when stdin is closed."""
    leave_to_parent()
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what is printed must not get among the replies
    order = orjson.loads(requests.readline())
    lacking = walls.enter_namespaces()
    try:
        function = _prepared(order["target"], order["setup"])
    except Exception:
        _reply(replies, {"error": traceback.format_exc()[-4000:]})
        return 1
    child = walls.fork_apart(lacking)
    if child == 0:
        try:
            _serve(function, order, lacking, requests, replies, descriptor)
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    replies.close()  # so that its end is seen
    closed = select.poll()
    closed.register(requests.fileno(), 0)  # it only reports hang-ups
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if closed.poll(50):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)
            break
    walls.end_all_of(order["user"])
    code = os.waitstatus_to_exitcode(ended[1])
    return code if code >= 0 else 128 - code


def _prepared(target: str, setup: Any) -> Function:
    if not target:  # only the walls are tried
        return lambda job, mark: iter(())
    name, _, function = target.partition(":")
    module = importlib.import_module(name)
    getattr(module, "prepare", lambda setup: None)(setup)
    made: Function = getattr(module, function)
    return made


def _serve(
    function: Function, order: Any, lacking: list[str], requests: IO[bytes], replies: IO[bytes], descriptor: int
) -> None:
    """Locks this process and does jobs from ``requests``, one after another."""
    memory = mmap(descriptor, 16)
    marks = memoryview(memory).cast("q")
    os.close(descriptor)

    def mark(number: int) -> None:
        marks[0] = number
        marks[1] += 1

    lacking += walls.lock(order["user"], order["readable"], order["memory_mb"])
    _reply(replies, {"lacking": lacking})
    for line in requests:
        last: dict[str, Any] = {"done": True}
        try:
            for reply in function(orjson.loads(line), mark):
                mark(_NOBODY)
                _reply(replies, {"reply": reply})
        except MemoryError:
            raise
        except Exception:
            last = {"error": traceback.format_exc()[-4000:]}
        mark(_NOBODY)
        _reply(replies, last)


def _reply(replies: IO[bytes], message: Mapping[str, Any]) -> None:
    replies.write(orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
    replies.flush()


if __name__ == "__main__":
    sys.exit(_guard(int(sys.argv[1])))
