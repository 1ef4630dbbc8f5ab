"""Reset parameters in the names of the wire (protocol.md §3.1), checked and turned into numbers for the kernels."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, cast

import numpy as np

from sb3_pvp.games.osrs.sim.java_random import java_string_hash
from sb3_pvp.games.osrs.sim.loadouts import BUILD_NAMES, choose_build
from sb3_pvp.games.osrs.sim.state import AGENT, BASELINE

#: `RESET["fight_type"]` when the loadout, or chance, decides.
BY_LOADOUT, BY_CHANCE = -1, -2
MAX_BUILD_OPTIONS = 32

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
        ("login_known", "i8"),
    ],
    align=True,
)

#: What the reset kernel needs to know about one fight.
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


def unknown(what: str, value: object, known: Iterable[object]) -> ValueError:
    """One clear error for a name that does not exist, with the nearest one that does."""
    names = [str(name) for name in known]
    close = difflib.get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return ValueError(f"unknown {what} {value!r}.{hint} Known: {', '.join(names)}.")


def _boolean(name: str, value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if value in ("true", "false"):
        return int(value == "true")
    raise ValueError(f"reset parameter {name!r} must be true or false, not {value!r}.")


def _build(name: str, value: Any) -> int:
    if value not in BUILD_NAMES:
        raise unknown(f"build in {name!r}:", value, BUILD_NAMES)
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


def _anything(name: str, value: Any) -> Any:
    return value


#: Every reset parameter: how it is checked, and its default (protocol.md §3.1). ``fightType`` has no effect there.
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
    "fightType": (_anything, None),
    "episodeId": (_text, ""),
    "agent": (_text, ""),
    "target": (_text, ""),
}
RESET_PARAMETER_NAMES = tuple(_PARAMETERS)
#: What the Dharok game takes; none of these has an effect on it (protocol.md §3.2).
DHAROK_RESET_PARAMETER_NAMES = ("episodeId", "agent", "target")


def checked(reset_params: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """All reset parameters with their defaults, checked; builds become numbers.

    Raises `ValueError`, also for a name that is not among the ``known`` ones of the game.
    """
    if not isinstance(reset_params, Mapping):
        raise ValueError(f"reset_params must be a mapping of names to values, not {reset_params!r}.")
    for name in reset_params:
        if name not in known:
            raise unknown("reset parameter", name, known)
    return {name: check(name, reset_params.get(name, default)) for name, (check, default) in _PARAMETERS.items()}


def _fill_seat(seat: np.void, values: Mapping[str, Any]) -> None:
    names = bool(values["agent"] or values["target"])
    seat["build"] = values["accountBuild"]
    if values["randomizeBuild"]:
        options = values["randomBuildOptions"]
        seat["build"] = choose_build(values["agent"], values["target"], options) if names else -1
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


def checked_seed(seed: Any) -> int:
    """A seed as a non-negative integer; anything else (floats, NaN, negative numbers) is refused."""
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"the seed must be a non-negative integer, not {seed!r}.")
    return int(seed) & 0xFFFFFFFFFFFFFFFF


def to_reset(options: Mapping[str, Any], default_params: Mapping[str, Any], known: Collection[str]) -> np.void:
    """One `RESET` record from the options of `SimWorld.reset`; ``default_params`` fill in missing ``reset_params``.

    ``known`` are the names of the game's reset parameters.
    """
    for name in options:
        if name not in OPTION_KEYS:
            raise unknown("reset option", name, OPTION_KEYS)
    reset: Any = np.zeros((), RESET)[()]
    if options.get("seed") is not None:
        reset["seed"], reset["seed_known"] = checked_seed(options["seed"]), 1
    shared = options.get("reset_params", default_params)
    per_seat = options.get("seat_reset_params") or (shared, shared)
    values = [checked(params, known) for params in per_seat]
    bots = options.get("bots", (None, None))
    for k in range(2):
        if bots[k] not in BOT_NAMES:
            raise unknown("bot", bots[k], BOT_NAMES)
        _fill_seat(reset["seats"][k], values[k])
        reset["seats"][k]["driver"] = BOT_NAMES[bots[k]]
    reset["fight_type"] = BY_CHANCE if values[0]["randomizeFightType"] else BY_LOADOUT
    builds = values[0]["randomBuildOptions"]
    reset["num_build_options"] = len(builds)
    reset["build_options"][: len(builds)] = builds
    for name in ("training", "death_match", "maintain_target_environment"):
        reset[name] = _flag(options, name)
    return cast(np.void, reset)
