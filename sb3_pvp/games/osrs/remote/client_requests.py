"""The requests of a client, one class for each (``protocol.md`` §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson


@dataclass(frozen=True, slots=True)
class Login:
    """Logs an agent in; ``agent_type`` is the name of the contract."""

    action: ClassVar[str] = "login"
    agent_type: str

    @property
    def body(self) -> Any:
        """The payload."""
        return {"agentType": self.agent_type}


@dataclass(frozen=True, slots=True)
class Logout:
    """Logs an agent out. Works from any connection, also while the world waits for the agent."""

    action: ClassVar[str] = "logout"
    body: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Debug:
    """Requests the states of all agents."""

    action: ClassVar[str] = "debug"
    body: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Reset:
    """Starts a fight against ``target``; answered when the fight is ready. Every key is always sent."""

    action: ClassVar[str] = "reset"
    target: str
    reset_params: Mapping[str, Any]
    training: bool = True
    maintain_target_environment: bool = True
    death_match: bool = True

    @property
    def body(self) -> Any:
        """The payload."""
        return {
            "target": self.target,
            "training": self.training,
            "maintainTargetEnvironment": self.maintain_target_environment,
            "deathMatch": self.death_match,
            "resetParams": dict(self.reset_params),
        }


@dataclass(frozen=True, slots=True)
class Step:
    """Plays a tick, with one choice for each head."""

    action: ClassVar[str] = "step"
    choices: Sequence[int]

    @property
    def body(self) -> Any:
        """The payload."""
        return {"action": list(self.choices)}


AgentRequest = Login | Logout | Debug | Reset | Step


def request_line(request: AgentRequest, agent_id: str) -> bytes:
    """Returns the line to send for an agent."""
    return orjson.dumps({"action": request.action, "body": request.body, "meta": {"id": agent_id}}) + b"\n"
