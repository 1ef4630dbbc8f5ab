"""`compiled`, a decorator for loops over arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])
_njit: Any = numba.njit


def compiled(function: Function) -> Function:
    """Compiles a function with Numba, and keeps its machine code on disk.

    Numba notices only changes of the function's own file: what it calls should be there too.
    """
    # NumPy's error model: without it, every division would be compiled with a test that raises ZeroDivisionError.
    return cast(Function, _njit(cache=True, error_model="numpy", nogil=True)(function))
