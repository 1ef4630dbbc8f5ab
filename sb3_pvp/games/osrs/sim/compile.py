"""The Numba decorators of this package, typed, and a compile cache that knows about all of its files."""

from __future__ import annotations

import hashlib
import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.core.caching
import numba.core.event
import numba.core.types

Function = TypeVar("Function", bound=Callable[..., Any])
# Plain `Any`: Numba's types do not know the options and internals that are used here.
_njit: Any = numba.njit
_caching: Any = numba.core.caching
_events: Any = numba.core.event
_unliteral: Any = numba.core.types.unliteral
_PACKAGE = Path(__file__).resolve().parent


def rule(function: Function) -> Function:
    """Compiles a rule of the game into whatever calls it; Python cannot call it.

    It is made without the wrappers that Python and C would need, and once for all constants: Numba would compile it
    again for every literal number it is called with. Both together halve the time of a cold compile.
    """
    compiled = _njit(error_model="numpy", nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    resolve = compiled.get_call_template

    def resolve_once(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return resolve(tuple(map(_unliteral, args)), {name: _unliteral(kind) for name, kind in kws.items()})

    compiled.get_call_template = resolve_once
    return cast(Function, compiled)


def callable_rule(compiled: Function) -> Function:
    """The same rule with a wrapper, so that a test or a notebook can call it."""
    return cast(Function, _njit(error_model="numpy")(compiled.py_func))  # type: ignore[attr-defined]


def kernel(function: Function) -> Function:
    """Compiles an entry point that Python calls; its machine code is cached on disk."""
    return cast(Function, _njit(cache=True, error_model="numpy", nogil=True)(function))


def _sources_digest() -> str:
    digest = hashlib.sha256()
    data = [*_PACKAGE.glob("data/*"), *_PACKAGE.parent.glob("contracts/*.json")]
    for path in sorted([*_PACKAGE.rglob("*.py"), *data]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _SourceTreeLocator(_caching._SourceFileBackedLocatorMixin, _caching._CacheLocator):  # type: ignore[misc]
    """Keeps Numba's cache entries valid only while no file of this package has changed.

    Numba looks at the file of the cached function alone, but a kernel contains the rules of every other file.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._stamp = _sources_digest()

    def get_cache_path(self) -> str:
        return cast(str, self._inner.get_cache_path())

    def get_disambiguator(self) -> str:
        return cast(str, self._inner.get_disambiguator())

    def get_source_stamp(self) -> str:
        return self._stamp

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _SourceTreeLocator | None:
        if _PACKAGE not in Path(py_file).resolve().parents:
            return None
        for locator_class in _caching.CacheImpl._locator_classes:
            if locator_class is not cls:
                inner = locator_class.from_function(py_func, py_file)
                if inner is not None:
                    return cls(inner)
        return None


_caching.CacheImpl._locator_classes.insert(0, _SourceTreeLocator)


class Announcement(_events.Listener):  # type: ignore[misc]
    """Says once in a process why the first fight on a machine is a long time coming; workers leave it to others."""

    was_made = False

    def on_start(self, event: Any) -> None:
        """Called by Numba before it compiles what it does not find in its cache."""
        is_long = event.data["dispatcher"].py_func.__module__.endswith(".kernels")
        if is_long and not self.was_made and multiprocessing.parent_process() is None:
            text = "compiling the rules of the fight for this machine, once; this takes about half a minute"
            print(f"sb3_pvp: {text}", file=sys.stderr, flush=True)
            self.was_made = True

    def on_end(self, event: Any) -> None:
        """Nothing more to say."""


_events.register("numba:compile", Announcement())
