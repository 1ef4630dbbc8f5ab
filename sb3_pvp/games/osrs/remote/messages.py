"""Parses request lines and their values as leniently as the reference server does (``protocol.md`` §1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from sb3_pvp.common.errors import shown
from sb3_pvp.games.osrs.remote.wire_errors import JSON_SYNTAX, NULL_POINTER, FramingError, WireRequestError

ACTIONS = ("login", "logout", "reset", "step", "debug")
#: The types of agents, which are the names of their contracts (protocol.md §2.1).
AGENT_TYPES = ("NhEnv", "DharokEnv")

#: Key of error replies, our extension of the protocol: the fights of this server do not wait for each other.
INDEPENDENT_FIGHTS = "independentFights"

#: Maximum bytes of a request line, without its line ending.
MAX_LINE = 8192


class WireRequest(NamedTuple):
    """One request line."""

    action: str
    meta: Any
    body: Any

    @property
    def agent_id(self) -> str:
        """The id of the agent that the request is for; raises `WireRequestError` if the line has none."""
        if not isinstance(self.meta, dict) or self.meta.get("id") is None:
            raise WireRequestError(NULL_POINTER, "the request has no meta.id")
        return text(self.meta["id"], "meta.id")


def parse_request(line: bytes) -> WireRequest:
    """Parses a line without its line ending; raises `FramingError` if it is not a request."""
    try:
        message = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise FramingError(f"not JSON: {error}") from error
    if not isinstance(message, dict):
        raise FramingError("not a JSON object")
    action = message.get("action")
    if not isinstance(action, str) or action not in ACTIONS:
        raise FramingError(f"unknown action {shown(action)}; known: {', '.join(ACTIONS)}")
    return WireRequest(action, message.get("meta"), message.get("body"))


def body_object(body: Any, name: str) -> dict[str, Any]:
    """Returns ``body`` if it is a JSON object; raises `WireRequestError`, which calls it ``name``, if it is not."""
    if body is None:
        raise WireRequestError(NULL_POINTER, f"{name} is missing")
    if not isinstance(body, dict):
        raise WireRequestError(JSON_SYNTAX, f"{name} must be an object")
    return body


def text(value: Any, name: str) -> str:
    """Returns a string; numbers and booleans become their JSON text, as with the reference server's parser."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return orjson.dumps(value).decode()
    raise WireRequestError(JSON_SYNTAX, f"{name} must be a string")


def flag(value: Any, name: str) -> bool:
    """Returns a boolean; of strings only ``true`` (in any case) is true."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.lower() == "true"
    raise WireRequestError(JSON_SYNTAX, f"{name} must be a boolean")


def error_reply(error: Exception, independent_fights: bool = False) -> bytes:
    """Returns the reply line of a refused request."""
    note = {INDEPENDENT_FIGHTS: True} if independent_fights else {}
    return orjson.dumps({"error": True, "message": str(error), **note}) + b"\n"


def body_reply(body: Any) -> bytes:
    """Returns the reply line with the JSON value ``body``."""
    return orjson.dumps({"body": body}) + b"\n"


EMPTY_REPLY = b"{}\n"
