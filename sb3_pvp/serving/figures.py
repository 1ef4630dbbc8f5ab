"""What a server counts, and the HTTP port that shows it: ``/health`` and ``/metrics`` for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import orjson

from sb3_pvp.serving.batching import Figures

_HEALTH_TIMEOUT = 2.0  # seconds
_COUNTERS = {
    "accepted": ("sb3_pvp_connections_accepted", "Connections accepted."),
    "turned_away": ("sb3_pvp_connections_turned_away", "Connections beyond the limit."),
    "bad_requests": ("sb3_pvp_bad_requests", "Lines that were answered with an error."),
}


@dataclass
class ServerFigures:
    """Figures of the whole server."""

    connections: int = 0
    accepted: int = 0
    turned_away: int = 0
    bad_requests: int = 0


class _Collector:
    """Shows the figures to prometheus_client."""

    def __init__(self, server: ServerFigures, fighters: Callable[[], Mapping[str, Figures]]) -> None:
        self._server, self._fighters = server, fighters

    def collect(self) -> Iterator[Any]:
        """Yields all metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        yield GaugeMetricFamily("sb3_pvp_connections", "Open connections.", value=self._server.connections)
        for attribute, (name, text) in _COUNTERS.items():
            yield CounterMetricFamily(name, text, value=getattr(self._server, attribute))
        busy = CounterMetricFamily("sb3_pvp_batch_seconds", "Seconds spent on batches.", labels=["model"])
        sizes = HistogramMetricFamily("sb3_pvp_batch_size", "Requests in a batch.", labels=["model"])
        latencies = HistogramMetricFamily("sb3_pvp_latency_seconds", "From request to reply.", labels=["model"])
        for name, figures in self._fighters().items():
            busy.add_metric([name], figures.busy)
            for family, histogram in ((sizes, figures.batch_sizes), (latencies, figures.latencies)):
                bounds = [*map(str, histogram.bounds), "+Inf"]
                family.add_metric([name], [*zip(bounds, accumulate(histogram.counts), strict=True)], histogram.total)
        yield from (busy, sizes, latencies)


@contextmanager
def metrics_server(
    host: str,
    port: int,
    server: ServerFigures,
    fighters: Callable[[], Mapping[str, Figures]],
    health: Callable[[], dict[str, Any]],
) -> Iterator[int]:
    """Serves ``/metrics`` and ``/health`` over HTTP in a thread; yields the port.

    ``/health`` returns 200 if ``health``, called in the running event loop, has the status ``"ok"``, else 503: also if
    the event loop does not answer in time. Raises `ValueError` without prometheus_client, and `OSError` if the address
    cannot be bound.
    """
    try:
        from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
    except ImportError as error:
        raise ValueError("--metrics-port needs prometheus_client: pip install 'sb3-pvp[metrics]'") from error
    registry, loop = CollectorRegistry(), asyncio.get_running_loop()
    registry.register(_Collector(server, fighters))
    metrics: Any = make_wsgi_app(registry)

    async def ask() -> dict[str, Any]:
        return health()

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            return metrics(environ, start_response)  # type: ignore[no-any-return]
        status, found = "404 Not Found", dict[str, Any](error="here are /health and /metrics")
        if environ["PATH_INFO"] == "/health":
            try:
                found = asyncio.run_coroutine_threadsafe(ask(), loop).result(_HEALTH_TIMEOUT)
            except futures.TimeoutError:
                found = {"status": "stuck"}
            status = "200 OK" if found["status"] == "ok" else "503 Service Unavailable"
        start_response(status, [("Content-Type", "application/json")])
        return [orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE)]

    http, _ = start_http_server(port, host, registry)
    http.set_app(application)
    try:
        yield http.server_port
    finally:
        http.shutdown()
        http.server_close()
