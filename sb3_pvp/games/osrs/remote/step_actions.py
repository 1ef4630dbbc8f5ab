"""The body of a `step` request: one sub-action per head, checked head by head in the order of their execution.

The reference server does not enforce masks. It refuses an index that does not exist and an attack without its type,
when it reaches that head: the heads before keep their effect and the tick is played (``nh-actions.md`` §3,
``protocol-observed.md``, surprises 5 and 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.errors import shown
from sb3_pvp.game.contract import Contract
from sb3_pvp.games.osrs.remote.messages import body_object
from sb3_pvp.games.osrs.remote.wire_errors import (
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    JSON_SYNTAX,
    NULL_POINTER,
    WireRequestError,
)

#: The heads in the order of their execution (nh-actions.md §3, contract.md §6.3).
EXECUTION_ORDER = {
    "NhEnv": ("prayer", "food", "potion", "karambwan", "gear", "veng", "attack", "movement"),
    "DharokEnv": ("food", "potion", "karambwan", "gear", "vengeance", "attack"),
}

#: Sub-actions with details that are the choice of one more head; with all others that head is ignored.
DETAIL_HEADS = {
    "mage_attack": "mage_attack_type",
    "ranged_attack": "ranged_attack_type",
    "melee_attack": "melee_attack_type",
    "move_to_farcast_tile": "farcast_distance",
}

#: Those of `DETAIL_HEADS` that a server refuses if the other head is 0.
ATTACKS = ("mage_attack", "ranged_attack", "melee_attack")


def attack_details(contract: Contract) -> list[tuple[int, int, int]]:
    """Returns head and choice of each attack, and the head of its type; empty for a contract without types."""
    heads = {head.id for head in contract.heads}
    attacks = [attack for attack in ATTACKS if DETAIL_HEADS[attack] in heads]
    return [(*contract.action_index(attack), contract.head_index(DETAIL_HEADS[attack])) for attack in attacks]


def drop_untyped_attacks(choices: NDArray[np.int64], details: Sequence[tuple[int, int, int]]) -> NDArray[np.int64]:
    """Returns a copy of joint actions ``(F, 2, heads)`` without attacks that lack their type.

    These do nothing in the embedded world, but a server refuses the step (protocol-observed.md, surprise 5).

    Args:
        choices: the joint actions.
        details: head, choice of this head, and the head that must not be 0 then, see `attack_details`.
    """
    allowed = choices.copy()
    for head, choice, detail in details:
        empty = (allowed[..., head] == choice) & (allowed[..., detail] == 0)
        allowed[empty, head] = 0
    return allowed


def parse_actions(body: Any) -> list[int | None] | None:
    """Returns the numbers of ``body["action"]``, ``None`` for missing ones; `WireRequestError` for anything else."""
    if body is None:
        return None
    values = body_object(body, "body").get("action")
    if values is None:
        return None
    if not isinstance(values, list):
        raise WireRequestError(JSON_SYNTAX, "action must be an array of numbers")
    # The first case is the usual one, and fast: it comes twelve times in every step.
    return [value if type(value) is int and 0 <= value < 2**31 else _integer(value) for value in values]


def _integer(value: Any) -> int | None:
    """Converts any JSON number or numeric string to a 32-bit integer, as the reference server does: fractions are cut
    off and larger numbers wrap around (protocol-observed.md, surprise 5)."""
    if value is None:
        return None
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return (int(value) + 2**31) % 2**32 - 2**31
        except (ValueError, OverflowError):
            pass
    raise WireRequestError(JSON_SYNTAX, f"NumberFormatException: not a number in action: {shown(value)}")


class ActionCheck:
    """Turns the numbers that an agent sent into a joint action that the world can play."""

    def __init__(self, contract: Contract) -> None:
        self._num_heads = contract.num_heads
        self._sizes = contract.head_sizes
        self._names = [head.id for head in contract.heads]
        self._attack = contract.head_index("attack")
        heads = {head.id for head in contract.heads}
        details: dict[int, dict[int, int]] = {head: {} for head in range(contract.num_heads)}
        for sub_action, detail in DETAIL_HEADS.items():
            if detail in heads:
                head, choice = contract.action_index(sub_action)
                details[head][choice] = contract.head_index(detail)
        order = [contract.head_index(head) for head in EXECUTION_ORDER[contract.name]]
        #: In the order of execution: the head, its size, and the detail heads by the choices that need them.
        self._order = [(head, self._sizes[head], details[head]) for head in order]

    def no_op(self) -> list[int]:
        """Returns the joint action that does nothing."""
        return [0] * self._num_heads

    def playable(self, actions: list[int | None] | None) -> tuple[list[int], WireRequestError | None]:
        """Returns the part of ``actions`` that is executed, and the error that stops the rest."""
        played = self.no_op()
        if actions is None:
            return played, WireRequestError(NULL_POINTER, "action is missing")
        if len(actions) != self._num_heads:
            return played, WireRequestError(
                ILLEGAL_ARGUMENT, f"{actions}: must be {self._num_heads} numbers, one per head"
            )
        try:
            self._apply(actions, played)
        except WireRequestError as error:
            return played, error
        return played, None

    def _apply(self, actions: list[int | None], played: list[int]) -> None:
        for head, size, details in self._order:
            choice = actions[head]
            if choice is None or not 0 <= choice < size:
                raise self._invalid_choice(head, choice)
            detail = details.get(choice)
            if detail is not None:
                played[detail] = self._detail(head, choice, detail, actions[detail])
            played[head] = choice

    def _detail(self, head: int, choice: int, detail: int, value: int | None) -> int:
        if value is None or not 0 <= value < self._sizes[detail]:
            raise self._invalid_choice(detail, value)
        if head == self._attack and value == 0:
            raise WireRequestError(
                ILLEGAL_STATE, f"0: {self._names[head]} {choice} needs a {self._names[detail]} above 0"
            )
        return value

    def _invalid_choice(self, head: int, value: int | None) -> WireRequestError:
        if value is None:
            return WireRequestError(NULL_POINTER, f"action has no number for {self._names[head]}")
        limit = self._sizes[head] - 1
        return WireRequestError(ILLEGAL_ARGUMENT, f"{value}: {self._names[head]} must be from 0 to {limit}")
