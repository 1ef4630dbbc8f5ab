"""A function whose many small operations run as one CUDA graph, where each would wait for its own call."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import torch as th


class GraphedCall:
    """Calls a function of tensors, in tuples and dictionaries, that have the same shapes each time.

    The first ``warm_up`` calls are plain ones; the next one is captured, and its operations are replayed from then on.
    So all that the function reads beside its argument has to stay where it is, and results are overwritten by the next
    call. A test may pass another ``capture``.
    """

    def __init__(self, function: Callable[[Any], Any], capture: Any = None, warm_up: int = 3) -> None:
        self.function, self.capture, self.warm_up = function, capture or capture_graph, warm_up
        self.given: Any = None
        self.replay: Callable[[], Any] | None = None

    def __call__(self, given: Any) -> Any:
        """Returns the function's results."""
        if self.warm_up:
            self.warm_up -= 1
            return _beside(self.function, given)
        if self.replay is None:
            self.given, self.replay = given, self.capture(partial(self.function, given))
        copy_tensors(self.given, given)
        return self.replay()


def capture_graph(run: Callable[[], Any]) -> Callable[[], Any]:
    """Returns what replays all operations of a call and returns its results; the call itself is not made."""
    graph = th.cuda.CUDAGraph()
    # A graph of an earlier model that is cleared away meanwhile would make the capture invalid.
    gc.collect()
    gc.disable()
    try:
        with th.cuda.graph(graph):
            results = run()
    finally:
        gc.enable()

    def replay() -> Any:
        graph.replay()
        return results

    return replay


def _beside(function: Callable[[Any], Any], given: Any) -> Any:
    """Calls a function in a stream of its own: what its first calls set up must not belong to the usual one."""
    stream = th.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(th.cuda.current_stream())
    with th.cuda.stream(stream):
        results = function(given)
    th.cuda.current_stream().wait_stream(stream)
    return results


def copy_tensors(to: Any, source: Any) -> None:
    """Copies tensors into those of another structure of tuples and dictionaries."""
    if isinstance(to, th.Tensor):
        to.copy_(source)
    else:
        for key in to if isinstance(to, dict) else range(len(to)):
            copy_tensors(to[key], source[key])
