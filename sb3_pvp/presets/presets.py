"""Where the hyperparameters are, and presets by name: ``hyperparams/`` in a checkout, package data in a wheel.

The hyperparameters of an environment may begin with those of other presets (cli-config.md §4)::

    NAME-OF-THE-ENVIRONMENT:
      import: [PastSelfPlay, Core]
      gamma: 0.99

Own values come first, then those of the first preset that has them; values are replaced as a whole. An environment that
is not in a file has those of ``default``, as in rl-zoo3.
"""

from __future__ import annotations

import copy
import importlib
import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium
import yaml

from sb3_pvp.common.names import unknown_name
from sb3_pvp.game import HOME_GAME

#: The algorithm of all presets; the environments in its file are presets of that name.
ALGO = "maskable_ppo"
#: The key whose value names the presets to begin with, and whose hyperparameters an unnamed environment has.
IMPORT, DEFAULT = "import", "default"
#: Dotted names of earlier versions, which stand in users' files, and what is called so today.
RENAMED = {"sb3_pvp.callbacks.ExploiterCallback": "sb3_pvp.exploiters.ExploiterCallback"}

_SUFFIXES = (".yml", ".yaml")
_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDERS = (_PACKAGE / "hyperparams", _PACKAGE.parent / "hyperparams")


@dataclass(frozen=True)
class Preset:
    """Hyperparameters for an environment, with the name that ``--preset`` calls them; in a file of rl-zoo3's format."""

    name: str
    path: Path
    env_id: str

    def hyperparams(self) -> dict[str, Any]:
        """What the file says for the environment, as `hyperparams_in` tells it: a new dict each time."""
        return _resolved(_read(self.path), self.path, self.env_id, (self.name,))


def is_ours(env_id: str) -> bool:
    """Whether this environment was registered by this package."""
    return str(gymnasium.spec(env_id).entry_point).startswith("sb3_pvp.")


def hyperparams_folder() -> Path:
    """The folder with the files of all presets."""
    return next(folder for folder in _FOLDERS if folder.is_dir())


def hyperparams_path(name: str) -> Path | None:
    """The yaml file of this rl-zoo3 algorithm or preset, or ``None`` if this package has no such file."""
    path = hyperparams_folder() / f"{name}.yml"
    return path if path.is_file() else None


def presets() -> dict[str, Preset]:
    """All presets by name: the environments in ``maskable_ppo.yml``, and every other file under its own name."""
    found: dict[str, Preset] = {}
    for path in sorted(hyperparams_folder().glob("*.yml")):
        for env_id in _read(path):
            name = env_id if path.stem == ALGO else path.stem
            found[name] = Preset(name, path, env_id)
    return found


def find_preset(name: str) -> Preset:
    """The preset with this name, or in this yaml file; raises ``ValueError`` with the nearest one if there is none.

    That of a file is for the first environment in it; with nothing but ``default``, for the home game.
    """
    path = Path(name)
    if path.suffix in _SUFFIXES and path.is_file():
        named = [env_id for env_id in _read(path) if env_id != DEFAULT]
        return Preset(path.stem, path, (named or [HOME_GAME])[0])
    known = presets()
    if name not in known:
        raise unknown_name("preset", name, known)
    return known[name]


def hyperparams_in(config: str, env_id: str) -> dict[str, Any]:
    """What ``-conf``, a yaml file or Python with a dict ``hyperparams``, says for an environment: a new dict.

    It has all that it imports. Raises `ValueError` for what is none of that, or has nothing for the environment; and
    for an import of a preset that is unknown, for another environment, or imports itself.
    """
    path = Path(config)
    if path.suffix in _SUFFIXES:
        content = _read(path)
    else:
        try:
            python = runpy.run_path(config) if path.suffix == ".py" else vars(importlib.import_module(config))
            content = _checked(copy.deepcopy(python["hyperparams"]), config)
        except Exception as error:  # whatever a program may raise
            what = f"{type(error).__name__}: {error}"
            raise ValueError(f"-conf takes a yaml file, or a Python module with hyperparams: {what}") from error
    return _resolved(content, config, env_id)


def with_nested(hyperparams: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with what names like ``policy_kwargs.net_arch`` say in its place; `ValueError` if that is no mapping."""
    result = copy.deepcopy(dict(hyperparams))
    for name in [name for name in hyperparams if "." in name]:
        value = result.pop(name)
        *outer, last = name.split(".")
        place = result
        for key in outer:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise ValueError(f"cannot set {name}: {key} is no mapping, but {place!r}")
        place[last] = value
    return result


def renamed(value: Any) -> Any:
    """The same text, list or mapping with today's names in the place of those that are `RENAMED`."""
    if isinstance(value, str):
        for before, now in RENAMED.items():
            value = value.replace(before, now)
    elif isinstance(value, list):
        return [renamed(each) for each in value]
    elif isinstance(value, Mapping):
        return {renamed(key): renamed(each) for key, each in value.items()}
    return value


def _read(path: Path) -> dict[str, Any]:
    return copy.deepcopy(_parsed(path, path.stat().st_mtime_ns))


@lru_cache
def _parsed(path: Path, modified: int) -> dict[str, Any]:
    """What is in a file that was last changed then."""
    try:
        content = yaml.safe_load(renamed(path.read_text("utf-8")))
    except (yaml.YAMLError, ValueError, IsADirectoryError) as error:  # ValueError: no text, or an impossible date
        raise ValueError(f"{path} is not YAML: {error}") from error
    return _checked(content, path)


def _checked(content: Any, source: str | Path) -> dict[str, Any]:
    if not isinstance(content, dict) or not content or not all(isinstance(env_id, str) for env_id in content):
        raise ValueError(f"{source} must map environments to their hyperparameters, such as ENV: {{import: PRESET}}")
    return content


def _resolved(
    content: Mapping[str, Any], source: str | Path, env_id: str, importers: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What stands in a configuration for the environment, with all imports; importers: presets, outermost first."""
    if not {env_id, DEFAULT} & content.keys():
        raise ValueError(f"there are no hyperparameters for {env_id} in {source}")
    own = content.get(env_id, content.get(DEFAULT))
    if not isinstance(own, dict) or not all(isinstance(name, str) for name in own):
        raise ValueError(f"{source}: the hyperparameters for {env_id} must map names to values, got {own!r:.80}")
    names = own.pop(IMPORT, [])
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{IMPORT} must be a preset's name or a list of them, got {names!r}")
    resolved: dict[str, Any] = {}
    for name in reversed(names):
        if name in importers:
            raise ValueError(f"presets import one another: {' -> '.join([*importers, name])}")
        preset = find_preset(name)
        if preset.env_id != env_id:
            raise ValueError(f"hyperparameters for {env_id} cannot import {name}, a preset for {preset.env_id}")
        resolved |= _resolved(_read(preset.path), preset.path, env_id, (*importers, name))
    return resolved | own
