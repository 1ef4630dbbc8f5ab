"""What a server counts, and the HTTP port that shows it: ``/health`` and ``/metrics`` for Prometheus."""

from __future__ import annotations

import asyncio
import json
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from itertools import accumulate
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

#: Upper bounds of histograms: rows of a batch, and seconds.
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_HEALTH_TIMEOUT = 2.0

Health = Mapping[str, Any]


class Histogram:
    """Counts values by upper bounds; much faster than prometheus_client's, which locks at each value."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def count(self, value: float) -> None:
        """Counts a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Figures:
    """Figures of one fighter, of all its versions."""

    def __init__(self) -> None:
        self.batch_sizes = Histogram(BATCH_SIZES)
        self.latencies = Histogram(SECONDS)
        self.busy = 0.0

    def count(self, size: int, seconds: float, latencies: Iterable[float]) -> None:
        """Counts a batch of ``size`` requests that took ``seconds``, and the seconds from each request to its reply."""
        self.batch_sizes.count(size)
        self.busy += seconds
        for latency in latencies:
            self.latencies.count(latency)


class ServerFigures:
    """Figures of the whole server."""

    def __init__(self) -> None:
        self.connections = 0
        self.accepted = 0
        self.turned_away = 0
        self.bad_requests = 0


class _Collector:
    """Shows the figures to prometheus_client."""

    def __init__(self, server: ServerFigures, fighters: Callable[[], Mapping[str, Figures]]) -> None:
        self._server, self._fighters = server, fighters

    def collect(self) -> Iterator[Any]:
        """Yields all metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        server, fighters = self._server, self._fighters()
        yield GaugeMetricFamily("sb3_pvp_connections", "Open connections.", value=server.connections)
        counters = {
            "sb3_pvp_connections_accepted": ("Connections accepted.", server.accepted),
            "sb3_pvp_connections_turned_away": ("Connections beyond the limit.", server.turned_away),
            "sb3_pvp_bad_requests": ("Lines that were answered with an error.", server.bad_requests),
        }
        for name, (text, value) in counters.items():
            yield CounterMetricFamily(name, text, value=value)
        busy = CounterMetricFamily("sb3_pvp_batch_seconds", "Seconds spent on batches.", labels=["model"])
        sizes = HistogramMetricFamily("sb3_pvp_batch_size", "Requests in a batch.", labels=["model"])
        latencies = HistogramMetricFamily("sb3_pvp_latency_seconds", "From request to reply.", labels=["model"])
        for name, figures in fighters.items():
            busy.add_metric([name], figures.busy)
            for family, histogram in ((sizes, figures.batch_sizes), (latencies, figures.latencies)):
                bounds = [*map(str, histogram.bounds), "+Inf"]
                buckets = [*zip(bounds, accumulate(histogram.counts), strict=True)]
                family.add_metric([name], buckets, histogram.total)
        yield from (busy, sizes, latencies)


class _Handler(WSGIRequestHandler):
    timeout = 10.0  # seconds for a request; a silent client would occupy the port

    def log_message(self, *args: object) -> None:
        """Keeps requests out of the log."""


@contextmanager
def metrics_server(
    host: str,
    port: int,
    server: ServerFigures,
    fighters: Callable[[], Mapping[str, Figures]],
    health: Callable[[], Health],
) -> Iterator[int]:
    """Serves ``/metrics`` and ``/health`` over HTTP in a thread; yields the port.

    ``/health`` returns 200 if ``health``, called in the running event loop, has the status ``"ok"``, else 503: also if
    the event loop does not answer in time. Raises `ValueError` without prometheus_client, and `OSError` if the address
    cannot be bound.
    """
    try:
        from prometheus_client import CollectorRegistry, make_wsgi_app
    except ImportError as error:
        raise ValueError("--metrics-port needs prometheus_client: pip install 'sb3-pvp[metrics]'") from error
    registry = CollectorRegistry()
    registry.register(_Collector(server, fighters))
    metrics: Any = make_wsgi_app(registry)
    loop = asyncio.get_running_loop()

    async def ask() -> Health:
        return health()

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            answer: Iterable[bytes] = metrics(environ, start_response)
            return answer
        if environ["PATH_INFO"] != "/health":
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"Here are /health and /metrics.\n"]
        asked = asyncio.run_coroutine_threadsafe(ask(), loop)
        try:
            found: Health = asked.result(_HEALTH_TIMEOUT)
        except futures.TimeoutError:
            found = {"status": "stuck"}
        status = "200 OK" if found["status"] == "ok" else "503 Service Unavailable"
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(found).encode() + b"\n"]

    with make_server(host, port, application, handler_class=_Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield http.server_port
        finally:
            http.shutdown()
            thread.join()
