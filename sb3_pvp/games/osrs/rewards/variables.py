"""The variables of the schedules of weights: fields of the meta record and quantities derived from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sb3_pvp.games.osrs.meta_fields import META_DTYPE, OPTIONAL_FIELDS, STYLE_FIELDS, STYLE_NAMES, Style, camel_case
from sb3_pvp.games.osrs.rewards.facts import Array, Facts

_FLAG_OF = {name: flag for flag, group in OPTIONAL_FIELDS.items() for name in group}
_NAMES_OF_STYLES = np.array([STYLE_NAMES[number] for number in sorted(STYLE_NAMES)])  # `Style.NONE` comes first


@dataclass(frozen=True)
class Variable:
    """A quantity with a value in every fight, or only in some.

    Attributes:
        read: returns the values ``(N,)``: numbers, booleans, or strings for styles.
        present: returns where there is a value, bool ``(N,)``; ``None``: everywhere.
    """

    read: Callable[[Facts], Array]
    present: Callable[[Facts], Array] | None = None

    def values(self, facts: Facts, default: Any = None) -> Array:
        """Returns the values, with ``default``, else 0, false or "null", where there is none."""
        values = self.read(facts)
        if self.present is None:
            return values
        if default is None:
            default = STYLE_NAMES[Style.NONE.value] if values.dtype.kind == "U" else values.dtype.type(0)
        elif isinstance(default, str) != (values.dtype.kind == "U"):
            values = values.astype(object)  # else `np.where` would turn the numbers into strings
        return np.where(self.present(facts), values, default)


def _field(name: str) -> Variable:
    flag = _FLAG_OF.get(name)
    read = _style_reader(name) if name in STYLE_FIELDS else lambda facts: facts.meta[name]
    return Variable(read, None if flag is None else _presence(name, flag))


def _style_reader(name: str) -> Callable[[Facts], Array]:
    return lambda facts: _NAMES_OF_STYLES[facts.meta[name] - Style.NONE.value]


def _presence(name: str, flag: str) -> Callable[[Facts], Array]:
    if name not in STYLE_FIELDS:
        return lambda facts: facts.meta[flag]
    # The wire also leaves out the prayer at a hit if there was none (protocol.md §4).
    return lambda facts: facts.meta[flag] & (facts.meta[name] != Style.NONE.value)


def _of_style(style: Style, damage: str, flag: str, attack_type: str) -> Variable:
    return Variable(lambda facts: facts.meta[damage] * (facts.meta[flag] & (facts.meta[attack_type] == style.value)))


def _damage_by_style() -> dict[str, Variable]:
    dealt = ("damage_generated_on_target_scale", "hit_present", "attack_type_hit")
    received = ("damage_generated_on_player_scale", "received_present", "attack_type_received")
    styles = {"melee": Style.MELEE, "ranged": Style.RANGED, "mage": Style.MAGIC}
    both = {"dealt": dealt, "received": received}
    return {
        f"{word}_damage_{side}": _of_style(style, *fields)
        for side, fields in both.items()
        for word, style in styles.items()
    }


def _with_smite(damage: str, flag: str, smite: str) -> Variable:
    return Variable(lambda facts: facts.amounts[damage], lambda facts: facts.meta[flag] & facts.meta[smite])


def _all_variables() -> dict[str, Variable]:
    variables = {name: _field(name) for name in META_DTYPE.names or ()} | _damage_by_style()
    wire_names = {camel_case(name): variable for name, variable in variables.items()}
    return {
        **variables,
        **wire_names,
        "smite_damage": _with_smite("damage_dealt", "hit_present", "hit_with_smite"),
        "smite_damage_received": _with_smite("damage_received", "received_present", "target_attacked_with_smite"),
    }


#: The variables of `custom_reward_fn`: all fields of the meta record, in snake_case and by their names on the wire, and
#: the derived ones of rewards.md §4.
ALL_VARIABLES = _all_variables()
