"""Where a remote world is and how to deal with it: ``rsps://host:port?option=value&option=value``."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sb3_pvp.contract.errors import unknown_name
from sb3_pvp.rsps.reset_request import BASELINE

SCHEME = "rsps"
DEFAULT_PORT = 7070
#: The original system's variable for the port of the remote environment (protocol.md §7).
PORT_VARIABLE = "REMOTE_ENV_PORT"


@dataclass(frozen=True)
class RemoteSettings:
    """How to reach a remote world. All times are seconds.

    Attributes:
        host: name or address.
        port: by default the environment variable ``REMOTE_ENV_PORT``, else 7070.
        target: whom the agents fight where the world plays the other seat: ``baseline``, the server's bot;
            ``attacker``, the first player who attacks (give ``reset_timeout`` the time that this may take); or a
            player's name. What a player sees may not be known: such an opponent's observations are zeros.
        connect_timeout: for a connection.
        reset_timeout: for the start of a fight, once the log-in was sent.
        step_timeout: for the answer to a step.
        attempts: how often in a row a fight may fail to start before that is an error. To get over a restart of the
            server, give more: the waits between them double from ``backoff`` up to 5 seconds. Where nobody listens at
            the start, one attempt is enough.
        backoff: the first wait between two attempts.
        defer_resets: start fights without waiting for them. Until such a fight has started its observations are zeros
            and its actions without effect. A synchronous server needs it as soon as it has other agents, since it
            starts no fight before every agent has sent its step. Default: where a world has several fights.
        desync_tick_threshold: a fight breaks off when the world played more ticks than this without us, beyond the
            usual one, between two steps (rewards.md §3).
        desync_tolerance_seconds: a fight breaks off when so much time lies between two steps; 0: never.
        truncate_on_desync: false: a fight that breaks off is a `RemoteError` instead of a truncated episode.
        first_id: number of the first agent, for one process only; by default drawn by chance.
    """

    host: str = "localhost"
    port: int = DEFAULT_PORT
    target: str = BASELINE
    connect_timeout: float = 5.0
    reset_timeout: float = 60.0
    step_timeout: float = 30.0
    attempts: int = 6
    backoff: float = 0.2
    defer_resets: bool | None = None
    desync_tick_threshold: int = 2
    desync_tolerance_seconds: float = 0.0
    truncate_on_desync: bool = True
    first_id: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.port < 2**16:
            raise ValueError(f"the port of a remote world must be from 1 to 65535, got {self.port}")
        for name in ("connect_timeout", "reset_timeout", "step_timeout", "attempts"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} of a remote world must be more than 0, got {getattr(self, name)}")

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
    return RemoteSettings(**{"host": host or RemoteSettings.host, "port": port, **options})


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
    "bool": _boolean,
    "bool | None": _boolean,
}
_OPTIONS = {field.name: _READERS[str(field.type)] for field in fields(RemoteSettings)[2:]}


def _option(name: str, text: str) -> tuple[str, Any]:
    if name not in _OPTIONS:
        raise unknown_name("option of a remote world", name, _OPTIONS)
    try:
        return name, _OPTIONS[name](text)
    except ValueError:
        raise ValueError(f"the option {name} of a remote world cannot be {text!r}") from None
