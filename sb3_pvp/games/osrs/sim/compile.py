"""The Numba decorators of the rules, typed, and a compile cache that depends on all files of the package."""

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
    """Compiles a rule of the game for use by other rules and kernels; Python cannot call it.

    It has none of the wrappers for Python and C, and is compiled once per argument types: Numba would compile it again
    for every literal number in a call. Both together halve the time of a cold compile.
    """
    # NumPy's error model: without it, every division would be compiled with a test that raises ZeroDivisionError.
    compiled = _njit(error_model="numpy", nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    resolve = compiled.get_call_template

    def resolve_once(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return resolve(tuple(map(_unliteral, args)), {name: _unliteral(kind) for name, kind in kws.items()})

    compiled.get_call_template = resolve_once
    return cast(Function, compiled)


def callable_rule(compiled: Function) -> Function:
    """Returns the rule with a wrapper, so that a test or a notebook can call it."""
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

    Numba only checks the file of the cached function, but a kernel contains the rules of many other files.
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


# First in the list, since Numba takes the first locator that accepts a function.
_caching.CacheImpl._locator_classes.insert(0, _SourceTreeLocator)


class Announcement(_events.Listener):  # type: ignore[misc]
    """Prints a line, once per process, before a cold compile; worker processes leave that to their parent."""

    _printed = False

    def on_start(self, event: Any) -> None:
        """Prints the line if a kernel is compiled; Numba calls this only on a miss of its cache."""
        # Kernels contain the rules; other functions compile in a moment.
        module = event.data["dispatcher"].py_func.__module__
        is_long = module.startswith(f"{__package__}.") and module.endswith(".kernels")
        if is_long and not self._printed and multiprocessing.parent_process() is None:
            text = "compiling the rules of the fight for this machine, once; this takes about half a minute"
            print(f"sb3_pvp: {text}", file=sys.stderr, flush=True)
            self._printed = True

    def on_end(self, event: Any) -> None:
        """Does nothing; the base class requires it."""


_events.register("numba:compile", Announcement())
