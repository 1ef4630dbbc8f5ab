"""Decodes the replies to a `reset` or a `step` into arrays (``protocol.md`` §2.5 and §4)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import chain
from math import isfinite
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from sb3_pvp.game import Outcome
from sb3_pvp.game.contract import Contract
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, OPTIONAL_FIELDS, STYLE_FIELDS, STYLE_NAMES, Style, camel_case
from sb3_pvp.games.osrs.remote.client_errors import Lost, Refused
from sb3_pvp.games.osrs.remote.messages import INDEPENDENT_FIGHTS

_FIELDS = META_DTYPE.names or ()
_STYLES = {name: style for style, name in STYLE_NAMES.items()}
#: Fields that are on the wire only in ticks in which their event, such as a hit, has happened.
_IN_GROUP = {name for group in OPTIONAL_FIELDS.values() for name in group}
#: Types that a record may hold. Checked, since NumPy would also convert texts and ``None`` to numbers.
_NUMBERS = {bool, int, float, Style}
#: Outcomes by their name on the wire, where an unfinished fight has none.
_OUTCOMES = {outcome.name: outcome for outcome in Outcome if outcome is not Outcome.RUNNING}

#: Fields that describe the same thing for both sides: a field, and its name in the opponent's record.
MIRRORED = {
    "episode_ticks": "episode_ticks",
    "distance": "distance",
    "current_health_percent": "current_target_health_percent",
    "damage_generated_on_target_scale": "damage_generated_on_player_scale",
    "extra_damage_dealt_on_target_scale": "extra_damage_dealt_on_player_scale",
    "player_attack_style_type": "target_attack_style_type",
    "current_player_prayer_type": "current_target_prayer_type",
    "player_frozen_ticks": "target_frozen_ticks",
    "food_count": "target_food_count",
    "remaining_food_scale": "target_remaining_food_scale",
    "remaining_brew_scale": "target_remaining_brew_scale",
    "player_healed_scale": "target_healed_scale",
    "hit_present": "received_present",
    "attack_type_hit": "attack_type_received",
    "hit_with_smite": "target_attacked_with_smite",
    "player_hit_attack_speed": "target_hit_attack_speed",
    "target_prayer_type": "player_prayer_type",
}

#: The values of a `META_DTYPE` record in the order of its fields; faster to make and to read than the record.
MetaValues = tuple[Any, ...]
#: Index of each field in `MetaValues`.
POSITION = {name: position for position, name in enumerate(_FIELDS)}

_FULL_AT_START = ("current_health_percent", "current_target_health_percent", "current_prayer_percent")

#: `struct` format characters by the type of a field; `META_DTYPE` is packed, as is "<".
_PACKING = {"<f4": "f", "<i4": "i", "|i1": "b", "|b1": "?"}
_RECORD = struct.Struct("<" + "".join(_PACKING[META_DTYPE[name].str] for name in _FIELDS))


def meta_record(meta: MetaValues) -> bytes:
    """Returns the bytes of a `META_DTYPE` record; NumPy takes more than twice as long to assign the values."""
    return _RECORD.pack(*meta)


def _uneventful_value(name: str) -> Any:
    if name in STYLE_FIELDS:
        return int(Style.NONE)
    return 1.0 if name in _FULL_AT_START or name.endswith("_level_scale") else 0


_UNEVENTFUL = tuple(_uneventful_value(name) for name in _FIELDS)
_HIT, _OFF_PRAYER = POSITION["hit_present"], POSITION["hit_off_prayer"]
_RECEIVED, _PROTECTED = POSITION["received_present"], POSITION["protected_prayer"]
_SIDES = [(POSITION[one], POSITION[other]) for one, other in MIRRORED.items()]


def uneventful_meta(episode_ticks: int = 0) -> MetaValues:
    """Returns the values of a tick in which nothing happened, at full health, so that no reward comes from it."""
    values = list(_UNEVENTFUL)
    values[POSITION["episode_ticks"]] = episode_ticks
    return tuple(values)


def mirrored_meta(meta: MetaValues) -> MetaValues:
    """Returns the same tick from the opponent's side; what that side alone knows has its uneventful value."""
    values = list(_UNEVENTFUL)
    for one, other in _SIDES:
        values[one], values[other] = meta[other], meta[one]
    # What is "off prayer" for the attacker is "not protected" for the defender: negated, hence not in `MIRRORED`.
    values[_OFF_PRAYER] = bool(meta[_RECEIVED]) and not meta[_PROTECTED]
    values[_PROTECTED] = bool(meta[_HIT]) and not meta[_OFF_PRAYER]
    return tuple(values)


class View(NamedTuple):
    """What a seat sees: observation float32 ``(D,)``, masks bool ``(A,)`` and the values of a `META_DTYPE` record."""

    obs: NDArray[np.float32]
    masks: NDArray[np.bool_]
    meta: MetaValues


class FightReply(NamedTuple):
    """A decoded reply; ``target`` is the opponent's view, or ``None`` if the server did not send it."""

    own: View
    target: View | None
    outcome: Outcome

    @property
    def episode_ticks(self) -> int:
        """Ticks since the episode began."""
        return int(self.own.meta[POSITION["episode_ticks"]])


