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
import numba.core.codegen
import numba.core.compiler
import numba.core.event
import numba.core.types

Function = TypeVar("Function", bound=Callable[..., Any])
# Plain `Any`: Numba's types do not know the options and internals that are used here.
_njit: Any = numba.njit
_caching: Any = numba.core.caching
_codegen: Any = numba.core.codegen
_compiler: Any = numba.core.compiler
_events: Any = numba.core.event
_unliteral: Any = numba.core.types.unliteral
_PACKAGE = Path(__file__).resolve().parent


class _RuleCode(_codegen.JITCodeLibrary):  # type: ignore[misc]
    """The code of a rule and of all that it calls, as written: kernels optimize it as a whole, nothing else runs it."""

    class _Nowhere:
        def set_env(self, name: str, env: Any) -> None:
            """Does nothing: code that is not loaded has no place for objects of Python, and rules need none."""

    @property
    def codegen(self) -> _Nowhere:
        return self._Nowhere()

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _KernelCode(_codegen.JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel and its rules, made simple before loops are looked at: else it plays 7 % slower."""

    def _optimize_final_module(self) -> None:
        simple = {"opt": 1, "loop_vectorize": False, "slp_vectorize": False, "cost": "cheap"}
        for options in (simple, {}):
            manager, builder = self._codegen._module_pass_manager(**options)
            manager.run(self._final_module, builder)


def _into(code: Any) -> dict[str, Any]:
    class Compiler(_compiler.Compiler):  # type: ignore[misc]
        def _compile_bytecode(self) -> Any:
            self.state.library = code(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
            return super()._compile_bytecode()

    return {"pipeline_class": Compiler} if IS_KNOWN_NUMBA else {}


#: Whether Numba's internals are those that `_RuleCode` is for: with others, every rule gets machine code of its own,
#: which nothing runs, and a cold compile takes a third longer.
IS_KNOWN_NUMBA = (0, 62) <= numba.version_info[:2] < (0, 69)
# NumPy's error model: without it, every division would be compiled with a test that raises ZeroDivisionError.
_PLAIN = {"error_model": "numpy", "nogil": True}
_RULE = _PLAIN | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True} | _into(_RuleCode)
_KERNEL = _PLAIN | {"cache": True} | _into(_KernelCode)


def rule(function: Function) -> Function:
    """Compiles a rule of the game for use by other rules and kernels; Python cannot call it.

    It has none of the wrappers for Python and C, and is compiled once per argument types: Numba would compile it again
    for every literal number in a call. Both together halve the time of a cold compile.
    """
    compiled = _njit(**_RULE)(function)
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
    return cast(Function, _njit(**_KERNEL)(function))


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
