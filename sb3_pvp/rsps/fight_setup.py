"""How a remote fight is started, and what the fights of a remote world share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sb3_pvp.contract import Contract
from sb3_pvp.rsps.address import RemoteSettings
from sb3_pvp.rsps.agent_ids import AgentIds
from sb3_pvp.rsps.guard import Guard


@dataclass(frozen=True)
class FightOptions:
    """How a fight is started; one mapping of reset parameters for each seat."""

    seat_reset_params: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
    against_world: bool = False
    training: bool = True
    death_match: bool = True
    maintain_target_environment: bool = True


@dataclass
class Surroundings:
    """What the fights of a world share. ``connected`` says whether there ever was a connection."""

    settings: RemoteSettings
    contract: Contract
    ids: AgentIds
    guard: Guard
    connected: bool = False
    departures: set[asyncio.Task[None]] = field(default_factory=set)
