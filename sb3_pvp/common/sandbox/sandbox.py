"""Strangers' fighters meet in a process behind `walls`; whatever that does, who asked gets replies or `SandboxDied`."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from mmap import mmap
from pathlib import Path
from typing import Any

import orjson
import psutil
from pydantic import BaseModel, PositiveFloat, PositiveInt

from sb3_pvp.common.cores import worker_variables
from sb3_pvp.common.sandbox import guard, walls
from sb3_pvp.common.user_modules import PYTHON

MAX_LINE = 16 << 20  #: Bytes of a reply.
_MAX_PRINTED = 8 << 10
_CHUNK = 1 << 18
_GRACE = 3.0  # seconds for the guard to end what it guards
#: The environment variables that a process gets; none of them is a secret.
_KEPT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "NUMBA_CACHE_DIR", "PATH", "TZ")
# Threads do not survive a fork.
_ONE_THREAD = {f"{of}_NUM_THREADS": "1" for of in ("OMP", "MKL", "OPENBLAS", "NUMBA")}


class SandboxLimits(BaseModel, frozen=True, extra="forbid"):
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
        super().__init__(cause, marked)
        self.cause, self.marked = cause, marked

    def __str__(self) -> str:
        return f"a match's process is gone: {self.cause}{'' if self.marked is None else f', in {self.marked}'}"


@cache
def missing_walls() -> tuple[str, ...]:
    """Returns what this machine cannot enforce, one sentence each; it is tried, in a process that ends at once."""
    if not sys.platform.startswith("linux"):
        return (walls.NO_LINUX,)
    with closing(_Worker("", {}, SandboxLimits(), ())) as worker:
        return next(tuple(message["lacking"]) for message in worker.messages(SandboxLimits()) if "lacking" in message)


class Sandbox:
    """One process at a time for jobs that run strangers' code. Linux only.

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

    def __init__(
        self, target: str, setup: Mapping[str, Any], limits: SandboxLimits, readable: Sequence[Path] = ()
    ) -> None:
        self._target, self._setup, self._limits = target, setup, limits
        self._readable = [str(path.resolve()) for path in readable]
        self._worker: _Worker | None = None

    def run(self, job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the replies of one job as they come. If nobody wants the rest, the process ends.

        Raises `SandboxDied`, after which the next job has a new process, and `RuntimeError` with the traceback if
        ``prepare`` or the function has raised something.
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
                    is_over = worker.is_locked  # or else it could not be prepared
                    break
            if "error" in message:
                raise RuntimeError(_plain(message["error"][:_MAX_PRINTED]))
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

    def __init__(self, target: str, setup: Mapping[str, Any], limits: SandboxLimits, readable: Sequence[str]) -> None:
        self._user, self._reserved = _unused_user()
        descriptor = _shared_memory()
        self._memory = mmap(descriptor, guard.MARKS_SIZE)
        self._marks = memoryview(self._memory).cast("q")  # the number, and how often it was set
        self._marks[0] = guard.NOBODY
        self._process = subprocess.Popen(
            [*PYTHON, guard.__name__, str(descriptor)],
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
        pipes = self._process.stdin, self._process.stdout, self._process.stderr
        self._stdin, self._stdout, self._stderr = (pipe.fileno() for pipe in pipes if pipe is not None)
        self.is_locked = False  #: Whether it has said so.
        self._unsent, self._received, self._printed = b"", bytearray(), bytearray()
        self._selector = selectors.DefaultSelector()
        for number in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(number, False)
        self._selector.register(self._stdout, selectors.EVENT_READ, self._receive)
        self._selector.register(self._stderr, selectors.EVENT_READ, self._print)
        order = {"target": target, "setup": setup, "readable": readable, "memory_mb": limits.memory_mb}
        self.send({**order, "user": self._user})

    def send(self, message: Mapping[str, Any]) -> None:
        """Puts a message on its way: it leaves while one waits for replies, since the other side may not read."""
        self._unsent += orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"
        with suppress(KeyError):  # it is waited for already
            self._selector.register(self._stdin, selectors.EVENT_WRITE, self._send)

    def has_ended(self) -> bool:
        """Returns whether it has died since the last job."""
        return self._process.poll() is not None

    def messages(self, limits: SandboxLimits) -> Iterator[dict[str, Any]]:
        """Yields what the process says; raises `SandboxDied`."""
        marks: list[int] = []
        heard = called = time.monotonic()
        while True:
            ready = self._selector.select(min(0.25, limits.call_seconds / 4))
            if marks != (marks := self._marks.tolist()):
                called = time.monotonic()
            has_ended = [key.data() for key, _ in ready].count(True) > 0
            lines, now = self._lines(), time.monotonic()
            if lines:
                for line in lines:
                    yield self._understood(line)
                heard = called = time.monotonic()  # who asks may have been busy elsewhere, and replies have waited
            elif has_ended:
                raise self._died(self._cause_of_death())
            elif now - heard > limits.silence_seconds or (
                marks[0] != guard.NOBODY and now - called > limits.call_seconds
            ):
                raise self._died("hung")

    def close(self) -> None:
        """Ends the process and everything that it has started."""
        self._selector.close()
        assert self._process.stdin is not None and self._process.stdout is not None and self._process.stderr is not None
        self._process.stdin.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:  # it hangs while it prepares; its child, if it has one, dies with it
            self._process.kill()
            self._process.wait()
            walls.end_all_of(self._user)
        self._process.stdout.close()
        self._process.stderr.close()
        self._marks.release()
        self._memory.close()
        if self._reserved is not None:
            self._reserved.close()

    def _send(self) -> None:
        with suppress(BrokenPipeError, BlockingIOError):
            self._unsent = self._unsent[os.write(self._stdin, self._unsent[:_CHUNK]) :]
            if self._unsent:
                return
        self._selector.unregister(self._stdin)
        self._unsent = b""

    def _receive(self) -> bool:
        """Reads replies; returns whether there will be no more."""
        chunk = os.read(self._stdout, _CHUNK)
        self._received += chunk
        return not chunk

    def _print(self) -> None:
        """Passes on what was printed, without what could steer a terminal."""
        chunk = os.read(self._stderr, _CHUNK)
        if not chunk:
            self._selector.unregister(self._stderr)
        chunk = chunk[: _MAX_PRINTED - len(self._printed)]
        self._printed += chunk
        with suppress(OSError, ValueError, AttributeError):  # there is no stderr
            sys.stderr.write(_plain(chunk.decode(errors="replace")))

    def _lines(self) -> list[bytearray]:
        """Takes all complete lines from what was received."""
        end = self._received.rfind(b"\n", max(0, len(self._received) - _CHUNK))
        if end < 0 and len(self._received) > MAX_LINE:
            raise self._died("nonsense")
        lines = self._received[:end].split(b"\n") if end >= 0 else []
        del self._received[: end + 1]
        return lines

    def _understood(self, line: bytearray) -> dict[str, Any]:
        known = {"reply": dict, "done": bool, "error": str} if self.is_locked else {"lacking": list, "error": str}
        with suppress(orjson.JSONDecodeError):
            message = orjson.loads(line) if len(line) <= MAX_LINE else None
            if isinstance(message, dict) and len(message) == 1:
                ((kind, value),) = message.items()
                if isinstance(value, known.get(kind, ())):
                    self.is_locked |= kind == "lacking"
                    return message
        raise self._died("nonsense")

    def _cause_of_death(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        with suppress(KeyError, BlockingIOError):
            self._print()
        # Nobody but the kernel, when memory is short, ends it by SIGKILL; C++ says why it aborts.
        is_too_large = (
            self._process.returncode in (guard.OUT_OF_MEMORY, 128 + signal.SIGKILL) or b"bad_alloc" in self._printed
        )
        return "out of memory" if is_too_large else "crashed"

    def _died(self, cause: str) -> SandboxDied:
        marked = self._marks[0]
        return SandboxDied(cause, None if marked < 0 else marked)


def _plain(text: str) -> str:
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)


def _shared_memory() -> int:
    """Returns a descriptor of memory whose size is sealed: who reads beyond its end is killed."""
    descriptor = os.memfd_create("marks", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, guard.MARKS_SIZE)
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
            reserved.bind(f"\0sb3_pvp.sandbox.{user}")
        except OSError:
            reserved.close()
        else:
            return user, reserved
    raise RuntimeError("all numbers for users of matches are taken")
