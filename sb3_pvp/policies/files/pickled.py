"""What is pickled in a zip that is trusted: playing needs little of it, and what only training needs may be missing."""

from __future__ import annotations

import base64
import io
import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sb3_pvp.common.errors import one_line
from sb3_pvp.common.user_modules import importing_here
from sb3_pvp.policies.files.reading import PICKLED, data_of

#: What a policy is made of, in SB3's data: the only pickled parts that a model cannot act without.
PARTS = ("policy_class", "observation_space", "action_space", "policy_kwargs")
_OPTIMIZER = ("optimizer_class", "optimizer_kwargs")  #: Of ``policy_kwargs``, for training alone.


class _Missing:
    """Stands for a class or function that cannot be imported, and for what it would make."""

    def __new__(cls, *args: Any, **kwargs: Any) -> _Missing:
        return object.__new__(cls)

    def __setstate__(self, state: Any) -> None: ...


class _Unpickler(pickle.Unpickler):
    """Goes on where a class cannot be imported, with a `_Missing` in its place."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self.errors: list[str] = []

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except Exception as error:  # the user's module runs, and can raise anything
            self.errors.append(one_line(error))
            return _Missing


def objects_to_play(values: Mapping[str, Any], replaced: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``custom_objects`` for SB3's ``load``: all that is pickled in `ModelFile.values`, and ``replaced``.

    ``None`` stands for what cannot be unpickled, and the default for an optimiser that cannot be imported. Raises
    `ValueError` if that is one of `PARTS`.
    """
    found = dict(replaced)
    for name, value in _pickled(values).items():
        if name not in found:
            found[name], error = _unpickled(value)
            if error and name in PARTS:
                raise ValueError(f"its {name} cannot be read here: {error}")
    return found


@contextmanager
def training_on(file: Any, given: Mapping[str, Any] | None) -> Iterator[None]:
    """While SB3 loads a model to train on, raises one `ValueError` that names what cannot be imported.

    SB3 itself would pass on the error of the first module, or go on without the attribute, with no more than a warning.
    ``file`` is a path or anything else that SB3 loads, ``given`` its ``custom_objects``.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Could not deserialize object")
        try:
            yield
        except (ImportError, UserWarning) as error:
            missing = _missing_of(file, given or ()) or [one_line(error)]
            raise ValueError(
                f"{file} cannot be trained on here, where this cannot be imported: {'; '.join(missing)}. Make it "
                "importable, or replace it with custom_objects; sb3_pvp.load, to play, needs none of it"
            ) from error


def _missing_of(file: Any, given: Any) -> list[str]:
    with importing_here():
        found = {name: _unpickled(each)[1] for name, each in _pickled(data_of(file)).items() if name not in given}
    return [f"{name} ({error})" for name, error in found.items() if error]


def _pickled(values: Mapping[str, Any]) -> dict[str, bytes]:
    found = {name: each[PICKLED] for name, each in values.items() if isinstance(each, dict) and PICKLED in each}
    return {name: base64.b64decode(text) for name, text in found.items()}


def _unpickled(content: bytes) -> tuple[Any, str]:
    """Returns an object, and why it is ``None`` or lacks something that is needed to play."""
    reader = _Unpickler(content)
    try:
        value = reader.load()
    except Exception as error:  # so can what it calls, and what a `_Missing` is used for
        return None, "; ".join(reader.errors) or one_line(error)
    if not reader.errors:
        return value, ""
    if isinstance(value, dict) and any(_lacks(value.get(name)) for name in _OPTIMIZER):
        value = {name: each for name, each in value.items() if name not in _OPTIMIZER}
        if not _lacks(value):
            return value, ""
    return None, "; ".join(reader.errors)


def _lacks(value: Any) -> bool:
    """Whether something in a value could not be imported."""
    if isinstance(value, dict):
        return any(map(_lacks, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_lacks, value))
    return value is _Missing or isinstance(value, _Missing)
