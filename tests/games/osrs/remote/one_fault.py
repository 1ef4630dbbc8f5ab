"""One fault at one place, for a `FaultProxy`."""

from __future__ import annotations

from numpy.random import Generator

from benchmarks.fault_proxy import Fault, Line


class OneFault:
    """Applies a fault once, to the ``at``-th line that belongs to a request with this ``action``.

    Attributes:
        has_happened: whether the fault was applied.
    """

    def __init__(self, fault: Fault, at: int = 3, action: str = "step", direction: str = "reply") -> None:
        self._fault = fault
        self._left = at
        self._action = f'"{action}"'.encode()
        self._direction = direction
        self.has_happened = False

    def __call__(self, line: Line, random: Generator) -> Fault:
        if line.direction != self._direction or self._action not in line.request:
            return None
        self._left -= 1
        if self._left:
            return None
        self.has_happened = True
        return self._fault
