"""A recorded session with a server that has a clock, in ticks instead of seconds, and its replay on another server.

What happens between two ticks is in the same *gap*; gap 0 is before the first tick. A request is sent as many gaps
after the previous line of its connection as in the recording, so that a server is asked in the recorded pattern
whatever its answers take.
"""

from __future__ import annotations

import cmath
import gzip
import json
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
#: Maximum seconds by which recorded answers come before the mean time of their ticks.
EARLY = 0.008


@dataclass(frozen=True)
class Sent:
    """A request, sent ``wait`` gaps after the previous line of its connection and after ``answers_before`` answers."""

    request: Json
    wait: int
    answers_before: int


@dataclass(frozen=True)
class Got:
    """An answer, and the gap in which it came."""

    gap: int
    answer: Json


class TickRecording:
    """``sent`` and ``got`` of each connection, in order."""

    def __init__(self, path: Path) -> None:
        with gzip.open(path, "rt") as file:
            header, *entries = map(json.loads, file)
        self._seconds = header["header"]["tick_rate"] / 1000
        self._start = entries[0]["t"]
        self._phase = self._mean_phase([entry["t"] for entry in entries if entry["dir"] == "<"]) - EARLY
        self.sent: dict[str, list[Sent]] = defaultdict(list)
        self.got: dict[str, list[Got]] = defaultdict(list)
        last_gap: dict[str, int] = defaultdict(lambda: self._gap(self._start))
        for entry in entries:
            connection, gap, line = entry["conn"], self._gap(entry["t"]), json.loads(entry["line"])
            if entry["dir"] == "<":
                self.got[connection].append(Got(gap, line))
            else:
                wait = gap - last_gap[connection]
                self.sent[connection].append(Sent(line, wait, len(self.got[connection])))
            last_gap[connection] = gap

    def _mean_phase(self, times: list[float]) -> float:
        turns = [cmath.exp(2j * math.pi * (time - self._start) / self._seconds) for time in times]
        return cmath.phase(sum(turns)) / (2 * math.pi) * self._seconds

    def _gap(self, time: float) -> int:
        return math.floor((time - self._start - self._phase) / self._seconds)


class Session:
    """Plays a recording's requests to a server: ``ask(request, reply)`` sends one, ``tick()`` plays a tick."""

    def __init__(self, recording: TickRecording, ask: Callable[[Json, Callable[[Json], None]], None]) -> None:
        self._ask = ask
        self._todo = {connection: list(sent) for connection, sent in recording.sent.items()}
        self._last_gap: dict[str, int] = defaultdict(int)
        self._gap = 0
        self.got: dict[str, list[Got]] = defaultdict(list)

    def play(self, tick: Callable[[], None], max_ticks: int) -> None:
        """Plays until everything is sent, and then until everything queued is answered."""
        for self._gap in range(max_ticks):
            while any(self._send_next(connection) for connection in self._todo):
                pass
            tick()

    def _send_next(self, connection: str) -> bool:
        todo = self._todo[connection]
        if not todo or len(self.got[connection]) < todo[0].answers_before:
            return False
        if self._gap < self._last_gap[connection] + todo[0].wait:
            return False
        self._last_gap[connection] = self._gap
        self._ask(todo.pop(0).request, lambda answer: self._take(connection, answer))
        return True

    def _take(self, connection: str, answer: Json) -> None:
        # The answers of a tick come in the gap after it.
        refused_at_once = "already queued" in answer.get("message", "")
        gap = self._gap if refused_at_once else self._gap + 1
        self._last_gap[connection] = gap
        self.got[connection].append(Got(gap, answer))
