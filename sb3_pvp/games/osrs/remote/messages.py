"""Request lines and the values in them, read as leniently as the reference server reads them (``protocol.md`` §1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from sb3_pvp.games.osrs.remote.errors import JSON_SYNTAX, NULL_POINTER, FramingError, RequestError

ACTIONS = ("login", "logout", "reset", "step", "debug")

#: In error replies: the fights of this server do not wait for each other, so that a client may wait for its own.
INDEPENDENT_FIGHTS = "independentFights"

#: Bytes of a request line without its line ending.
MAX_LINE = 8192


class Request(NamedTuple):
    """One request line."""

    action: str
    meta: Any
    body: Any

    @property
    def agent_id(self) -> str:
        """The agent that this is about; `RequestError` if the line names none."""
        if not isinstance(self.meta, dict) or self.meta.get("id") is None:
            raise RequestError(NULL_POINTER, "the request has no meta.id")
        return text(self.meta["id"], "meta.id")


def parse_request(line: bytes) -> Request:
    """Reads a line (without its line ending); `FramingError` if it is no request."""
    try:
        message = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise FramingError(f"not JSON: {error}") from error
    if not isinstance(message, dict):
        raise FramingError("not a JSON object")
    action = message.get("action")
    if not isinstance(action, str) or action not in ACTIONS:
        raise FramingError(f"unknown action {action!r:.60}; known: {', '.join(ACTIONS)}")
    return Request(action, message.get("meta"), message.get("body"))


def body_object(body: Any, name: str) -> dict[str, Any]:
    """The JSON object ``body``; ``name`` is what an error calls it."""
    if body is None:
        raise RequestError(NULL_POINTER, f"{name} is missing")
    if not isinstance(body, dict):
        raise RequestError(JSON_SYNTAX, f"{name} must be an object")
    return body


def text(value: Any, name: str) -> str:
    """A string; numbers and booleans are taken by their JSON text."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return orjson.dumps(value).decode()
    raise RequestError(JSON_SYNTAX, f"{name} must be a string")


def flag(value: Any, name: str) -> bool:
    """A boolean; of strings only ``true`` (in any case) is true."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.lower() == "true"
    raise RequestError(JSON_SYNTAX, f"{name} must be a boolean")


def error_reply(error: Exception, independent_fights: bool = False) -> bytes:
    """The reply line of a refused request."""
    note = {INDEPENDENT_FIGHTS: True} if independent_fights else {}
    return orjson.dumps({"error": True, "message": str(error), **note}) + b"\n"


def body_reply(body: Any) -> bytes:
    """The reply line of a request whose answer is the JSON value ``body``."""
    return orjson.dumps({"body": body}) + b"\n"


EMPTY_REPLY = b"{}\n"
