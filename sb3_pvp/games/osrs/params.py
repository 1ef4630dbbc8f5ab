"""The settings of how fights start, by their names on the wire (protocol.md §3.1); the worlds validate the values."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class DharokParams(BaseModel):
    """The settings of DharokEnv, which accepts but ignores them (protocol.md §3.2)."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")
    episode_id: Any = ""
    agent: Any = ""
    target: Any = ""


class NhParams(DharokParams):
    """The settings of NhEnv."""

    account_build: Any = "PURE"
    only_switch_prayer_when_about_to_attack: Any = True
    only_switch_gear_when_attack_soon: Any = True
    allow_smite: Any = True
    allow_redemption: Any = True
    allow_moving_if_can_attack: Any = False
    randomize_gear: Any = False
    randomize_build: Any = False
    random_build_options: Any = None
    randomize_fight_type: Any = False
    fight_type: Any = None
