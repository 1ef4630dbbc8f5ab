"""Names that nobody knows, and the nearest ones that somebody does."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
_warn_once = cache(warnings.warn)


def unknown_name(kind: str, name: object, known: Iterable[str], error: type[ValueError] = ValueError) -> ValueError:
    """The error for a ``name`` that is not among the ``known`` ones of this ``kind``, with the nearest spelling."""
    names = list(known)
    return error(f"unknown {kind} {str(name)!r}{did_you_mean(name, names)}. Known: {', '.join(names) or 'none'}")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """`` (did you mean '...'?)`` with the nearest spelling among the ``known`` ones; nothing if none is near."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def require_known(kind: str, name: object, known: Iterable[str]) -> None:
    """Raises `ValueError` with the known names, and the one that was probably meant, unless ``name`` is one of them."""
    names = sorted(known)
    if name not in names:
        raise unknown_name(kind, name, names)


def require_all_known(kind: str, names: Iterable[object], known: Iterable[str] | None) -> None:
    """The same for each of ``names``; ``None`` knows all of them."""
    for name in names if known is not None else ():
        require_known(kind, name, known or ())


def loadable(kind: str, names: Iterable[str], load: Callable[[str], T]) -> Iterator[T]:
    """What these names stand for; those of which ``load`` raises `ValueError` are left out, with one warning each."""
    for name in names:
        try:
            yield load(name)
        except ValueError as error:
            _warn_once(f"the {kind} {name!r} is left out: {error}", stacklevel=2)


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
