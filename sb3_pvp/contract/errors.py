"""The one error of this package, and how it speaks of a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ContractError(ValueError):
    """A contract, a contract file or an id in it is not what it should be; the message says what to do."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ContractError:
    """The error for a ``name`` that is not among the ``known`` ones of this ``kind``, with the nearest spelling."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return ContractError(f"unknown {kind} {name!r}{hint}. Known: {', '.join(names)}")
