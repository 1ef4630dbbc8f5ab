"""What can go wrong with a remote world, as its users see it."""

from __future__ import annotations


class RemoteError(RuntimeError):
    """The remote world cannot go on; the message says what to do."""


class Lost(RemoteError):
    """A connection broke, stayed silent, or sent what is no reply: the fight on it cannot go on, another one can."""


class NoServer(Lost):
    """Nobody accepts connections."""


class Refused(RemoteError):
    """The server answered with an error; only the first line of its message, which may be a long stack trace."""

    def __init__(self, request: str, message: str) -> None:
        self.message = next(iter(message.splitlines()), "").strip() or "no reason given"
        super().__init__(f"the server refused a {request}: {self.message}")
