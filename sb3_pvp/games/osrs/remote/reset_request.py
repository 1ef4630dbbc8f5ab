"""The body of a `reset` request (``protocol.md`` §2.3 and §3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sb3_pvp.common.errors import require_all_known, shown
from sb3_pvp.games.osrs.remote.messages import body_object, flag, text
from sb3_pvp.games.osrs.remote.wire_errors import ARITHMETIC, JSON_SYNTAX, NULL_POINTER, WireRequestError

#: Targets that are no names (protocol.md §2.3): the world's own bot, and the first player who attacks.
BASELINE = "baseline"
ATTACKER = "attacker"

ACCOUNT_BUILDS = ("PURE", "ZERKER", "MED", "MAXED", "LMS_PURE", "LMS_ZERKER", "LMS_MED")


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """A parsed `reset`; ``reset_params`` keeps the names of the wire, without unknown ones."""

    target: str
    training: bool
    maintain_target_environment: bool
    death_match: bool
    reset_params: dict[str, Any]


def parse_reset(body: Any, agent_type: str) -> ResetRequest:
    """Parses the body of a reset of an agent of this type; raises `WireRequestError` for wrong values."""
    fields = body_object(body, "body")
    if fields.get("target") is None:
        raise WireRequestError(NULL_POINTER, "target is missing")
    return ResetRequest(
        target=text(fields["target"], "target"),
        training=_flag_or_false(fields, "training"),
        maintain_target_environment=_flag_or_false(fields, "maintainTargetEnvironment"),
        death_match=_flag_or_false(fields, "deathMatch"),
        reset_params=_reset_params(body_object(fields.get("resetParams"), "resetParams"), agent_type),
    )


def _flag_or_false(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    return False if value is None else flag(value, name)


def _build(value: Any, name: str) -> str:
    if value not in ACCOUNT_BUILDS:
        raise WireRequestError(NULL_POINTER, f"{name} {shown(value)} is not one of {', '.join(ACCOUNT_BUILDS)}")
    return str(value)


def _builds(value: Any, name: str) -> list[str]:
    if not isinstance(value, list):
        raise WireRequestError(JSON_SYNTAX, f"{name} must be an array")
    return [_build(item, name) for item in value]


#: The parser of each parameter. `fightType` is missing: the reference server ignores it (protocol.md §3.1).
_READERS: dict[str, Callable[[Any, str], Any]] = {
    "accountBuild": _build,
    "randomBuildOptions": _builds,
    **dict.fromkeys(("episodeId", "agent", "target"), text),
    **dict.fromkeys(("randomizeGear", "randomizeBuild", "randomizeFightType"), flag),
    **dict.fromkeys(("allowSmite", "allowRedemption", "allowMovingIfCanAttack"), flag),
    **dict.fromkeys(("onlySwitchPrayerWhenAboutToAttack", "onlySwitchGearWhenAttackSoon"), flag),
}


#: The parameters of contracts that do not have all of them (protocol.md §3.2).
_PARAMETERS = {"DharokEnv": ("episodeId", "agent", "target")}


def validated_reset_params(fields: Mapping[str, Any], contract: str) -> dict[str, Any]:
    """Returns a copy of the parameters that a client is about to send. Raises `ValueError` for a name that the contract
    does not have, with the nearest one that it has, and `WireRequestError` for a value that a server would refuse."""
    names = _PARAMETERS.get(contract, (*_READERS, "fightType"))
    require_all_known(f"reset parameter of {contract}", fields, names)
    for name, read in _READERS.items():
        if name in fields:
            read(fields[name], name)
    if fields.get("randomBuildOptions", True) == []:
        raise WireRequestError(ARITHMETIC, "randomBuildOptions is empty")
    return dict(fields)


def _reset_params(fields: dict[str, Any], agent_type: str) -> dict[str, Any]:
    names = [name for name in _PARAMETERS.get(agent_type, _READERS) if fields.get(name) is not None]
    params = {name: _READERS[name](fields[name], name) for name in names}
    if params.get("randomizeBuild") and params.get("randomBuildOptions") == []:
        raise WireRequestError(ARITHMETIC, "/ by zero: randomBuildOptions is empty")
    # An empty list is harmless where the build is not random, but our world would refuse it.
    return {name: value for name, value in params.items() if value != []}
