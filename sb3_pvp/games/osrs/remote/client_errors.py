"""Errors of a remote world, as its users see them."""

from __future__ import annotations

import copyreg
from typing import Any

from sb3_pvp.game import WorldError


class RemoteError(WorldError):
    """The remote world cannot continue; the message says what to do."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Worker processes pickle it; by default that needs an `__init__` that takes only the message.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class Lost(RemoteError):
    """A connection broke, stayed silent, or sent an invalid reply. Its fight is lost; a new one may be started."""


class Silent(Lost):
    """No reply came within the time-out."""


class HungUp(Lost):
    """The server closed the connection."""


class NoServer(Lost):
    """No connection was accepted; ``is_gone``: the port is closed, so there is no server that could have the agent."""

    def __init__(self, message: str, is_gone: bool) -> None:
        super().__init__(message)
        self.is_gone = is_gone


class Refused(RemoteError):
    """The server answered with an error. ``message`` is the first line of what may be a long stack trace,
    ``independent_fights`` whether the server reports that its fights do not wait for each other."""

    def __init__(self, request: str, message: str, independent_fights: bool = False) -> None:
        self.message = next(iter(message.splitlines()), "").strip() or "no reason given"
        self.independent_fights = independent_fights
        super().__init__(f"the server refused a {request}: {self.message}")

    @property
    def is_unknown_agent(self) -> bool:
        """Whether this answers the log-out of an agent that is not on the server (protocol-observed.md)."""
        return "No player found" in self.message
