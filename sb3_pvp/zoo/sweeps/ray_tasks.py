"""`RayTasks`: generators, such as the trials of a sweep, as tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sb3_pvp.algorithms.actors.cluster import CPUS_PER_ACTOR, connect
from sb3_pvp.algorithms.actors.remote_actor import Learner
from sb3_pvp.common.worker_pool import WorkerDied

#: A task whose process or machine is lost is begun anew; at most so often per task, all of them together.
MAX_REPEATS = 3


class RayTasks:
    """Runs generators in a cluster, as `sb3_pvp.common.worker_pool.WorkerPool.stream` does on this machine.

    ``num_cpus`` are reserved for each of them. Raises `ValueError` if Ray is not installed.
    """

    def __init__(self, num_cpus: float = CPUS_PER_ACTOR) -> None:
        self._ray, self._num_cpus, self._running = connect(), num_cpus, list[Any]()

    def num_machines(self) -> int:
        """Returns how many machines the cluster has; nodes with the same address share a disk."""
        return len({node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]})

    def stream(self, function: Callable[..., Iterable[Any]], parts: Iterable[Sequence[Any]]) -> Iterator[Any]:
        """Yields what ``function(*part)`` yields for all parts at the same time, as it comes.

        Raises what a generator raises, and `WorkerDied` if tasks are lost again and again.
        """
        ray = self._ray
        options = {"num_cpus": self._num_cpus, "num_returns": "streaming", "max_retries": 0}
        task = ray.remote(scheduling_strategy="SPREAD", **options)(_run)
        given = {(generator := task.remote(Learner.here(), function, part)): part for part in parts}
        self._running, repeats = [*given], MAX_REPEATS * len(given)
        while self._running:
            (generator, *_), _ = ray.wait(self._running, num_returns=1)
            self._running.remove(generator)
            try:
                yield ray.get(next(generator))
            except StopIteration:
                continue
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except ray.exceptions.RayError as error:
                repeats -= 1
                if repeats < 0:
                    raise WorkerDied("tasks of the Ray cluster have died again and again") from error
                part = given.pop(generator)
                generator = task.remote(Learner.here(), function, part)
                given[generator] = part
            self._running.append(generator)

    def close(self) -> None:
        """Ends the tasks that still run."""
        for generator in self._running:
            self._ray.cancel(generator, force=True)


def _run(learner: Learner, function: Callable[..., Iterable[Any]], part: Sequence[Any]) -> Iterator[Any]:
    learner.join()
    yield from function(*part)
