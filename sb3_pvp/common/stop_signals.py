"""SIGTERM and SIGHUP stop a command as Ctrl-C does: by `KeyboardInterrupt`, so that it saves what it has.

Each command begins in `stopping`. What must not be cut short is done in `uninterrupted`. Processes that work for
another one call `leave_to_parent`: the same signal often reaches all of them, and the other one still needs them.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from traceback import walk_stack
from types import FrameType
from typing import Any

from sb3_pvp.common.processes import STOP_SIGNALS

STOPPED = 128 + signal.SIGINT  #: Exit code of a command that was stopped, as of shells after Ctrl-C.

_Handler = Callable[[int, FrameType | None], Any]
_USUAL = (signal.SIG_DFL, signal.default_int_handler)  # handlers of a program that has set none
_PAUSE = 0.1  # seconds until a signal comes again
_FRAGILE = "importlib._bootstrap", "llvmlite"  # parts of the names of files whose functions must not be interrupted
_waits: dict[str, float] = {}  # "again": when a signal comes again; "end": when it has waited for long enough


@contextmanager
def stopping() -> Iterator[None]:
    """Lets all these signals raise `KeyboardInterrupt`; one that is ignored, as SIGHUP by ``nohup``, stays ignored.

    Python drops what is raised in a function that C calls, or in ``__del__``. In the middle of an import it may abort
    the process, or be dropped by a library; in LLVM's, it makes another error. There the signal comes again, later.
    """
    before = sys.unraisablehook
    sys.unraisablehook = lambda dropped: before(dropped) if dropped.exc_type is not KeyboardInterrupt else _send_later()
    try:
        with _replacing(_USUAL.__contains__, _interrupt):
            yield
    finally:
        sys.unraisablehook = before


@contextmanager
def interrupts() -> Iterator[None]:
    """Raises `KeyboardInterrupt` where compiled functions make another error of it.

    Those of Numba raise a `SystemError` if a signal to stop comes while their arguments are prepared, and one from that
    for each function that this one was called by.
    """
    try:
        yield
    except SystemError as error:
        first: BaseException | None = error
        while isinstance(first, SystemError):
            first = first.__cause__ or first.__context__
        if isinstance(first, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


def deferring(handler: _Handler) -> AbstractContextManager[None]:
    """Calls ``handler`` for signals that would raise `KeyboardInterrupt`."""
    return _replacing((_interrupt, signal.default_int_handler).__contains__, handler)


def uninterrupted() -> AbstractContextManager[None]:
    """Ignores signals to stop, for what must be written completely."""
    return _replacing(callable, _do_nothing)


def only_by_ctrl_c() -> AbstractContextManager[None]:
    """Lets Ctrl-C alone raise `KeyboardInterrupt`: other signals to stop may come several times."""
    return deferring(lambda number, frame: _raise() if number == signal.SIGINT else None)


def kept() -> AbstractContextManager[None]:
    """Restores `stopping` after a block that replaces handlers for good, as some libraries do."""
    return deferring(_interrupt)


def leave_to_parent() -> None:
    """Ignores these signals in a process that ends with its parent."""
    for number in STOP_SIGNALS:
        signal.signal(number, _do_nothing)  # not SIG_IGN, which programs that this process starts would inherit


@contextmanager
def without_hangup() -> Iterator[None]:
    """Keeps SIGHUP from the programs that this block starts, for good, and from this one until the block ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def drop_lost_outputs() -> None:
    """Lets nothing fail for being printed after the terminal, or the reader of a pipe, is gone: it goes nowhere."""
    outputs = select.poll()
    for number in (1, 2):
        outputs.register(number, 0)
    for number, _ in outputs.poll(0):  # it only reports errors and hang-ups
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def say(text: str) -> None:
    """Prints from a signal handler, where that can fail: the output may be gone, or in the middle of a line."""
    with suppress(OSError, RuntimeError):
        print(text, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    places = [each.f_code.co_filename for each, _ in walk_stack(frame)]
    if any(name in place for name in _FRAGILE for place in places) and now < _waits.setdefault("end", now + 20):
        _send_later()
    else:
        _waits.clear()
        raise KeyboardInterrupt


def _send_later() -> None:
    now = time.monotonic()
    if now < _waits.get("again", 0.0):  # several were dropped at once
        return
    _waits["again"] = now + _PAUSE
    timer = threading.Timer(_PAUSE, _send_again)
    timer.daemon = True
    timer.start()


def _send_again() -> None:
    if _waits.pop("again", None) is None:  # another signal has stopped the command meanwhile
        return
    if hasattr(signal, "pthread_kill"):  # not on Windows; this also wakes a thread that waits
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _raise() -> None:
    raise KeyboardInterrupt


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


@contextmanager
def _replacing(applies_to: Callable[[Any], bool], handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # the only one that can set handlers
        yield
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    replaced = {number: found for number, found in before.items() if applies_to(found)}
    try:
        for number in replaced:
            signal.signal(number, handler)
        yield
    finally:
        for number, found in replaced.items():
            signal.signal(number, found)
