"""Actors in this process, for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.algorithms.actors.fleet import Actor, ActorSpec, Arrays, EnvCall, Layout, Report, RolloutRequest, part_of
from sb3_pvp.algorithms.ppo.resumable import preserved_random_state


class InlineActors:
    """A `Backend` whose actors play when `wait` is called; those in `lost` are lost, and others in their places."""

    settings: Callable[[int], Sequence[EnvCall]]

    def __init__(self, specs: Sequence[ActorSpec], arrays: Layout) -> None:
        with preserved_random_state():  # as in processes of their own
            self.specs, self.actors = specs, [Actor(spec) for spec in specs]
        self.lost: set[int] = set()
        self._arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in arrays.items()}

    def start(self, requests: Sequence[RolloutRequest]) -> None:
        self._requests = requests

    def wait(self) -> tuple[Arrays, Sequence[Report | None]]:
        return self._arrays, [self._report(index) for index in range(len(self.actors))]

    def values(self) -> NDArray[np.float32]:
        return self._arrays["values"]

    def _report(self, index: int) -> Report | None:
        out = part_of(self._arrays, self.specs[index].rows)
        if index not in self.lost:
            with preserved_random_state():
                report = self.actors[index].collect(self._requests[index], out)
                self.actors[index].complete(self._requests[index], out)
            return report
        for array in out.values():
            array[:] = 77  # what is left of another rollout
        self.actors[index] = Actor(self.specs[index])
        self.actors[index].begin(self.settings(index))
        return None

    def call(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        present = arguments.keys() - self.lost
        return {index: getattr(self.actors[index], name)(*arguments[index]) for index in sorted(present)}

    def close(self) -> None:
        for actor in self.actors:
            actor.env.close()
