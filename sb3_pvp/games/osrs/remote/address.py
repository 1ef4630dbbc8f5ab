"""Addresses of remote worlds, with connection options: ``rsps://host:port?option=value&option=value``."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sb3_pvp.common.errors import require_known
from sb3_pvp.games.osrs.remote.reset_request import BASELINE

SCHEME = "rsps"
DEFAULT_HOST = "localhost"
DEFAULT_PORT = 7070
#: Defaults for what an address leaves out. The port's variable is the original system's (protocol.md §7); that system
#: has only an option for the host, whose variable is ours.
PORT_VARIABLE = "REMOTE_ENV_PORT"
HOST_VARIABLE = "REMOTE_ENV_HOST"

KEPT, FRESH = "kept", "fresh"  #: What `RemoteSettings.logins` may be.

_POSITIVE = ("connect_timeout", "reset_timeout", "step_timeout", "attempts", "launch_timeout")
_NOT_NEGATIVE = ("restart_timeout", "backoff", "desync_tick_threshold", "desync_tolerance_seconds")


@dataclass(frozen=True)
class RemoteSettings:
    """Connection settings of a remote world. All times are in seconds.

    Attributes:
        host: host name or IP; `parse_address` takes ``REMOTE_ENV_HOST`` from the environment if there is none.
        port: port of the server; `parse_address` takes ``REMOTE_ENV_PORT`` from the environment if there is none.
        target: opponent of the agents where the world plays the other seat: ``baseline``, the server's bot;
            ``attacker``, the first player who attacks (allow for the wait in ``reset_timeout``); or a player's name.
            Observations of an opponent whose view the server does not send are zeros.
        logins: ``"kept"``: agents play one fight after another with the same login, in which poison tasks, the phase of
            the special energy and queued damage go on (mechanics.md §17); ``"fresh"``: each fight has a login of its
            own, as ``evaluate`` and model cards have by default.
        connect_timeout: for opening a connection.
        reset_timeout: for one attempt to start a fight: connection, log-in and reset together.
        step_timeout: for the reply to a step.
        attempts: failed attempts in a row after which a fight on a reachable server is an error. A start takes at most
            ``attempts`` times ``reset_timeout``, plus pauses.
        restart_timeout: how long a server that was reached before may be gone, e.g. to restart. A server that cannot
            be reached at the start is an error at once.
        backoff: first pause between two attempts; pauses double up to 5 seconds.
        defer_resets: do not wait for fights to start. Until a fight has started its observations are zeros and its
            actions have no effect. Needed on a synchronous server with other agents, which starts no fight before
            every agent has sent a step. Default: true where a world has several fights, and in a worker process,
            unless the server reports independent fights, as ours does.
        idle_logout: seconds without a reset or a step after which all agents log out and their fights break off, so
            that an idle environment does not block a synchronous server; 0: never. Default: 20, but 0 where fights
            are independent.
        desync_tick_threshold: extra ticks between two steps, beyond the usual one, above which a fight breaks off
            (rewards.md §3).
        desync_tolerance_seconds: time between two steps from which on a fight breaks off; 0: never.
        truncate_on_desync: whether a fight that breaks off is a truncated episode; else it is a `RemoteError`.
        first_id: id of the first agent, for a single process; random by default.
        launch: the command of a server that each world starts for itself, instead of ``host`` and ``port``, at its
            first reset, and stops at its end (`sb3_pvp.games.osrs.remote.RspsServer`).
        launch_cwd: working directory of that command; default: that of the process.
        launch_timeout: for its start.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    target: str = BASELINE
    logins: str = KEPT
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
    launch: str = ""
    launch_cwd: str = ""
    launch_timeout: float = 300.0

    def __post_init__(self) -> None:
        if not 0 < self.port < 2**16:
            raise ValueError(f"the port of a remote world must be from 1 to 65535, got {self.port}")
        for name in _POSITIVE:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} of a remote world must be more than 0, got {getattr(self, name)}")
        for name in _NOT_NEGATIVE:
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} of a remote world must be 0 or more, got {getattr(self, name)}")
        require_known("logins of a remote world", self.logins, (KEPT, FRESH))
        if self.idle_logout is not None and not 0 <= self.idle_logout < math.inf:
            raise ValueError(f"idle_logout of a remote world must be 0 or more, got {self.idle_logout}")
        self.launch_command()

    def launch_command(self) -> list[str]:
        """Returns the words of `launch`; raises `ValueError` for an open quote."""
        try:
            return shlex.split(self.launch)
        except ValueError as error:
            raise ValueError(f"launch of a remote world is no command: {self.launch!r} ({error})") from None

    @property
    def host_port(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"


def is_address(world: object) -> bool:
    """Returns whether the name of a world is an address."""
    return isinstance(world, str) and world.startswith(f"{SCHEME}:")


def parse_address(address: str) -> RemoteSettings:
    """Parses an address, whose host, port and options are optional. Raises `ValueError` for anything else."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _bad_address(address, str(error)) from error
    if parts.scheme != SCHEME or parts.path not in ("", "/") or parts.fragment or parts.username is not None:
        raise _bad_address(address, "only host, port and options are allowed")
    options = dict(_option(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True))
    if "launch" in options:
        if not options["launch"].strip() or host or port:
            raise _bad_address(address, f"to start a server: {SCHEME}://?launch=COMMAND, without a host and a port")
        return RemoteSettings(**options)
    if port is None:
        port = _port_from_environment()
    host = host or os.environ.get(HOST_VARIABLE) or DEFAULT_HOST
    return RemoteSettings(**{"host": host, "port": port, **options})


def with_fresh_logins(address: str) -> str:
    """Returns an address whose fights each have a login of their own, unless it says which logins it wants."""
    if any(name == "logins" for name, _ in parse_qsl(urlsplit(address).query, keep_blank_values=True)):
        return address
    return f"{address}{'&' if urlsplit(address).query else '?'}logins={FRESH}"


def _bad_address(address: str, reason: str) -> ValueError:
    return ValueError(f"the address of a remote world must be {SCHEME}://host:port, got {address!r} ({reason})")


def _port_from_environment() -> int:
    text = os.environ.get(PORT_VARIABLE, str(DEFAULT_PORT))
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {PORT_VARIABLE} must be a number, got {text!r}") from None


def _boolean(text: str) -> bool:
    if text.lower() in ("y", "yes", "t", "true", "on", "1", ""):  # "": an option without a value, "?defer_resets"
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
#: All fields but host and port. Their types are texts because of ``from __future__ import annotations``.
_OPTIONS = {field.name: _READERS[str(field.type)] for field in fields(RemoteSettings)[2:]}


def _option(name: str, text: str) -> tuple[str, Any]:
    require_known("option of a remote world", name, _OPTIONS)
    try:
        return name, _OPTIONS[name](text)
    except ValueError:
        raise ValueError(f"the option {name} of a remote world cannot be {text!r}") from None
