"""Errors about unknown names, with the nearest known one, and the names of a constructor's arguments."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
_warn_once = cache(warnings.warn)  # once per message and process, even where filters show every warning


def unknown_name(kind: str, name: object, known: Iterable[str], error: type[ValueError] = ValueError) -> ValueError:
    """Returns the error for a ``name`` that is not among the ``known`` ones of its ``kind``, with the nearest one."""
    names = list(known)
    return error(f"unknown {kind} {str(name)!r}{did_you_mean(name, names)}. Known: {', '.join(names) or 'none'}")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Returns `` (did you mean '...'?)`` with the nearest known name, or an empty string if none is similar."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def require_known(kind: str, name: object, known: Iterable[str]) -> None:
    """Raises `ValueError`, with the known names and the nearest one, unless ``name`` is known."""
    names = sorted(known)
    if name not in names:
        raise unknown_name(kind, name, names)


def require_all_known(kind: str, names: Iterable[object], known: Iterable[str] | None) -> None:
    """Calls `require_known` for each of ``names``; with ``known=None`` all names are accepted."""
    for name in names if known is not None else ():
        require_known(kind, name, known or ())


def loadable(kind: str, names: Iterable[str], load: Callable[[str], T]) -> Iterator[T]:
    """Yields ``load(name)`` for each name; one for which it raises `ValueError` is skipped with a single warning."""
    for name in names:
        try:
            yield load(name)
        except ValueError as error:
            _warn_once(f"the {kind} {name!r} is left out: {error}", stacklevel=2)


def arguments_of(of: type[Any], without: Iterable[str] = ()) -> set[str] | None:
    """Returns the names of a constructor's arguments, except ``without``; ``None`` if it accepts any name.

    Follows ``**kwargs`` to the base classes. Private names, such as SB3's ``_init_setup_model``, are left out.
    """
    names: set[str] = set()
    for base in of.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
        names |= {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
        if all(each.kind != each.VAR_KEYWORD for each in parameters):  # nothing is passed on to its bases
            return {name for name in names if name != "self" and not name.startswith("_")} - {*without}
    return None
