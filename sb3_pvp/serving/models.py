"""The fighters of a server: those of a folder, which is watched while the server runs, and the scripts of a game."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from sb3_pvp.common.names import did_you_mean
from sb3_pvp.players.opponents import MODEL_SUFFIXES
from sb3_pvp.policies.files.shipped import shipped_names
from sb3_pvp.serving.fighters import FighterSource, ModelFighter, ModelSource, script_sources
from sb3_pvp.serving.protocol import ServedFighter

logger = logging.getLogger(__name__)

#: Inode, time of the last change and size: one of them differs in any new version of a file.
_Version = tuple[int, int, int]


class ModelFolder:
    """The model files of a folder, or a single one, and the scripts of a game by name; see `refresh`.

    Raises `FileNotFoundError` if there is no such folder or file, and `ValueError` for an unknown game.
    """

    def __init__(self, folder: Path, game: str, backend: str, device: str) -> None:
        if not folder.exists():
            hint = did_you_mean(folder, shipped_names())
            raise FileNotFoundError(
                f"there is no folder {folder}{hint}: pass --models FOLDER, with zip or fighter files in it"
            )
        self._folder, self._template = folder, ModelSource(folder, backend, device)
        #: The scripted fighters; a model hides a script of the same name.
        self.scripts = {name: self._serve(name, source) for name, source in script_sources(game).items()}
        self.errors: dict[str, str] = {}  #: Why the present version of a file cannot be served, by file name.
        self._models: dict[str, ServedFighter] = {}
        self._versions: dict[Path, _Version] = {}
        self._copies = TemporaryDirectory(prefix="sb3-pvp-serve-", ignore_cleanup_errors=True)
        self._numbers = count()
        self._retired: list[Path] = []

    def refresh(self) -> dict[str, ServedFighter] | None:
        """Looks for new, changed and removed files; returns all fighters by name, ``None`` if nothing has changed.

        May run in another thread. A file that cannot be loaded is logged once, and its old version stays. Files are
        loaded from copies, because a file may be replaced at any moment.
        """
        found = self._find()
        changed = {path: version for path, version in found.items() if self._versions.get(path) != version}
        gone = self._models.keys() - {path.stem for path in found}
        self._versions = found
        for path in self._retired:  # at least one interval ago; no worker opens them any more
            path.unlink(missing_ok=True)
        self._retired = []
        for name in gone:
            logger.info("%s: removed", name)
            self._retire(self._models.pop(name))
        self.errors = {name: text for name, text in self.errors.items() if name in {path.name for path in found}}
        has_new = [self._load(path) for path in changed]
        return self.scripts | self._models if gone or any(has_new) else None

    def close(self) -> None:
        """Deletes the copies."""
        self._copies.cleanup()

    def _find(self) -> dict[Path, _Version]:
        """Returns the model files with their versions."""
        found: dict[str, tuple[Path, _Version]] = {}
        try:
            # Of two files with the same name, the fighter file is served.
            listed = [self._folder] if self._folder.is_file() else self._folder.iterdir()
            paths = sorted(listed, key=lambda path: (path.suffix, path.name))
        except OSError as error:  # such as a network drive that is away for a moment
            logger.warning("%s cannot be read, so all models stay: %s", self._folder, error)
            return self._versions
        for path in paths:
            # Hidden files are those that are still being written.
            is_model = path.suffix in MODEL_SUFFIXES and not path.name.startswith(".")
            if is_model and path.stem not in found and path.is_file():
                status = path.stat()
                found[path.stem] = path, (status.st_ino, status.st_mtime_ns, status.st_size)
        return dict(found.values())

    def _load(self, path: Path) -> bool:
        """Loads one file; returns whether it can be served."""
        copy = Path(self._copies.name) / str(next(self._numbers)) / path.name
        copy.parent.mkdir()
        try:
            shutil.copyfile(path, copy)
            made = self._serve(path.stem, replace(self._template, path=copy))
        except Exception as error:  # whatever is in a file, the server continues
            copy.unlink(missing_ok=True)
            text = " ".join(str(error).replace(str(copy), str(path)).split()) or type(error).__name__
            self.errors[path.name] = text
            stays = ", so its old version stays" if path.stem in self._models else ""
            logger.warning("%s cannot be served%s: %s", path.name, stays, text)
            return False
        self.errors.pop(path.name, None)
        if path.stem in self._models:
            self._retire(self._models[path.stem])
        self._models[path.stem] = made
        form = made.form
        logger.info("%s: serving %s (%d x %d features)", path.stem, path.name, form.num_frames, form.num_features)
        return True

    def _serve(self, name: str, source: FighterSource) -> ServedFighter:
        fighter = source.open()
        if isinstance(source, ModelSource) and isinstance(fighter, ModelFighter):
            source = replace(source, backend=fighter.backend_name)  # all workers take the one that was measured here
        return ServedFighter(name, source, fighter)

    def _retire(self, old: ServedFighter) -> None:
        if isinstance(old.source, ModelSource):
            self._retired.append(old.source.path)
