"""Signals that stop a command, and what is safe from them (sb3_pvp.common.stop_signals)."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sb3_pvp.common.stop_signals import STOP_SIGNALS, deferring, interrupts, kept, stopping, uninterrupted
from tests.paths import ROOT


@pytest.fixture(autouse=True)
def as_in_a_terminal() -> Iterator[None]:
    """The handlers of a program that was started by hand, also where tests run in the background."""
    usual = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL)
    before = [signal.signal(number, handler) for number, handler in zip(STOP_SIGNALS, usual, strict=True)]
    yield
    found = [signal.getsignal(number) for number in STOP_SIGNALS]
    for number, handler in zip(STOP_SIGNALS, before, strict=True):
        signal.signal(number, handler)
    assert found == [*usual], "handlers must be restored"


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_each_of_them_is_like_ctrl_c(number: int) -> None:
    with pytest.raises(KeyboardInterrupt), stopping(), stopping():
        signal.raise_signal(number)


def test_a_signal_that_is_ignored_stays_so() -> None:
    """By ``nohup``; and by shells, which let commands in the background ignore Ctrl-C."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stopping(), deferring(lambda *_: pytest.fail("was not ignored")), uninterrupted():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_handlers_of_a_user_are_left_alone() -> None:
    seen: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    with stopping(), deferring(lambda *_: pytest.fail("was not left alone")):
        signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGTERM]
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_a_program_decides_itself_when_to_stop() -> None:
    seen: list[int] = []
    with stopping(), deferring(lambda number, _: seen.append(number)):
        for number in STOP_SIGNALS:
            signal.raise_signal(number)
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
    assert seen == [*STOP_SIGNALS]


def test_without_a_command_nothing_is_changed() -> None:
    """In a user's own program, whose signals are not ours."""
    with deferring(lambda *_: None), uninterrupted():
        assert [signal.getsignal(number) for number in STOP_SIGNALS[1:]] == [signal.SIG_DFL] * 2


def test_a_library_does_not_take_them_away() -> None:
    with stopping():
        with kept():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit("at once"))
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_other_threads_cannot_set_handlers() -> None:
    def work() -> None:
        with stopping(), deferring(lambda *_: None), uninterrupted():
            done.append(True)

    done: list[bool] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def run(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code], env=environment, text=True, check=True, **options)  # type: ignore[call-overload,no-any-return]


def test_who_works_for_another_process_goes_on_but_not_what_it_starts() -> None:
    result = run(
        "import os, signal, subprocess, sys\n"
        "from sb3_pvp.common.stop_signals import STOP_SIGNALS, leave_to_parent\n"
        "leave_to_parent()\n"
        "for number in STOP_SIGNALS: os.kill(os.getpid(), number)\n"
        "code = 'import os, signal; os.kill(os.getpid(), signal.SIGTERM)'\n"
        "print(subprocess.run([sys.executable, '-c', code]).returncode)\n",
        stdout=subprocess.PIPE,
    )
    assert result.stdout == f"{-signal.SIGTERM}\n"


def test_output_that_nobody_reads_any_more_is_dropped() -> None:
    """As after Ctrl-C in ``sb3-pvp train | tee log``, which ends tee first; other output stays."""
    read, write = os.pipe()
    os.close(read)
    result = run(
        "import sys\n"
        "from sb3_pvp.common.stop_signals import drop_lost_outputs\n"
        "drop_lost_outputs()\n"
        "print('lost', flush=True)\n"
        "print('kept', file=sys.stderr)\n",
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    assert result.stderr == "kept\n"


def test_an_interrupted_call_of_a_compiled_function_is_an_interrupt() -> None:
    """As Numba does it: its dispatcher makes a `SystemError` of what a signal raises while it prepares a call."""
    with pytest.raises(KeyboardInterrupt), interrupts():
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            try:  # for each function that it was called by
                raise SystemError("_numba_unpickle returned a result with an exception set") from error
            except SystemError as first:
                raise SystemError("sample_heads returned a result with an exception set") from first
    with pytest.raises(SystemError, match="of its own"), interrupts():
        raise SystemError("of its own")


def test_a_stop_while_a_connection_is_closed_prints_nothing(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from sb3_pvp.common.databases import connected\n"
        "def stopped(connection): raise KeyboardInterrupt\n"
        "try:\n"
        f"    with connected({str(tmp_path / 'log.sqlite')!r}, 'log') as connection:\n"
        "        connection.exec_driver_sql('SELECT 1')\n"
        "        connection.engine.dialect.do_close = stopped\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    done = run(code, capture_output=True)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


class _Closing:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)  # here the signal is raised, and dropped


@pytest.mark.parametrize("call", [ctypes.CFUNCTYPE(None)(lambda: _Closing().__del__()), lambda: _Closing()])
def test_a_stop_that_python_drops_comes_again_once(call: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where several are dropped at once, as an explicit ``__del__`` and then the object's end do."""
    dropped: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: dropped.append(error.exc_type))
    before, divide = time.monotonic(), ctypes.CFUNCTYPE(None)(lambda: 1 / 0)
    with stopping():
        with pytest.raises(KeyboardInterrupt):
            divide()  # other errors that are dropped are told as before
            call()
            time.sleep(60)
        time.sleep(0.5)  # another one would come here
    assert dropped == [ZeroDivisionError] and time.monotonic() < before + 50


def test_a_stop_in_an_import_waits_for_its_end(tmp_path: Path) -> None:
    """Libraries that are stopped half imported abort the process, as PyTorch does, or drop it."""
    (tmp_path / "library.py").write_text(
        "import os, signal, time\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(0.3)\n"
        "except:\n"
        "    print('dropped')\n"
        "print('imported')\n"
    )
    code = (
        "import sys, time\n"
        "from sb3_pvp.common.stop_signals import stopping\n"
        f"sys.path.append({str(tmp_path)!r})\n"
        "try:\n"
        "    with stopping():\n"
        "        import library\n"
        "        time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    assert run(code, capture_output=True).stdout == "imported\nstopped\n"
