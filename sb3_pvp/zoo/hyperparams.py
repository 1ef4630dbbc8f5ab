"""Where the hyperparameters are, and presets by name: ``hyperparams/`` in a checkout, package data in a wheel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sb3_pvp.contract.errors import unknown_name

#: The algorithm of all presets; the environments in its file are presets of that name.
ALGO = "maskable_ppo"

_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDERS = (_PACKAGE / "hyperparams", _PACKAGE.parent / "hyperparams")


@dataclass(frozen=True)
class Preset:
    """Hyperparameters with a name.

    Attributes:
        name: what ``--preset`` calls it.
        path: its file, in rl-zoo3's format.
        env_id: the environment that it is for.
    """

    name: str
    path: Path
    env_id: str

    def hyperparams(self) -> dict[str, Any]:
        """What the file says for the environment: a new dict each time."""
        content: dict[str, dict[str, Any]] = yaml.safe_load(self.path.read_text())
        return content[self.env_id]


def hyperparams_path(name: str) -> Path | None:
    """The yaml file of this rl-zoo3 algorithm or preset, or ``None`` if this package has no such file."""
    files = (folder / f"{name}.yml" for folder in _FOLDERS)
    return next((file for file in files if file.is_file()), None)


def presets() -> dict[str, Preset]:
    """All presets by name: the environments in ``maskable_ppo.yml``, and every other file under its own name."""
    folder = next(folder for folder in _FOLDERS if folder.is_dir())
    found: dict[str, Preset] = {}
    for path in sorted(folder.glob("*.yml")):
        for env_id in yaml.safe_load(path.read_text()):
            name = env_id if path.stem == ALGO else path.stem
            found[name] = Preset(name, path, env_id)
    return found


def find_preset(name: str) -> Preset:
    """The preset with this name, or in this yaml file; raises ``ValueError`` with the nearest one if there is none."""
    path = Path(name)
    if path.suffix == ".yml" and path.is_file():
        return Preset(path.stem, path, next(iter(yaml.safe_load(path.read_text()))))
    known = presets()
    if name not in known:
        raise unknown_name("preset", name, known)
    return known[name]