def parse_reply(line: bytes, request: str) -> Any:
    """Returns the body of a reply line, or ``None`` if it has none; raises `Refused` for an error reply, and `Lost` for
    a line that is not a valid reply to this ``request``."""
    try:
        reply = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise Lost(f"the answer to a {request} is not JSON: {error}") from error
    if not isinstance(reply, dict):
        raise Lost(f"the answer to a {request} is no JSON object")
    if reply.get("error"):
        raise Refused(request, str(reply.get("message", "")), reply.get(INDEPENDENT_FIGHTS) is True)
    # A corrupted error reply: taken for a success, it would leave an agent on the server.
    if reply and request in ("login", "logout"):
        raise Lost(f"the answer to a {request} is neither an error nor empty")
    return reply.get("body")


class ReplyDecoder:
    """Decodes replies that follow a contract."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def decode(self, body: Any) -> FightReply:
        """Decodes the body of a reply; raises `Lost`, with the reason, if it does not fit the contract."""
        try:
            meta = decode_meta(body["meta"])
            own = View(self._obs(body["obs"]), self._masks(body["actionMasks"]), meta)
            return FightReply(own, self._target(body["meta"], meta), _outcome(body.get("terminalState")))
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, struct.error) as error:
            raise Lost(f"a reply does not fit the contract {self._contract.name}: {error!s:.200}") from error

    def _target(self, body: Mapping[str, Any], meta: MetaValues) -> View | None:
        if "targetObs" not in body or "targetActionMasks" not in body:
            return None
        return View(self._obs(body["targetObs"]), self._masks(body["targetActionMasks"]), mirrored_meta(meta))

    def _obs(self, values: Any) -> NDArray[np.float32]:
        obs = np.array(values, np.float32)
        if obs.shape != (self._contract.num_observations,):
            raise ValueError(f"expected {self._contract.num_observations} observations, got {obs.size}")
        # A non-finite observation makes the product non-finite, and one product is faster than `isfinite` of each.
        # The second check is for finite observations whose squares overflow.
        if not isfinite(obs.dot(obs)) and not np.isfinite(obs).all():
            raise ValueError("an observation is not finite")
        return obs

    def _masks(self, heads: Any) -> NDArray[np.bool_]:
        if tuple(map(len, heads)) != self._contract.head_sizes:
            raise ValueError(f"expected masks of heads with {self._contract.head_sizes} choices")
        flat = list(chain.from_iterable(heads))
        if set(map(type, flat)) != {bool}:
            raise ValueError("masks must be true or false")
        # By way of bytes: twice as fast as `np.array(flat)`.
        return np.frombuffer(bytes(flat), np.bool_)


def _outcome(name: Any) -> Outcome:
    return Outcome.RUNNING if name is None else _OUTCOMES[name]


def decode_meta(fields: Mapping[str, Any]) -> MetaValues:
    """Returns the values of a `META_DTYPE` record from the ``meta`` of a reply. Raises `KeyError` for a missing field
    or an unknown style; `TypeError`, `OverflowError` or `struct.error` for a value that does not fit the record."""
    values = list(_read_required(fields))
    for position, name in enumerate(values[_NUM_NUMBERS:], _NUM_NUMBERS):
        values[position] = _STYLES[name]
    # In most ticks there is no hit and no eating, so no optional field is there.
    values += _ABSENT_VALUES if _OPTIONAL_KEYS.isdisjoint(fields) else [read(fields) for read in _OPTIONAL_READERS]
    record: MetaValues = _in_field_order(values)
    if not _NUMBERS.issuperset(map(type, record)):
        raise TypeError("a value in meta is not a number")
    meta_record(record)  # Only to check the ranges: `RemoteWorld` must be able to pack what is shown.
    return record


def _reader(name: str) -> Any:
    """Returns a function that reads one optional field of the record from the fields on the wire."""
    if name in OPTIONAL_FIELDS:  # A flag, which is not on the wire: set if any field of its group is.
        keys = [camel_case(member) for member in OPTIONAL_FIELDS[name]]
        return lambda fields: any(key in fields for key in keys)
    key = camel_case(name)
    if name in STYLE_FIELDS:
        return lambda fields: _STYLES[fields.get(key, "null")]
    return lambda fields: fields.get(key, 0)


_OPTIONAL = [name for name in _FIELDS if name in OPTIONAL_FIELDS or name in _IN_GROUP]
_OPTIONAL_READERS = [_reader(name) for name in _OPTIONAL]
_OPTIONAL_KEYS = {camel_case(name) for name in _IN_GROUP}
_ABSENT_VALUES = [read({}) for read in _OPTIONAL_READERS]
#: The fields that every reply has: first the numbers, then the styles, which are converted from texts.
_NAMES = sorted((name for name in _FIELDS if name not in _OPTIONAL), key=lambda name: name in STYLE_FIELDS)
_NUM_NUMBERS = sum(name not in STYLE_FIELDS for name in _NAMES)
_read_required = itemgetter(*map(camel_case, _NAMES))
_in_field_order = itemgetter(*map([*_NAMES, *_OPTIONAL].index, _FIELDS))
