"""Reading contract files: our own format, and the JSON of the original system (contract.md §1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sb3_pvp.contract.errors import ContractError, unknown_name
from sb3_pvp.contract.model import Contract, Head, Kind, Observation, SubAction

FORMAT = "sb3_pvp.contract"
VERSION = 1
_KINDS: dict[str, Kind] = {"int": "int", "float": "float"}
Part = TypeVar("Part")


def read_contract(path: str | Path) -> Contract:
    """The contract in a JSON file, in our format or in that of the original system (named after its file).

    Raises `ContractError`, which names file and field, if the file is missing or holds anything unexpected.
    """
    file = Path(path)
    try:
        data = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=_without_duplicates)
        fields = _Fields(data, "top level")
        return _own_contract(fields) if "format" in fields.values else _wire_contract(fields, file.stem)
    except OSError as error:
        raise ContractError(f"cannot read contract file {file}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise ContractError(f"contract file {file} is not JSON: {error}") from error
    except (ContractError, UnicodeDecodeError) as error:
        raise ContractError(f"contract file {file}: {error}") from error


class _Fields:
    """A JSON object of which every field must be asked for, and no other may be there."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            raise ContractError(f"{where} must be an object, not {data!r:.60}")
        self.values: dict[str, Any] = data
        self.where = where

    def allow(self, *names: str) -> None:
        for name in self.values:
            if name not in names:
                raise ContractError(f"{self.where}: {unknown_name('field', name, names)}")

    def text(self, name: str) -> str:
        return self._typed(name, str, "a text")

    def flag(self, name: str) -> bool:
        return self._typed(name, bool, "true or false", default=False)

    def texts(self, name: str) -> tuple[str, ...]:
        items = self._typed(name, list, "a list of texts", default=[])
        if not all(isinstance(item, str) for item in items):
            raise ContractError(f"{self.where}: field {name!r} must be a list of texts")
        return tuple(items)

    def parts(self, name: str, read: Callable[[_Fields], Part]) -> tuple[Part, ...]:
        items = self._typed(name, list, "a list")
        return tuple(read(_Fields(item, self._label(name, position, item))) for position, item in enumerate(items))

    def _label(self, name: str, position: int, item: object) -> str:
        identity = f" ({item['id']})" if isinstance(item, dict) and "id" in item else ""
        prefix = "" if self.where == "top level" else f"{self.where}, "
        return f"{prefix}{name}[{position}]{identity}"

    def _typed(self, name: str, kind: type[Part], words: str, default: Part | None = None) -> Part:
        value = self.values.get(name, default)
        if name not in self.values and default is None:
            raise ContractError(f"{self.where}: field {name!r} is missing")
        if not isinstance(value, kind):
            raise ContractError(f"{self.where}: field {name!r} must be {words}, not {value!r:.60}")
        return value


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ContractError(f"a field is written twice among {', '.join(name for name, _ in pairs)}")
    return fields


def _own_contract(fields: _Fields) -> Contract:
    fields.allow("format", "version", "name", "heads", "observations")
    if (fields.values["format"], fields.values.get("version")) != (FORMAT, VERSION):
        raise ContractError(f"top level: only format {FORMAT!r}, version {VERSION} can be read")
    heads, observations = fields.parts("heads", _own_head), fields.parts("observations", _own_observation)
    return Contract(fields.text("name"), heads, observations)


def _own_head(fields: _Fields) -> Head:
    fields.allow("id", "about", "choices")
    return Head(fields.text("id"), fields.text("about"), fields.parts("choices", _own_sub_action))


def _own_sub_action(fields: _Fields) -> SubAction:
    fields.allow("id", "about", "all", "any", "none")
    rules = (fields.texts(name) for name in ("all", "any", "none"))
    return SubAction(fields.text("id"), fields.text("about"), *rules)


def _own_observation(fields: _Fields) -> Observation:
    fields.allow("id", "about", "kind", "flags")
    flags, kind = fields.texts("flags"), fields.text("kind")
    for flag in flags:
        if flag not in ("partial", "constant"):
            raise ContractError(f"{fields.where}: {unknown_name('flag', flag, ('partial', 'constant'))}")
    if kind not in _KINDS:
        raise ContractError(f"{fields.where}: {unknown_name('kind', kind, _KINDS)}")
    return Observation(fields.text("id"), fields.text("about"), "partial" in flags, "constant" in flags, _KINDS[kind])


def _wire_contract(fields: _Fields, name: str) -> Contract:
    fields.allow("actions", "observations")
    return Contract(name, fields.parts("actions", _wire_head), fields.parts("observations", _wire_observation))


def _wire_head(fields: _Fields) -> Head:
    fields.allow("id", "description", "actions")
    return Head(fields.text("id"), fields.text("description"), fields.parts("actions", _wire_sub_action))


def _wire_sub_action(fields: _Fields) -> SubAction:
    fields.allow("id", "description", "dependencies")
    rules = _Fields(fields.values.get("dependencies", {}), f"{fields.where}, dependencies")
    rules.allow("require_all", "require_any", "require_none")
    lists = (rules.texts(name) for name in ("require_all", "require_any", "require_none"))
    return SubAction(fields.text("id"), fields.text("description"), *lists)


def _wire_observation(fields: _Fields) -> Observation:
    fields.allow("id", "description", "partial", "constant")
    texts = fields.text("id"), fields.text("description")
    return Observation(*texts, fields.flag("partial"), fields.flag("constant"))
