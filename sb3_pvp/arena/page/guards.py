"""What stands between the page and the world: headers, limits of size and rate, and no requests from other sites."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
#: Requests a second that an address may make on average, and at once: of all, and of those that change something.
READS, WRITES = (40.0, 200.0), (0.5, 12.0)
#: Bytes of a request that is no upload.
MOST_REQUEST = 16 << 10
_MOST_ADDRESSES = 10_000


class PageRefusal(HTTPException):
    """A wish that is not fulfilled; ``status`` is that of HTTP."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(status, message)


class Buckets:
    """How many requests each address still has; those that were silent longest are forgotten."""

    def __init__(self, rate: float, burst: float) -> None:
        self._seconds, self._burst = 1 / rate, burst
        self._full_at: OrderedDict[str, float] = OrderedDict()  # when each will have all of them again

    def take(self, address: str) -> bool:
        """Takes one; returns whether there was one."""
        now = time.monotonic()
        full_at = max(self._full_at.pop(address, now), now)
        has_one = full_at - now <= (self._burst - 1) * self._seconds
        self._full_at[address] = full_at + self._seconds * has_one
        if len(self._full_at) > _MOST_ADDRESSES:
            self._full_at.popitem(last=False)
        return has_one


class PageGuard:
    """Refuses what is too much, or comes from a page of somebody else, with the reason; adds headers to all answers."""

    def __init__(self, app: Any, uploads: str, guarded: bool) -> None:
        self._app, self._uploads, self._counts = app, uploads, guarded
        self._reads, self._writes = Buckets(*READS), Buckets(*WRITES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Implements an ASGI application."""
        refusal = None if scope["type"] == "lifespan" else self._refusal(scope)
        send = _with_headers(send) if scope["type"] == "http" else send
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await JSONResponse({"error": refusal[1]}, refusal[0])(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal[1]})

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        address = scope["client"][0] if scope.get("client") else ""
        changes = scope["type"] == "http" and scope["method"] not in ("GET", "HEAD")
        if self._counts and not (self._writes if changes else self._reads).take(address):
            return 429, "too many requests: wait a few seconds"
        is_foreign = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        if not _is_own(headers) or (is_foreign and scope["type"] == "websocket"):
            return 403, "requests from other sites are refused"
        if changes and scope["path"] != self._uploads and not _is_short(headers):
            return 413, f"a request has at most {MOST_REQUEST} bytes, and says how many"
        return None


def _is_own(headers: Headers) -> bool:
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == headers.get("host", "")
    except ValueError:
        return False


def _is_short(headers: Headers) -> bool:
    length = headers.get("content-length", "0")
    # What comes in chunks has no length, and would be read as a whole however long it is.
    return "transfer-encoding" not in headers and length.isdigit() and int(length) <= MOST_REQUEST


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return sending
