"""`compiled`, `compiled_inline` and `compiled_with_arrays`, decorators for loops over arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.options import DefaultOptions

Function = TypeVar("Function", bound=Callable[..., Any])
_njit: Any = numba.njit
# Numba counts references to arrays, at every call, with instructions that wait for the other cores: in a function of a
# few lines that takes longer than all the rest. The option has no public name, so a version may lack it.
_UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}


def compiled(function: Function) -> Function:
    """Compiles a function that works on arrays in place with Numba, and keeps its machine code on disk.

    It cannot make or return arrays, nor can what it calls: see `compiled_with_arrays`. Numba notices only changes of
    the function's own file: what it calls should be there too.
    """
    return _compiled(function, _UNCOUNTED)


def compiled_inline(function: Function) -> Function:
    """Compiles a function as `compiled` does, into all that call it: to pass many arrays takes longer than a rule."""
    return _compiled(function, _UNCOUNTED | {"forceinline": True})


def compiled_with_arrays(function: Function) -> Function:
    """Compiles a function that makes or returns arrays, or calls one that does; calls of it cost more."""
    return _compiled(function, {})


def _compiled(function: Function, options: dict[str, bool]) -> Function:
    # NumPy's error model: without it, every division would be compiled with a test that raises ZeroDivisionError.
    return cast(Function, _njit(cache=True, error_model="numpy", nogil=True, **options)(function))
