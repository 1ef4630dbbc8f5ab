"""Errors of requests: answered with an error reply, or with a closed connection (``protocol-observed.md``)."""

from __future__ import annotations

# Java exceptions of the reference server, whose clients distinguish errors by these names.
NULL_POINTER = "NullPointerException"
JSON_SYNTAX = "JsonSyntaxException"
ILLEGAL_ARGUMENT = "IllegalArgumentException"
ILLEGAL_STATE = "IllegalStateException"
NO_SUCH_ELEMENT = "NoSuchElementException"
ARITHMETIC = "ArithmeticException"
ENVIRONMENT = "EnvironmentException"


class FramingError(Exception):
    """The line is not a request; the connection is closed without a reply."""


class WireRequestError(Exception):
    """The request is answered with an error reply; ``kind`` is one of the exception names of this module."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


def message_already_queued() -> WireRequestError:
    """A second message of an agent whose first one is not answered yet."""
    return WireRequestError(ENVIRONMENT, "Message already queued")


def not_logged_in(agent_id: str) -> WireRequestError:
    """A `reset` or `step` of an id that is not logged in."""
    return WireRequestError(NULL_POINTER, f"no agent is logged in with ID: {agent_id}")


def no_transition(state: str, trigger: str) -> WireRequestError:
    """A message that the agent's state does not allow, e.g. a `step` before the first `reset`."""
    text = f"No valid leaving transitions are permitted from state '{state}' for trigger '{trigger}'"
    return WireRequestError(ILLEGAL_STATE, text)


def no_attackers() -> WireRequestError:
    """A `reset` that waits for an attacker; the reference server only refuses attackers that are agents."""
    text = "the embedded world has no players who could attack; use baseline or another agent's id as target"
    return WireRequestError(ENVIRONMENT, f"Cannot wait to be attacked by an agent: {text}")


def own_target(agent_id: str) -> WireRequestError:
    """A `reset` with the agent itself as target, for which the reference server waits forever."""
    return WireRequestError(
        ENVIRONMENT, f"{agent_id} cannot fight itself; use baseline or another agent's id as target"
    )


def different_types(agent_id: str, agent_type: str, target_id: str, target_type: str) -> WireRequestError:
    """A `reset` with an agent of another type as target."""
    return WireRequestError(
        ENVIRONMENT,
        f"agents of different types cannot fight: {agent_id} is a {agent_type} and its target {target_id} a "
        f"{target_type}; log both in with the same agentType",
    )


def too_many_ticks(missed: int, agent_id: str) -> WireRequestError:
    """A `step` of an agent that missed too many ticks in a world with a clock (``protocol.md`` §6.5)."""
    return WireRequestError(ENVIRONMENT, f"Too many ticks since last step: {missed} for {agent_id}; reset to go on")
