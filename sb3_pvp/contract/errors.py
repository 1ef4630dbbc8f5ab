"""The one error of this package, and how it speaks of a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable

from sb3_pvp.common import names


class ContractError(ValueError):
    """A contract, a contract file or an id in it is not what it should be; the message says what to do."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ContractError:
    """The error for a ``name`` that is not among the ``known`` ones of this ``kind``, with the nearest spelling."""
    return ContractError(str(names.unknown_name(kind, name, known)))
