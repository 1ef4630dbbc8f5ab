"""Hyperparameter files and presets: in ``hyperparams/`` of a checkout, package data in a wheel.

The hyperparameters of an environment can import those of presets (cli-config.md §4)::

    NAME-OF-THE-ENVIRONMENT:
      import: [PastSelfPlay, Core]
      gamma: 0.99

Values in the file take precedence, then those of the first preset in the list; values are replaced as a whole, not
merged. An environment that is not in a file has the hyperparameters of ``default``, as in rl-zoo3. ``algo`` names the
algorithm of a preset in a file of its own; it is no hyperparameter, and is not imported.
"""

from __future__ import annotations

import copy
import importlib
import re
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium

from sb3_pvp.common.errors import installed, require_known, unknown_name
from sb3_pvp.common.plain_yaml import read_yaml
from sb3_pvp.former import CALLBACKS, RETIRED_CALLBACKS
from sb3_pvp.game import HOME_GAME
from sb3_pvp.policies.files.shipped import data_folders

#: The algorithm of all presets but those in the files of `OTHER_ALGOS`. Each environment in the file of an algorithm is
#: a preset: with the environment's name here, and with the algorithm's name before it there.
ALGO = "maskable_ppo"
OTHER_ALGOS = ("mapoca",)
#: Algorithms of rl-zoo3 whose models are no players here.
STOCK_ALGOS = ("ars", "crossq", "ddpg", "ppo_lstm", "sac", "td3", "tqc", "trpo")
OURS = " and ".join((ALGO, *OTHER_ALGOS))  #: In words.
#: Special keys: the presets to import, the algorithm, and the hyperparameters of environments that are not in the file.
IMPORT, NAMED_ALGO, DEFAULT = "import", "algo", "default"
ALGORITHMS = "sb3_pvp.algorithms"  #: Entry-point group of algorithms.

_SUFFIXES = (".yml", ".yaml")
_MAX_IMPORTERS = 20  #: Of presets that import one another: a file has any number of names.
_FOLDERS = data_folders("hyperparams")


@dataclass(frozen=True)
class Preset:
    """A preset: hyperparameters for an environment, in a file of rl-zoo3's format, with the name for ``--preset``."""

    name: str
    path: Path
    env_id: str

    @property
    def algo(self) -> str:
        """The name of its algorithm; raises `ValueError` if its file names an unknown one."""
        block = _read(self.path).get(self.env_id)
        if isinstance(block, dict) and NAMED_ALGO in block:
            from sb3_pvp.policies.files.registry import algorithm_names  # needs torch, which lists of presets do not

            require_known("algorithm", block[NAMED_ALGO], {ALGO, *OTHER_ALGOS, *STOCK_ALGOS, *algorithm_names()})
            return str(block[NAMED_ALGO])
        return self.path.stem if self.path.stem in OTHER_ALGOS else ALGO

    def hyperparams(self) -> dict[str, Any]:
        """Returns the hyperparameters with all imports, see `hyperparams_in`; a new dict each time."""
        return _resolve_imports(_read(self.path), self.path, self.env_id, (self.name,))


def is_ours(env_id: str) -> bool:
    """Returns whether the environment is a game of ours, or of a user, in which two fight."""
    return str(gymnasium.spec(env_id).entry_point).startswith("sb3_pvp.envs")


def hyperparams_folder() -> Path:
    """Returns the folder with the files of all presets."""
    return next(folder for folder in _FOLDERS if folder.is_dir())


def hyperparams_path(name: str) -> Path | None:
    """Returns the YAML file of an rl-zoo3 algorithm or a preset, or ``None`` if this package has none."""
    path = hyperparams_folder() / f"{name}.yml"
    return path if path.is_file() else None


def presets() -> dict[str, Preset]:
    """Returns all presets by name: the environments in the files of algorithms, and each other file by its name."""
    return {each.name: each for path in sorted(hyperparams_folder().glob("*.yml")) for each in _presets_in(path)}


def _presets_in(path: Path) -> Iterator[Preset]:
    if path.stem in installed(ALGORITHMS).keys() - {ALGO, *OTHER_ALGOS}:  # the defaults of another algorithm
        return
    is_other = path.stem in OTHER_ALGOS
    for env_id in _read(path):
        if is_other and env_id == DEFAULT:
            continue  # for any game
        name = f"{path.stem}-{env_id}" if is_other else env_id if path.stem == ALGO else path.stem
        yield Preset(name, path, env_id)


def find_preset(name: str) -> Preset:
    """Returns the preset with this name, or in this YAML file; `ValueError` with the nearest name for another name.

    The preset in a file is for the first environment in it, or for `HOME_GAME` if the file only has ``default``.
    """
    path = Path(name)
    if path.suffix in _SUFFIXES and path.is_file():
        named = [env_id for env_id in _read(path) if env_id != DEFAULT]
        return Preset(path.stem, path, (named or [HOME_GAME])[0])
    for likely in filter(None, (hyperparams_path(name), hyperparams_path(ALGO))):  # usually no other has to be read
        if found := next((each for each in _presets_in(likely) if each.name == name), None):
            return found
    if name not in (known := presets()):
        raise unknown_name("preset", name, known)
    return known[name]


