"""Where a remote world is and how to deal with it: ``rsps://host:port?option=value&option=value``."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sb3_pvp.common.names import require_known
from sb3_pvp.games.osrs.remote.reset_request import BASELINE

SCHEME = "rsps"
DEFAULT_HOST = "localhost"
DEFAULT_PORT = 7070
#: Where the remote world is if an address does not say so: the original system's variable for the port (protocol.md
#: §7), and one like it for the host, for which that system has an option.
PORT_VARIABLE = "REMOTE_ENV_PORT"
HOST_VARIABLE = "REMOTE_ENV_HOST"

_POSITIVE = ("connect_timeout", "reset_timeout", "step_timeout", "attempts")
_NOT_NEGATIVE = ("restart_timeout", "backoff", "desync_tick_threshold", "desync_tolerance_seconds")


@dataclass(frozen=True)
class RemoteSettings:
    """How to reach a remote world. All times are seconds.

    Attributes:
        host: name or address; by default the environment variable ``REMOTE_ENV_HOST``, else ``localhost``.
        port: by default the environment variable ``REMOTE_ENV_PORT``, else 7070.
        target: whom the agents fight where the world plays the other seat: ``baseline``, the server's bot;
            ``attacker``, the first player who attacks (give ``reset_timeout`` the time that this may take); or a
            player's name. What a player sees may not be known: such an opponent's observations are zeros.
        connect_timeout: for a connection.
        reset_timeout: for one attempt to start a fight: connection, log-in and reset together.
        step_timeout: for the answer to a step.
        attempts: how often in a row a fight may fail to start on a server that is there, before that is an error.
            So no fight takes longer to start than ``attempts`` times ``reset_timeout``, pauses aside.
        restart_timeout: how long a server that has been there may be gone before that is an error; give more to get
            over a restart of the server. Where nobody listens at the start, that is an error at once.
        backoff: the first wait between two attempts; the waits double up to 5 seconds.
        defer_resets: start fights without waiting for them. Until such a fight has started its observations are zeros
            and its actions without effect. A synchronous server needs it as soon as it has other agents, since it
            starts no fight before every agent has sent its step. Default: where a world has several fights, and in a
            worker process, unless the server says that its fights are independent, as ours does.
        idle_logout: after so many seconds without a reset or a step all agents log out, so that an environment that
            nobody uses does not stop a synchronous server for ever; the fights have broken off then. 0: never.
            Default: 20, but never where fights are independent.
        desync_tick_threshold: a fight breaks off when the world played more ticks than this without us, beyond the
            usual one, between two steps (rewards.md §3).
        desync_tolerance_seconds: a fight breaks off when so much time lies between two steps; 0: never.
        truncate_on_desync: false: a fight that breaks off is a `RemoteError` instead of a truncated episode.
        first_id: number of the first agent, for one process only; by default drawn by chance.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    target: str = BASELINE
    connect_timeout: float = 5.0
    reset_timeout: float = 20.0
    step_timeout: float = 30.0
    attempts: int = 6
    restart_timeout: float = 10.0
    backoff: float = 0.2
    defer_resets: bool | None = None
    idle_logout: float | None = None
    desync_tick_threshold: int = 2
    desync_tolerance_seconds: float = 0.0
    truncate_on_desync: bool = True
    first_id: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.port < 2**16:
            raise ValueError(f"the port of a remote world must be from 1 to 65535, got {self.port}")
        for name in _POSITIVE:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} of a remote world must be more than 0, got {getattr(self, name)}")
        for name in _NOT_NEGATIVE:
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} of a remote world must be 0 or more, got {getattr(self, name)}")
        if self.idle_logout is not None and not 0 <= self.idle_logout < math.inf:
            raise ValueError(f"idle_logout of a remote world must be 0 or more, got {self.idle_logout}")

    @property
    def place(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"


def is_address(world: object) -> bool:
    """Whether the name of a world is an address."""
    return isinstance(world, str) and world.startswith(f"{SCHEME}:")


def parse_address(address: str) -> RemoteSettings:
    """Reads an address; host, port and options may be left out. Raises `ValueError` for anything else."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _bad_address(address, str(error)) from error
    if parts.scheme != SCHEME or parts.path not in ("", "/") or parts.fragment or parts.username is not None:
        raise _bad_address(address, "no such address")
    if port is None:
        port = _port_from_environment()
    options = dict(_option(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True))
    host = host or os.environ.get(HOST_VARIABLE) or DEFAULT_HOST
    return RemoteSettings(**{"host": host, "port": port, **options})


def _bad_address(address: str, reason: str) -> ValueError:
    return ValueError(f"a remote world is written {SCHEME}://host:port, got {address!r} ({reason})")


def _port_from_environment() -> int:
    text = os.environ.get(PORT_VARIABLE, str(DEFAULT_PORT))
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {PORT_VARIABLE} must be a number, it is {text!r}") from None


def _boolean(text: str) -> bool:
    if text.lower() in ("y", "yes", "t", "true", "on", "1", ""):
        return True
    if text.lower() in ("n", "no", "f", "false", "off", "0"):
        return False
    raise ValueError("true or false")


_READERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "int | None": int,
    "float": float,
    "float | None": float,
    "bool": _boolean,
    "bool | None": _boolean,
}
_OPTIONS = {field.name: _READERS[str(field.type)] for field in fields(RemoteSettings)[2:]}


def _option(name: str, text: str) -> tuple[str, Any]:
    require_known("option of a remote world", name, _OPTIONS)
    try:
        return name, _OPTIONS[name](text)
    except ValueError:
        raise ValueError(f"the option {name} of a remote world cannot be {text!r}") from None
