"""Reset parameters by their names on the wire (protocol.md §3.1), validated and turned into numbers for kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from sb3_pvp.common.errors import unknown_name
from sb3_pvp.games.osrs.sim.loadouts import BUILD_NAMES
from sb3_pvp.games.osrs.sim.state import AGENT, BASELINE

#: Values of `RESET["fight_type"]` that leave the choice to the loadout or to chance.
BY_LOADOUT, BY_CHANCE = -1, -2
MAX_BUILD_OPTIONS = 32
_WORD = (1 << 64) - 1

_SEAT_RESET = np.dtype(
    [
        ("driver", "i8"),
        ("build", "i8"),  # -1: drawn from the fight's options
        ("randomize_gear", "i8"),
        ("gear_seed", "i8"),
        ("gear_seed_known", "i8"),
        ("only_switch_prayer_when_about_to_attack", "i8"),
        ("only_switch_gear_when_attack_soon", "i8"),
        ("allow_smite", "i8"),
        ("allow_redemption", "i8"),
        ("allow_moving_if_can_attack", "i8"),
        ("login_wait", "i8"),  # ticks from the end of the login's last fight to this reset; 0: a new login
    ],
    align=True,
)

#: The options of one fight for the reset kernel.
RESET = np.dtype(
    [
        ("seed", "u8"),
        ("seed_known", "i8"),
        ("fight_type", "i8"),
        ("training", "i8"),
        ("death_match", "i8"),
        ("maintain_target_environment", "i8"),
        ("num_build_options", "i8"),
        ("build_options", "i8", MAX_BUILD_OPTIONS),
        ("seats", _SEAT_RESET, 2),
    ],
    align=True,
)

DEFAULT_BUILD_OPTIONS = ("PURE", "ZERKER", "MED")
OPTION_KEYS = (
    "seed",
    "reset_params",
    "seat_reset_params",
    "bots",
    "training",
    "death_match",
    "maintain_target_environment",
    "logins",
)
BOT_NAMES = {None: AGENT, "baseline": BASELINE}


def _boolean(name: str, value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if value in ("true", "false"):
        return int(value == "true")
    raise ValueError(f"reset parameter {name!r} must be true or false, not {value!r}.")


def _build(name: str, value: Any) -> int:
    if value not in BUILD_NAMES:
        raise unknown_name(f"build in {name!r}:", value, BUILD_NAMES)
    return BUILD_NAMES.index(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"reset parameter {name!r} must be a string, not {value!r}.")
    return value


def _builds(name: str, value: Any) -> list[int]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"reset parameter {name!r} must be a list of builds, not {value!r}.")
    builds = [_build(name, item) for item in value]
    if not 0 < len(builds) <= MAX_BUILD_OPTIONS:
        raise ValueError(f"reset parameter {name!r} must name 1 to {MAX_BUILD_OPTIONS} builds.")
    return builds


def _unvalidated(name: str, value: Any) -> Any:
    return value


#: Reset parameter: (validator, default) (protocol.md §3.1). The server ignores ``fightType``, and so do we.
_PARAMETERS: dict[str, tuple[Callable[[str, Any], Any], Any]] = {
    "accountBuild": (_build, "PURE"),
    "onlySwitchPrayerWhenAboutToAttack": (_boolean, True),
    "onlySwitchGearWhenAttackSoon": (_boolean, True),
    "allowSmite": (_boolean, True),
    "allowRedemption": (_boolean, True),
    "allowMovingIfCanAttack": (_boolean, False),
    "randomizeGear": (_boolean, False),
    "randomizeBuild": (_boolean, False),
    "randomBuildOptions": (_builds, DEFAULT_BUILD_OPTIONS),
    "randomizeFightType": (_boolean, False),
    "fightType": (_unvalidated, None),
    "episodeId": (_text, ""),
    "agent": (_text, ""),
    "target": (_text, ""),
}
RESET_PARAMETER_NAMES = tuple(_PARAMETERS)
#: The reset parameters of the Dharok game, which ignores their values (protocol.md §3.2).
DHAROK_RESET_PARAMETER_NAMES = ("episodeId", "agent", "target")


def validated_params(reset_params: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Returns all reset parameters, validated and with defaults; builds become numbers.

    Raises `ValueError` for a wrong value, and for a name that is not in ``known``.
    """
    if not isinstance(reset_params, Mapping):
        raise ValueError(f"reset_params must be a mapping of names to values, not {reset_params!r}.")
    for name in reset_params:
        if name not in known:
            raise unknown_name("reset parameter", name, known)
    return {name: check(name, reset_params.get(name, default)) for name, (check, default) in _PARAMETERS.items()}


