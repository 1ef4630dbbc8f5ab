"""What a server counts, and the HTTP port that shows it: ``/health`` and ``/metrics`` for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import orjson

from sb3_pvp.common.errors import extra
from sb3_pvp.common.open_files import ACCEPTED_AT_ONCE
from sb3_pvp.serving.batching import Count

#: Upper bounds of histograms: rows of a batch, and seconds.
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_HTTP_TIMEOUT = 5.0  #: Seconds that an HTTP connection may last.
_MAX_HTTP = 32  #: HTTP connections at the same time; a newer one ends the oldest, which is silent or slow.
_COUNTERS = {
    "accepted": ("sb3_pvp_connections_accepted", "Connections accepted."),
    "turned_away": ("sb3_pvp_connections_turned_away", "Connections beyond the limit."),
    "bad_requests": ("sb3_pvp_bad_requests", "Lines that were answered with an error."),
}
_FORMAT = "text/plain; version=0.0.4; charset=utf-8"  # which prometheus_client writes unless it is asked for another


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


@asynccontextmanager
async def metrics_server(
    host: str, port: int, server: ServerFigures, health: Callable[[], dict[str, Any]]
) -> AsyncIterator[tuple[int, Count]]:
    """Serves ``/metrics`` and ``/health`` over HTTP in this event loop; yields the port, and what counts batches.

    ``/health`` returns 200 if ``health`` has the status ``"ok"``, else 503. Raises `MissingExtra`
    without prometheus_client, and `OSError` if the address cannot be bound.
    """
    with extra("metrics", "figures for Prometheus, --metrics-port,"):
        from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    registry = CollectorRegistry()
    registry.register(_Collector(server))
    given: dict[str, Any] = {"labelnames": ["model"], "registry": registry}
    busy = Counter("sb3_pvp_batch_seconds", "Seconds spent on batches.", **given)
    sizes = Histogram("sb3_pvp_batch_size", "Requests in a batch.", buckets=_BATCH_SIZES, **given)
    latencies = Histogram("sb3_pvp_latency_seconds", "From request to reply.", buckets=_SECONDS, **given)

    def count(model: str, size: int, seconds: float, waited: Sequence[float]) -> None:
        busy.labels(model).inc(seconds)
        sizes.labels(model).observe(size)
        of_model = latencies.labels(model)
        for each in waited:
            of_model.observe(each)

    def page(path: bytes) -> tuple[str, str, bytes]:
        if path == b"/metrics":
            return "200 OK", _FORMAT, generate_latest(registry)
        status, found = "404 Not Found", dict[str, Any](error="here are /health and /metrics")
        if path == b"/health":
            found = health()
            status = "200 OK" if found["status"] == "ok" else "503 Service Unavailable"
        return status, "application/json", orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE)

    async with _http_server(host, port, page) as bound_port:
        yield bound_port, count


@asynccontextmanager
async def _http_server(host: str, port: int, page: Callable[[bytes], tuple[str, str, bytes]]) -> AsyncIterator[int]:
    """Answers one request per connection with status, type and content of the ``page`` of its path; yields the port."""
    opened: dict[asyncio.StreamWriter, None] = {}  # in order

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        target = head.partition(b" ")[2].partition(b" ")[0]
        status, kind, content = page(target.partition(b"?")[0])
        fields = f"Content-Type: {kind}\r\nContent-Length: {len(content)}\r\nConnection: close"
        writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n\r\n".encode() + content)
        writer.close()
        await writer.wait_closed()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(opened) == _MAX_HTTP:
            oldest = next(iter(opened))
            oldest.transport.abort()
            del opened[oldest]
        opened[writer] = None
        try:  # what is no request, or lasts too long, has no answer
            with suppress(OSError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError):
                await asyncio.wait_for(answer(reader, writer), _HTTP_TIMEOUT)
        finally:
            writer.transport.abort()
            opened.pop(writer, None)

    server = await asyncio.start_server(accept, host, port, backlog=ACCEPTED_AT_ONCE)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in opened:
            writer.transport.abort()
        while opened:
            await asyncio.sleep(0)
