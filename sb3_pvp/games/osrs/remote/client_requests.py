"""What a client says: one class for each request (``protocol.md`` §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson


@dataclass(frozen=True, slots=True)
class Login:
    """The agent enters the world; ``agent_type`` is the name of the contract."""

    action: ClassVar[str] = "login"
    agent_type: str

    @property
    def body(self) -> Any:
        """The payload."""
        return {"agentType": self.agent_type}


@dataclass(frozen=True, slots=True)
class Logout:
    """The agent leaves; this works from any connection, also while the world waits for the agent."""

    action: ClassVar[str] = "logout"
    body: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Debug:
    """Asks for the state of all agents."""

    action: ClassVar[str] = "debug"
    body: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class Reset:
    """A new fight against ``target``; it is answered when the fight is ready. Every key is always sent."""

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
    """One choice for each head."""

    action: ClassVar[str] = "step"
    choices: Sequence[int]

    @property
    def body(self) -> Any:
        """The payload."""
        return {"action": list(self.choices)}


AgentRequest = Login | Logout | Debug | Reset | Step


def request_line(request: AgentRequest, agent_id: str) -> bytes:
    """The line that is sent for an agent."""
    return orjson.dumps({"action": request.action, "body": request.body, "meta": {"id": agent_id}}) + b"\n"