def hyperparams_in(config: str, env_id: str, group: str = DEFAULT) -> dict[str, Any]:
    """Returns an environment's hyperparameters in a configuration, with all imports; a new dict.

    ``config`` is the value of ``-conf``: a YAML file, or a Python file or module with a dict ``hyperparams``; ``group``
    is the key of those for all environments like this one, such as rl-zoo3's ``atari``, that are not named. Raises
    `ValueError` for anything else or a missing environment, and for an imported preset that is unknown, for another
    environment, or imports itself.
    """
    path = Path(config)
    if path.suffix in _SUFFIXES:
        content = _read(path)
    else:
        try:
            python = runpy.run_path(config) if path.suffix == ".py" else vars(importlib.import_module(config))
            content = _check_content(copy.deepcopy(python["hyperparams"]), config)  # Python keeps the module
        except Exception as error:  # the user's module may raise anything
            what = f"{type(error).__name__}: {error}"
            raise ValueError(f"-conf takes a yaml file, or a Python module with hyperparams: {what}") from error
    return _resolve_imports({env_id: content[group], **content} if group in content else content, config, env_id)


def with_nested(hyperparams: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy with keys like ``policy_kwargs.net_arch`` nested; `ValueError` where there is no mapping."""
    result = copy.deepcopy(dict(hyperparams))
    for name in [name for name in hyperparams if "." in name]:
        value = result.pop(name)
        *outer, last = name.split(".")
        mapping = result
        for key in outer:
            mapping = mapping.setdefault(key, {})
            if not isinstance(mapping, dict):
                raise ValueError(f"cannot set {name}: {key} is not a mapping, but {mapping!r}")
        mapping[last] = value
    return result


def with_current_names(value: Any) -> Any:
    """Returns the text, list or mapping with current names in place of former ones, without retired callbacks."""
    if isinstance(value, str):
        for before, now in CALLBACKS.items():
            value = value.replace(before, now)
        for name in RETIRED_CALLBACKS:
            value = re.sub(rf"^ *- {re.escape(name)}\n", "", value, flags=re.MULTILINE)
    elif isinstance(value, list):
        return [with_current_names(each) for each in value if each not in RETIRED_CALLBACKS]
    elif isinstance(value, Mapping):
        return {with_current_names(key): with_current_names(each) for key, each in value.items()}
    return value


def _read(path: Path) -> dict[str, Any]:
    # A copy, because `_resolve_imports` removes keys and callers may change the rest.
    return copy.deepcopy(_parse(path, path.stat().st_mtime_ns))


@lru_cache
def _parse(path: Path, modified: int) -> dict[str, Any]:
    """Parses a file; the time of its last change is part of the cache's key."""
    try:
        content = with_current_names(read_yaml(path))
    except ValueError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    return _check_content(content, path)


def _check_content(content: Any, source: str | Path) -> dict[str, Any]:
    """Returns the content of a configuration; `ValueError` unless it maps names of environments to something."""
    if not isinstance(content, dict) or not content or not all(isinstance(env_id, str) for env_id in content):
        raise ValueError(f"{source} must map environments to their hyperparameters, such as ENV: {{import: PRESET}}")
    return content


def _resolve_imports(
    content: Mapping[str, Any],
    source: str | Path,
    env_id: str,
    importers: tuple[str, ...] = (),
    resolved: dict[Path, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Returns an environment's hyperparameters with all imports; ``importers``: presets so far, outermost first.

    ``resolved``: what has been imported so far, so that files that each import the next one twice are read once.
    """
    if not {env_id, DEFAULT} & content.keys():
        raise ValueError(f"there are no hyperparameters for {env_id} in {source}")
    own = content.get(env_id, content.get(DEFAULT))
    if not isinstance(own, dict) or not all(isinstance(name, str) for name in own):
        raise ValueError(f"{source}: the hyperparameters for {env_id} must map names to values, got {own!r:.80}")
    own.pop(NAMED_ALGO, None)
    names = own.pop(IMPORT, [])
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{IMPORT} must be a preset's name or a list of them, got {names!r:.80}")
    imported: dict[str, Any] = {}
    resolved = {} if resolved is None else resolved
    for name in reversed(dict.fromkeys(names)):  # the first in the list has precedence: its values come last
        if name in importers or len(importers) > _MAX_IMPORTERS:
            raise ValueError(f"presets import one another: {' -> '.join([*importers[:5], name])}")
        preset = find_preset(name)
        if preset.env_id != env_id:
            raise ValueError(f"hyperparameters for {env_id} cannot import {name}, a preset for {preset.env_id}")
        if (file := preset.path.resolve()) not in resolved:
            inner = _read(preset.path), preset.path, env_id, (*importers, name), resolved
            resolved[file] = _resolve_imports(*inner)
        imported |= resolved[file]
    return imported | own
