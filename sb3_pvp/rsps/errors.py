"""What a request can be refused with: an error reply, or a closed connection (``protocol-observed.md``)."""

from __future__ import annotations

# The classes of errors that clients of the reference server know by name.
NULL_POINTER = "NullPointerException"
JSON_SYNTAX = "JsonSyntaxException"
ILLEGAL_ARGUMENT = "IllegalArgumentException"
ILLEGAL_STATE = "IllegalStateException"
NO_SUCH_ELEMENT = "NoSuchElementException"
ARITHMETIC = "ArithmeticException"
ENVIRONMENT = "EnvironmentException"


class FramingError(Exception):
    """The line is no request at all; the connection is closed without a reply."""


class RequestError(Exception):
    """The request is answered with an error reply; ``kind`` is one of the class names of this module."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


def message_already_queued() -> RequestError:
    """An agent may have one unanswered message only."""
    return RequestError(ENVIRONMENT, "Message already queued")


def not_logged_in(agent_id: str) -> RequestError:
    """A `reset` or `step` of an id that never logged in."""
    return RequestError(NULL_POINTER, f"no agent is logged in with ID: {agent_id}")


def no_transition(state: str, trigger: str) -> RequestError:
    """A message that the agent's state does not allow, e.g. a `step` before the first `reset`."""
    text = f"No valid leaving transitions are permitted from state '{state}' for trigger '{trigger}'"
    return RequestError(ILLEGAL_STATE, text)
