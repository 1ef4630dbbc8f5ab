"""What runs on the nodes of a Ray cluster: an actor, and beside the learner the keeper of model files.

Opponents are given by paths on the learner's disk. A node that is not the learner's fetches the files that it needs,
by content: a file of the same name on its own disk may be that of another run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import torch as th
from numpy.typing import NDArray

from sb3_pvp.algorithms.actors.fleet import Actor, Arrays, EnvCall, Layout, Report, RolloutRequest
from sb3_pvp.common.atomic_files import temporary_folder
from sb3_pvp.policies.files import model_files
from sb3_pvp.policies.files.shipped import find_model

VERSION = version("sb3-pvp")
#: Model files that are kept, in the object store and on the disk of an actor.
KEPT_FILES = 64


class Learner(NamedTuple):
    """Where the learner runs."""

    node: str  #: Ray's id of its node.
    folder: str  #: Its working directory.
    version: str = VERSION

    @classmethod
    def here(cls) -> Learner:
        """Returns this process as the learner."""
        import ray

        return cls(ray.get_runtime_context().get_node_id(), os.getcwd())

    def join(self) -> bool:
        """Returns whether this process runs on the learner's node.

        On any node of the learner's machine, it gets its working directory. Raises `ValueError` if it has another
        version of this package.
        """
        import ray

        if self.version != VERSION:
            raise ValueError(
                f"a node of the cluster has sb3_pvp {VERSION}, but the learner {self.version}: install the same "
                "version everywhere"
            )
        here = ray.get_runtime_context().get_node_id()
        addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        if addresses[here] == addresses[self.node]:
            os.chdir(self.folder)  # for relative paths
        return bool(here == self.node)


class ModelFiles:
    """A Ray actor on the learner's node that reads its model files."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._put = lru_cache(KEPT_FILES)(_put)

    def read(self, path: str) -> tuple[str, str, list[Any]]:
        """Returns version and name of a file, and in a list a reference to its bytes; raises `FileNotFoundError`.

        Each node gets the bytes once, however many actors it has.
        """
        file = find_model(path, self._folder)
        status = file.stat()
        version = f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"
        return version, file.name, [self._put(file, version)]


def _put(file: Path, version: str) -> Any:
    import ray

    return ray.put(file.read_bytes())


class FetchedFiles:
    """The model files that an actor on another node has fetched, in a folder that goes away with it."""

    def __init__(self, files: Any) -> None:
        self._files, self._root = files, temporary_folder()
        self._known: dict[str, Path] = {}

    def forget(self) -> None:
        """Looks again at the next use whether a file has changed."""
        self._known.clear()

    def find(self, path: str | Path) -> Path:
        """Returns the local copy of a file, see `sb3_pvp.policies.files.model_files.find_file`."""
        import ray

        wanted = str(path)
        known = self._known.get(wanted)
        if known is None or not known.exists():  # it has made room for others
            try:
                version, name, (content,) = ray.get(self._files.read.remote(wanted))
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            # A folder for each version: a file of the learner may change its content, but not its name.
            known = self._known[wanted] = Path(self._root.name, version, name)
            if not known.exists():
                known.parent.mkdir()
                known.write_bytes(ray.get(content))
                folders = sorted(Path(self._root.name).iterdir(), key=os.path.getmtime)
                for folder in folders[:-KEPT_FILES]:
                    shutil.rmtree(folder)
        return known


class RemoteActor:
    """A `sb3_pvp.algorithms.actors.fleet.Actor` as a Ray actor; ``layout`` is that of a rollout in its rows."""

    def __init__(self, learner: Learner, files: Any, layout: Layout) -> None:
        self._learner, self._files, self._layout = learner, files, layout
        self._fetched: FetchedFiles | None = None

    def make(self, packed: bytes) -> None:
        """Makes the actor from its packed specification."""
        # Not when this object is made: Ray would hide an error there.
        if not self._learner.join():
            self._fetched = FetchedFiles(self._files)
            model_files.find_file = self._fetched.find
        th.set_num_threads(1)
        self._out = {name: np.zeros(shape, dtype) for name, (shape, dtype) in self._layout.items()}
        self._actor = Actor(cloudpickle.loads(packed))

    def call(self, name: str, arguments: tuple[Any, ...], settings: Sequence[EnvCall] | None) -> Any:
        """Calls a method of the actor, after `Actor.begin` if there are settings."""
        self._begin(settings)
        return getattr(self._actor, name)(*arguments)

    def collect(
        self, request: RolloutRequest, weights: NDArray[np.uint8], settings: Sequence[EnvCall] | None
    ) -> tuple[Report, Arrays]:
        """Plays a rollout with these weights, after `Actor.begin` if there are settings."""
        # Ray resolves references only among the arguments themselves, not inside of an object: so weights come apart.
        self._begin(settings)
        request = replace(request, weights=weights)
        report = self._actor.collect(request, self._out)
        self._actor.complete(request, self._out)
        return report, self._out

    def _begin(self, settings: Sequence[EnvCall] | None) -> None:
        if self._fetched:
            self._fetched.forget()
        if settings is not None:
            self._actor.begin(settings)
