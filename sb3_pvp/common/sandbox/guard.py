"""The process side of a sandbox: it prepares, and then does jobs behind walls.

``python -m sb3_pvp.common.sandbox.guard DESCRIPTOR`` is the guard, whom no stranger's code reaches: it prepares, forks
the process that locks itself and does the jobs, and ends that, with all that it has started, when its own input is
closed.
Lines of JSON come in: an order, then jobs. Lines of JSON go out, each with one field: once ``lacking``, the walls that
do not stand, then ``reply``, ``done`` or ``error``.
"""

from __future__ import annotations

import importlib
import os
import re
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from mmap import mmap
from typing import IO, Any

import orjson

from sb3_pvp.common.sandbox import walls
from sb3_pvp.common.stop_signals import leave_to_parent

#: Calls of a job: its message, and what notes whose code runs next.
Function = Callable[[Any, Callable[[int], None]], Iterator[Mapping[str, Any]]]

OUT_OF_MEMORY = 77  #: Exit code.
NOBODY = -1  #: The mark of nobody's code.
_NEARLY_ALL = 0.75
_NO_MEMORY = re.compile("allocate memory|bad.alloc|Failed to allocate")  # as PyTorch and ONNX Runtime say it
MARKS_SIZE = 16  #: Bytes of the memory for marks: the number, and how often it was set.


def guard(descriptor: int) -> int:
    """Prepares, forks the process that does the jobs, and ends it when stdin is closed."""
    leave_to_parent()
    parent = os.getppid()
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what is printed must not get among the replies
    order = orjson.loads(requests.readline())
    lacking = walls.enter_namespaces()
    closed = select.poll()
    closed.register(requests.fileno(), 0)  # it only reports hang-ups

    def is_alone(milliseconds: int) -> bool:  # a fork of the parent may have the other end open
        return bool(closed.poll(milliseconds)) or os.getppid() != parent

    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(1) if is_alone(0) else None)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        function = _prepared(order["target"], order["setup"])
    except Exception:
        _reply(replies, {"error": traceback.format_exc()[-4000:]})
        return 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    child = walls.fork_apart(lacking)
    if child == 0:
        try:
            _serve(function, order, lacking, requests, replies, descriptor)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    replies.close()  # so that its end is seen
    while not (ended := os.wait4(child, os.WNOHANG))[0]:
        if is_alone(50):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            ended = os.wait4(child, 0)
            break
    walls.end_all_of(order["user"])
    code = os.waitstatus_to_exitcode(ended[1])
    # Libraries crash when memory is short as often as they say so.
    if code < 0 and ended[2].ru_maxrss - used > _NEARLY_ALL * 1024 * order["memory_mb"]:
        return OUT_OF_MEMORY
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
    memory = mmap(descriptor, MARKS_SIZE)
    marks = memoryview(memory).cast("q")
    os.close(descriptor)

    def mark(number: int) -> None:
        marks[0] = number
        marks[1] += 1

    lacking += walls.lock(order["user"], order["readable"], order["memory_mb"])
    _keep_no_kernels()
    _reply(replies, {"lacking": lacking})
    for line in requests:
        last: dict[str, Any] = {"done": True}
        try:
            for reply in function(orjson.loads(line), mark):
                mark(NOBODY)
                _reply(replies, {"reply": reply})
        except Exception as error:
            if isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)):
                raise MemoryError from error
            last = {"error": traceback.format_exc()[-4000:]}
        mark(NOBODY)
        _reply(replies, last)


def _keep_no_kernels() -> None:
    """Lets Numba, if it was prepared, compile kernels that are cached: it raises where it cannot write."""
    for module, kind, method in (("dispatcher", "Dispatcher", "enable_caching"), ("caching", "Cache", "save_overload")):
        if found := sys.modules.get(f"numba.core.{module}"):
            setattr(getattr(found, kind), method, lambda *args: None)


def _reply(replies: IO[bytes], message: Mapping[str, Any]) -> None:
    replies.write(orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
    replies.flush()


if __name__ == "__main__":
    sys.exit(guard(int(sys.argv[1])))
