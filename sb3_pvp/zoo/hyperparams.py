"""Where the default hyperparameters are: ``hyperparams/`` in a checkout, package data in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDERS = (_PACKAGE / "hyperparams", _PACKAGE.parent / "hyperparams")


def hyperparams_path(algo: str) -> Path | None:
    """The yaml file of this rl-zoo3 algorithm name, or ``None`` if this package has no defaults for it."""
    files = (folder / f"{algo}.yml" for folder in _FOLDERS)
    return next((file for file in files if file.is_file()), None)
