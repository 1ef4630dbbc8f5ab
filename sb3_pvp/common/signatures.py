"""What a class may be called with, to refuse misspelled names where all names are accepted."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any


def arguments_of(of: type[Any], without: Iterable[str] = ()) -> set[str] | None:
    """Names of the arguments of a class, and of its bases where it hands on the rest; ``None``: it takes any name."""
    names: set[str] = set()
    for base in of.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
        names |= {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
        if all(each.kind != each.VAR_KEYWORD for each in parameters):
            return {name for name in names if name != "self" and not name.startswith("_")} - {*without}
    return None