def _fill_seat(seat: np.void, values: Mapping[str, Any]) -> None:
    has_names = bool(values["agent"] or values["target"])
    seat["build"] = values["accountBuild"]
    if values["randomizeBuild"]:
        options = values["randomBuildOptions"]
        seat["build"] = choose_build(values["agent"], values["target"], options) if has_names else -1
    seat["randomize_gear"] = values["randomizeGear"]
    seat["gear_seed_known"] = bool(values["episodeId"])
    seat["gear_seed"] = java_string_hash(values["episodeId"])
    seat["only_switch_prayer_when_about_to_attack"] = values["onlySwitchPrayerWhenAboutToAttack"]
    seat["only_switch_gear_when_attack_soon"] = values["onlySwitchGearWhenAttackSoon"]
    seat["allow_smite"] = values["allowSmite"]
    seat["allow_redemption"] = values["allowRedemption"]
    seat["allow_moving_if_can_attack"] = values["allowMovingIfCanAttack"]


def _flag(options: Mapping[str, Any], name: str) -> int:
    return _boolean(name, options.get(name, True))


def validated_seed(seed: Any) -> int:
    """Returns a seed as an int below 2**64; raises `ValueError` for negative numbers, floats and other types."""
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"the seed must be a non-negative integer, not {seed!r}.")
    return int(seed) & _WORD  # larger seeds lose their upper bits


def to_reset(options: Mapping[str, Any], default_params: Mapping[str, Any], known: Collection[str]) -> np.void:
    """Returns a `RESET` record, without a seed, for the options of `SimWorld.reset`.

    :param default_params: used if the options have no ``reset_params``.
    :param known: names of the game's reset parameters.
    :raises ValueError: for an unknown option, parameter or bot, or a wrong value.
    """
    for name in options:
        if name not in OPTION_KEYS:
            raise unknown_name("reset option", name, OPTION_KEYS)
    reset: Any = np.zeros((), RESET)[()]
    shared = options.get("reset_params", default_params)
    per_seat = options.get("seat_reset_params") or (shared, shared)
    values = [validated_params(params, known) for params in per_seat]
    bots = options.get("bots", (None, None))
    for k in range(2):
        if bots[k] not in BOT_NAMES:
            raise unknown_name("bot", bots[k], map(str, BOT_NAMES))
        _fill_seat(reset["seats"][k], values[k])
        reset["seats"][k]["driver"] = BOT_NAMES[bots[k]]
    # Fight type and builds to draw from are those of seat 0: a fight has only one of each.
    reset["fight_type"] = BY_CHANCE if values[0]["randomizeFightType"] else BY_LOADOUT
    builds = values[0]["randomBuildOptions"]
    reset["num_build_options"] = len(builds)
    reset["build_options"][: len(builds)] = builds
    for name in ("training", "death_match", "maintain_target_environment"):
        reset[name] = _flag(options, name)
    return cast(np.void, reset)


def choose_build(agent: str, target: str, options: Sequence[str]) -> str:
    """Returns the build of a pair under ``randomizeBuild``, one of the names in ``options`` (protocol.md §3.1).

    Both fighters get the same one. It depends on the smallest number among the names, else on the smallest among the
    words of the names, else on the Java hash of both names. Raises `ValueError` if there are no options.
    """
    if not options:
        raise ValueError("randomBuildOptions is empty: randomizeBuild needs at least one build to choose from")
    names = [agent, target]
    words = [word for name in names for word in name.split(" ")]
    numbers = [int(name) for name in names if _is_number(name)] or [int(word) for word in words if _is_number(word)]
    # Sorted, so that both fighters of a pair compute the same hash.
    key = min(numbers) if numbers else java_string_hash("".join(sorted(names)))
    return options[abs(key) % len(options)]


def _is_number(text: str) -> bool:
    return re.fullmatch("[0-9]+", text) is not None


def java_string_hash(text: str) -> int:
    """Returns ``String.hashCode()``: a signed 32-bit integer, computed over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8) + low) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
