"""What a server counts, and the HTTP port that shows it: ``/health`` and ``/metrics`` for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from sb3_pvp.serving.batching import Count

#: Upper bounds of histograms: rows of a batch, and seconds.
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
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

    def __init__(self, server: ServerFigures) -> None:
        self._server = server

    def collect(self) -> Iterator[Any]:
        """Yields the metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        yield GaugeMetricFamily("sb3_pvp_connections", "Open connections.", value=self._server.connections)
        for attribute, (name, text) in _COUNTERS.items():
            yield CounterMetricFamily(name, text, value=getattr(self._server, attribute))


@contextmanager
def metrics_server(
    host: str, port: int, server: ServerFigures, health: Callable[[], dict[str, Any]]
) -> Iterator[tuple[int, Count]]:
    """Serves ``/metrics`` and ``/health`` over HTTP in a thread; yields the port, and what counts batches.

    ``/health`` returns 200 if ``health``, called in the running event loop, has the status ``"ok"``, else 503: also if
    the event loop does not answer in time. Raises `ValueError` without prometheus_client, and `OSError` if the address
    cannot be bound.
    """
    try:
        from prometheus_client import CollectorRegistry, Counter, Histogram, make_wsgi_app, start_http_server
    except ImportError as error:
        raise ValueError("--metrics-port needs prometheus_client: pip install 'sb3-pvp[metrics]'") from error
    registry, loop = CollectorRegistry(), asyncio.get_running_loop()
    registry.register(_Collector(server))
    given: dict[str, Any] = {"labelnames": ["model"], "registry": registry}
    busy = Counter("sb3_pvp_batch_seconds", "Seconds spent on batches.", **given)
    sizes = Histogram("sb3_pvp_batch_size", "Requests in a batch.", buckets=_BATCH_SIZES, **given)
    latencies = Histogram("sb3_pvp_latency_seconds", "From request to reply.", buckets=_SECONDS, **given)
    metrics: Any = make_wsgi_app(registry)

    def count(model: str, size: int, seconds: float, waited: Sequence[float]) -> None:
        busy.labels(model).inc(seconds)
        sizes.labels(model).observe(size)
        of_model = latencies.labels(model)
        for each in waited:
            of_model.observe(each)

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
    http.set_app(application)  # in place of its own, which shows the metrics at every path
    try:
        yield http.server_port, count
    finally:
        http.shutdown()
        http.server_close()
