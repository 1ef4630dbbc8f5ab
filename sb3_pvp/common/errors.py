"""Errors in one line: refusals that commands report, what pydantic found, the nearest of known names, and values."""

from __future__ import annotations

import difflib
import errno
import inspect
import io
import os
import re
import reprlib
import shlex
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ValidationError

#: Kinds of pydantic's errors.
UNKNOWN_FIELD = ("extra_forbidden", "unexpected_keyword_argument")
_MISSING = ("missing", "missing_argument", "missing_keyword_only_argument")


class Refusal(Exception):
    """Raised when a request is invalid; commands print the message, one line that says what to do, and exit with 2.

    Not a ``ValueError``: rl-zoo3 handles those itself, as a model to download from the hub, or as a sweep's trial with
    diverging hyperparameters.
    """


class MissingExtra(Refusal, ImportError):
    """Raised when a feature needs packages that an extra of this one installs; commands exit with 2."""


@contextmanager
def extra(name: str, who: str) -> Iterator[None]:
    """Turns a failed import of another package into `MissingExtra`: ``who``, such as "sweeps", need the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (lacking := (error.name or "").partition(".")[0]) == "sb3_pvp":
            raise
        raise MissingExtra(f'{who} need {lacking}: pip install "sb3-pvp[{name}]"', name=lacking) from None


class TrainingInterrupted(RuntimeError):
    """Raised when training cannot continue; the message says where the model was saved. Commands exit with 1."""


@contextmanager
def refusals(*others: type[Exception], about: str = "") -> Iterator[None]:
    """Converts errors that a user can cause (`ValueError`, `OSError` and ``others``) to a `Refusal`, which stays.

    With ``about``, the message is ``about`` and the first line of the error: some libraries append long advice.
    """
    refused: tuple[type[Exception], ...] = (ValueError, OSError, *others)
    try:
        yield
    except Refusal:
        raise
    except refused as error:
        text = first_error(error) if isinstance(error, ValidationError) else str(error)
        text = refusal_of(error) if isinstance(error, OSError) else text
        raise Refusal(f"{about}: {(text or type(error).__name__).splitlines()[0]}" if about else text) from error


#: Looks only so deep and so far into a value.
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 80, 80


def shown(value: object) -> str:
    """Returns what somebody else has sent, in at most 60 characters.

    Not by ``repr``: it fails for lists 1,000 deep, and a few lines of YAML that refer to each other take it for ever.
    """
    return _SHORT.repr(value)[:60]


def one_line(error: BaseException) -> str:
    """Returns what an error says, in one line: of pydantic the first one, and of one that says nothing its kind."""
    text = first_error(error) if isinstance(error, ValidationError) else str(error)
    return " ".join(text.split()) or type(error).__name__


def print_in_order() -> None:
    """Lets lines of stdout out at once, so that in a pipe or a file errors come after the output that led to them."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


#: What to do where the machine refuses something, by the number of its error.
_ADVICE = {
    errno.EADDRINUSE: "stop the other program, or choose another port",
    errno.EADDRNOTAVAIL: "choose an address that this machine has",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "choose a place that you may use, or ask who owns it"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room, or choose another place"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "close other programs, or raise the limit with ulimit -n"),
}

_LISTENING = re.compile(r"attempting to bind on address \('(.*?)', (\d+)")


def refusal_of(error: OSError) -> str:
    """Returns in one line what the machine refuses, which is no bug of ours, and what to do if that is known."""
    text = " ".join(str(error).split()) or type(error).__name__
    if (place := _LISTENING.search(text)) is not None:  # asyncio and socket say this each in their own way
        text = f"cannot listen on {place[1]}:{place[2]}: {os.strerror(error.errno or 0)}"
    advice = _ADVICE.get(error.errno or 0)
    return f"{text}: {advice}" if advice else text


@contextmanager
def foreign(about: object) -> Iterator[None]:
    """Turns whatever is raised when content is read that anybody may have written into one `ValueError` ``about`` it.

    What the file system says of a file, such as that there is none, stays as it is.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, FileNotFoundError) or (isinstance(error, OSError) and error.filename is not None):
            raise
        raise ValueError(f"{about}: {one_line(error):.500}") from error


#: In an address, what is between the name of a user and the last @, and a parameter.
_PASSWORD = re.compile(r"(//[^:/@]*:).*(?=@)|([?&](?:ssl)?password=)[^&]*", re.DOTALL)


def without_password(address: str) -> str:
    """Returns the address of a database with *** in place of a password in it."""
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}***", address)


def without_passwords(words: Sequence[str]) -> list[str]:
    """Returns the words of a command line with *** in place of the password in ``--storage``, also if abbreviated."""
    of_storage = [any(each.startswith("--st") for each in pair) for pair in zip(("", *words), words, strict=False)]
    return [without_password(word) if hide else word for word, hide in zip(words, of_storage, strict=True)]


def command_line(*words: object) -> str:
    """Returns a command line of sb3-pvp for any shell, whatever the names of files in it, which are paths."""
    given = (f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word) for word in words)
    return shlex.join(["sb3-pvp", *given])


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


DISTRIBUTION = "sb3-pvp"  #: The name of this package on the registry.
_PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of a group by name: first those of this package, which no other one can replace."""
    try:
        own = {each.name: each for each in distribution(DISTRIBUTION).entry_points if each.group == group}
    except PackageNotFoundError:  # the folder of a checkout is on the path, but it was not installed
        own = {}
    return own | {each.name: each for each in entry_points(group=group)} | own


def is_own(point: EntryPoint) -> bool:
    """Returns whether this package has added it."""
    return point.dist is not None and point.dist.name == DISTRIBUTION


def of_checkout(group: str) -> set[str]:
    """Returns the names of the entry points that a checkout has, none if there is no checkout."""
    try:
        # The metadata of an editable install is as old as the last `pip install`; this is as new as the code.
        project = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["project"]
        return set(project["entry-points"][group]) if project["name"] == DISTRIBUTION else set()
    except (OSError, ValueError, KeyError):  # or this process may not look into it
        return set()


def missing(group: str, name: str) -> str:
    """Returns what to do about an entry point that a checkout has, but not what is installed of it, else ``""``."""
    if name in installed(group) or name not in of_checkout(group):
        return ""
    return (
        f"{name!r} is in the checkout, but not in what is installed of {DISTRIBUTION}: pip install --editable . again"
    )


def first_error(error: ValidationError, top: str = "the top level", skip: int = 0, of: Any = None) -> str:
    """Returns the first error that pydantic found, in one line.

    ``top`` is what to call the validated value itself; ``skip`` leading parts of the location are left out; with
    ``of``, the expected type, the nearest known name follows an unknown one.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    *parents, last = path = first["loc"][skip:] or ("",)
    name, place = _place(path) or top, _place(parents) or top
    if first["type"] in _MISSING:
        return f"{place} lacks {last!r}"
    if first["type"] in UNKNOWN_FIELD:
        return f"{place} has an unknown field {last!r}{did_you_mean(last, _names(of, parents))}"
    return f"{name} {first['msg'].replace('Input should', 'should')}, got {shown(first['input'])}"


def _place(path: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _names(kind: Any, path: Sequence[int | str]) -> set[str]:
    """Returns the field names of the model or dataclass at this path inside the type ``kind``."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    elif is_dataclass(kind):
        fields = get_type_hints(kind)
    else:  # a container consumes one part of the path; pydantic adds a part for some unions, but not for all
        return {name for part in get_args(kind) for rest in (path, path[1:]) for name in _names(part, rest)}
    return _names(fields.get(str(path[0])), path[1:]) if path else {*fields}
