"""The folders that rl-zoo3 leaves of training runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

#: What rl-zoo3 writes into ``<run>/<environment>/``.
CONFIG, ARGUMENTS = "config.yml", "args.yml"
#: How deep runs may lie in a folder that is given, as in ``logs/<algorithm>/<run>``.
_DEPTH = 2


@dataclass(frozen=True)
class Run:
    """One training run."""

    folder: Path  #: Where its files are.
    label: str  #: What was trained how: its own name, or the preset's, or that of algorithm and environment.
    seed: int | None  #: ``None`` if it was trained with a random one.
    hyperparams: str  #: The text of what it was trained with.


def find_runs(sources: Iterable[str]) -> list[Run]:
    """The runs in folders, each given as ``FOLDER`` or ``LABEL=FOLDER``, in their order.

    A folder may be that of a run, or hold some, as ``logs/maskable_ppo`` and ``logs`` do. Raises `ValueError` for a
    folder without any.
    """
    runs: dict[Path, Run] = {}
    for source in sources:
        label, _, folder = source.rpartition("=")
        found = _runs_in(Path(folder))
        if not found:
            raise ValueError(f"{folder} holds no training run: there is no {CONFIG} as rl-zoo3 writes it")
        runs.update({each: _read(each, label) for each in found})
    return list(runs.values())


def _runs_in(folder: Path) -> list[Path]:
    for depth in range(_DEPTH + 1):
        found = {path.parent.parent for path in folder.glob("*/" * (depth + 1) + CONFIG)}
        if found:
            return sorted(found, key=_natural)
    return []


def _natural(folder: Path) -> tuple[str, int]:
    """rl-zoo3 numbers runs: ``Game_10`` comes after ``Game_9``."""
    name, _, number = str(folder).rpartition("_")
    return (name, int(number)) if number.isdigit() else (str(folder), 0)


def _read(folder: Path, label: str) -> Run:
    config = min(folder.glob(f"*/{CONFIG}"))
    path = config.with_name(ARGUMENTS)
    arguments = dict(yaml.load(path.read_text(encoding="utf-8"), _PlainLoader)) if path.is_file() else {}
    seed = arguments.get("seed")
    known_seed = seed if isinstance(seed, int) and seed >= 0 else None
    return Run(folder, label or _label(arguments, folder), known_seed, config.read_text(encoding="utf-8"))


def _label(arguments: dict[str, Any], folder: Path) -> str:
    if not arguments:
        return folder.name
    conf_file = arguments.get("conf_file")
    return Path(conf_file).stem if conf_file else f"{arguments.get('algo')}, {arguments.get('env')}"


class _PlainLoader(yaml.SafeLoader):
    """Reads what rl-zoo3 dumps without constructing Python objects."""


_PlainLoader.add_constructor(
    "tag:yaml.org,2002:python/object/apply:collections.OrderedDict",
    lambda loader, node: loader.construct_sequence(node, deep=True)[0],  # type: ignore[arg-type]
)
