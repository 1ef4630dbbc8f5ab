"""What can go wrong with a remote world, as its users see it."""

from __future__ import annotations

from sb3_pvp.game import WorldError


class RemoteError(WorldError):
    """The remote world cannot go on; the message says what to do."""


class Lost(RemoteError):
    """A connection broke, stayed silent, or sent what is no reply: the fight on it cannot go on, another one can."""


class Silent(Lost):
    """No answer came within the time-out."""


class HungUp(Lost):
    """The server closed the connection."""


class NoServer(Lost):
    """Nobody accepts connections; ``is_gone``: the port is closed, so that no server runs behind it."""

    def __init__(self, message: str, is_gone: bool) -> None:
        super().__init__(message)
        self.is_gone = is_gone


class Refused(RemoteError):
    """The server answered with an error; only the first line of its message, which may be a long stack trace.

    ``independent_fights``: the server says that its fights do not wait for each other.
    """

    def __init__(self, request: str, message: str, independent_fights: bool = False) -> None:
        self.message = next(iter(message.splitlines()), "").strip() or "no reason given"
        self.independent_fights = independent_fights
        super().__init__(f"the server refused a {request}: {self.message}")

    @property
    def is_unknown_agent(self) -> bool:
        """The answer to the log-out of an agent that is not on the server (protocol-observed.md)."""
        return "No player found" in self.message
