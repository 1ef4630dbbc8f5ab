"""Waiting for other processes."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from sb3_pvp.common import waiting
from sb3_pvp.common.waiting import ProgressLines, WaitedTooLong, is_waiting, wait_for


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in its only entry, instead of that of the machine."""
    now = [100.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.0)
    return now


def test_a_wait_says_for_what_and_how_far_that_is(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    future, looks = Future[None](), []

    def progress() -> int:
        assert is_waiting()
        clock[0] += 1.0
        looks.append(None)
        if len(looks) == 200:
            future.set_result(None)
        return len(looks)

    wait_for(future, "waiting for fights", progress, 300)
    assert not is_waiting()
    done = [2, 6, 14, 30, 62, 122, 182]  # after 2, 4, 8, 16, 32 and then 60 seconds
    assert capsys.readouterr().err.splitlines() == [f"waiting for fights: {number} of 300" for number in done]


def test_nothing_is_waited_for_without_end(clock: list[float]) -> None:
    done = iter([0, 0, 1, 1, *[2] * 1000])
    began = clock[0]

    def progress() -> int:
        clock[0] += waiting.MAX_SILENCE / 2.0
        return next(done)

    with pytest.raises(WaitedTooLong, match=r"no progress in 1800 seconds \(2 of 5\)"):
        wait_for(Future(), "waiting", progress, 5)
    assert clock[0] - began > 2 * waiting.MAX_SILENCE, "as long as there is progress, it waits"
    assert not is_waiting()


def test_a_signal_ends_a_wait_at_once() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))

    def progress() -> int:
        if timer.ident is None:
            timer.start()
        return 0

    try:
        with pytest.raises(KeyboardInterrupt):
            wait_for(Future(), "waiting", progress, 5)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not is_waiting()


def test_what_is_quick_prints_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    lines: Any = ProgressLines("fights", 3)
    clock[0] += 1.0
    lines.show(1)
    assert capsys.readouterr().err == ""
