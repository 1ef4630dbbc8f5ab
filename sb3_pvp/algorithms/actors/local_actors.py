"""Actors in processes of this machine, which write rollouts into shared memory."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any
from weakref import finalize

import cloudpickle
import numpy as np
import torch as th
from numpy.typing import NDArray

from sb3_pvp.algorithms.actors.fleet import Actor, ActorSpec, Arrays, EnvCall, Layout, Report, RolloutRequest, part_of
from sb3_pvp.common.stop_signals import without_hangup
from sb3_pvp.common.waiting import MAX_SILENCE
from sb3_pvp.common.worker_pool import WorkerDied, WorkerPool
from sb3_pvp.game import WorldError

#: An actor hangs when it takes this many times as long as the slowest rollout so far, and at least so many seconds.
PATIENCE, LEAST_PATIENCE = 10.0, 60.0
#: Seconds before the first rollout is over: processes start, and Numba may compile.
FIRST_PATIENCE = 600.0
_ALIGNMENT = 64  # bytes
_OF_ROLLOUTS = ("collect", "complete")  #: Methods of `Actor` for a rollout.
_SHM = Path("/dev/shm")  # where Linux keeps shared memory
#: The actor of this process, if it is a worker, the arrays that it writes, those that it reads, and their memory.
_actor: tuple[Actor, Arrays, Arrays, SharedMemory] | None = None


class LocalActors:
    """A `sb3_pvp.algorithms.actors.fleet.Fleet`: one worker process per actor; one that dies or hangs is replaced.

    Args:
        specs: of the actors.
        arrays: of a rollout in all rows.
        inputs: the arrays of a `RolloutRequest` in all rows.

    Raises:
        ValueError: if shared memory is too small for a rollout.
        WorldError: if an actor is lost twice in a rollout; any other error in an actor is raised by `wait` or `call`.
    """

    def __init__(self, specs: Sequence[ActorSpec], arrays: Layout, inputs: Layout) -> None:
        self.settings: Callable[[int], Sequence[EnvCall]] = lambda index: ()
        self._specs, self._names, both = specs, [*inputs], arrays | inputs
        self._memory = _allocated(both)
        self._arrays = dict(_views(self._memory, both))
        # Packed once: together they take milliseconds, in which actors would wait.
        self._packed = [cloudpickle.dumps((self._memory.name, both, self._names, spec)) for spec in specs]
        self._inputs = {name: self._arrays.pop(name) for name in inputs}
        self._pools = [_new_pool() for _ in specs]
        self._requests: Sequence[RolloutRequest] = ()
        #: By actor and name of its method, what `wait` and `values` still wait for.
        self._running: list[dict[str, Future[Any]]] = []
        self._slowest = self._slowest_call = self._began = 0.0  # seconds
        self._close = finalize(self, _close, self._pools, self._memory)

    def start(self, requests: Sequence[RolloutRequest]) -> None:
        """See `Fleet.start`."""
        self._began = time.monotonic()
        for request, spec in zip(requests, self._specs, strict=True):
            self._inputs["weights"][:] = request.weights
            self._inputs["is_greedy"][:] = request.is_greedy
            self._inputs["uniforms"][:, spec.rows] = request.uniforms
        nothing: Any = dict.fromkeys(self._names, np.zeros(0))  # they are in shared memory
        self._requests = [replace(request, **nothing) for request in requests]
        self._running = [
            {name: self._ask(index, name, each) for name in _OF_ROLLOUTS} for index, each in enumerate(self._requests)
        ]

    def wait(self) -> tuple[Arrays, Sequence[Report | None]]:
        """See `Fleet.wait`."""
        reports = self._answers("collect")
        self._slowest = max(self._slowest, time.monotonic() - self._began)
        return self._arrays, reports

    def values(self) -> NDArray[np.float32]:
        """See `Fleet.values`."""
        self._answers("complete")
        return self._arrays["values"]

    def call(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """See `Fleet.call`."""
        began = time.monotonic()
        futures = {index: self._ask(index, name, *given) for index, given in arguments.items()}
        try:
            answers = {index: _result(future, MAX_SILENCE) for index, future in futures.items()}
        except TimeoutError:
            raise WorldError(f"an actor hangs: it has not answered in {MAX_SILENCE:g} seconds") from None
        self._slowest_call = max(self._slowest_call, time.monotonic() - began)
        return answers

    def close(self) -> None:
        """Ends the processes."""
        self._close()

    def _answers(self, name: str) -> list[Any]:
        # Also the slowest call: an actor in place of a lost one begins like the first reset, which may take long.
        slowest = max(self._slowest, self._slowest_call)
        patience = max(PATIENCE * slowest, LEAST_PATIENCE) if self._slowest else FIRST_PATIENCE
        return [self._answer(index, name, patience) for index in range(len(self._running))]

    def _answer(self, index: int, name: str, patience: float) -> Any:
        for _ in range(2):
            running = self._running[index]
            try:
                answer = _result(running[name], patience)
            except TimeoutError:
                self._pools[index].close()
                self._pools[index] = _new_pool()
                self._running[index] = {each: self._ask(index, each, self._requests[index]) for each in running}
            else:
                del running[name]
                return answer
        raise WorldError(f"actor {index} hangs: it has not played a rollout in {patience:.0f} seconds, twice")

    def _ask(self, index: int, name: str, *arguments: Any) -> Future[Any]:
        return self._pools[index].submit(_answer, self._packed[index], self.settings(index), name, arguments)


def _new_pool() -> WorkerPool:
    return WorkerPool(1, "actors")


def _result(future: Future[Any], timeout: float) -> Any:
    try:
        return future.result(timeout)
    except WorkerDied as error:
        raise WorldError(f"an actor is lost: {error}; see above for its error, if there was one") from error


def _answer(packed: bytes, settings: Sequence[EnvCall], name: str, arguments: tuple[Any, ...]) -> Any:
    """Calls a method of the actor in this worker process; makes it if this is a new process."""
    global _actor  # there is one per process
    if _actor is None:
        memory, layout, inputs, spec = cloudpickle.loads(packed)
        th.set_num_threads(1)
        block = _attached(memory)  # NumPy would not keep it open
        arrays = dict(_views(block, layout))
        given = {each: arrays.pop(each) for each in inputs}
        given["uniforms"] = given["uniforms"][:, spec.rows]
        _actor = Actor(spec), part_of(arrays, spec.rows), given, block
        if name not in ("reset", "set_state"):  # the process before this one has died
            _actor[0].begin(settings)
    actor, out, given, _ = _actor
    if name in _OF_ROLLOUTS:
        request: RolloutRequest = arguments[0]
        arguments = replace(request, **given), out  # type: ignore[arg-type]
    return getattr(actor, name)(*arguments)


def _close(pools: Sequence[WorkerPool], memory: SharedMemory) -> None:
    for pool in pools:
        pool.close()
    memory.unlink()


def _allocated(layout: Layout) -> SharedMemory:
    """Returns a block of shared memory for arrays; raises `ValueError` if there is not enough."""
    size = max(offset + nbytes for _, offset, nbytes in _places(layout))
    free = shutil.disk_usage(_SHM).free if _SHM.is_dir() else size
    if size > free:
        raise ValueError(
            f"a rollout of the actors needs {size >> 20} MB of shared memory, but {_SHM} has {free >> 20} MB left: "
            "make it larger (docker run --shm-size), or use fewer n_steps or n_envs"
        )
    with without_hangup():  # Python's watcher over shared memory ignores the other signals to stop itself
        return SharedMemory(create=True, size=size)


def _attached(name: str) -> SharedMemory:
    """Returns the block of another process, which alone will remove it."""
    memory = SharedMemory(name)
    # Before Python 3.13, which has an argument for it, this process would remove the block as well when it ends.
    resource_tracker.unregister(memory._name, "shared_memory")  # type: ignore[attr-defined]
    return memory


def _views(memory: SharedMemory, layout: Layout) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, offset, _ in _places(layout):
        shape, dtype = layout[name]
        yield name, np.ndarray(shape, dtype, memory.buf, offset)


def _places(layout: Layout) -> Iterator[tuple[str, int, int]]:
    """Yields name, offset and size in bytes of each array."""
    offset = 0
    for name, (shape, dtype) in layout.items():
        size = int(np.prod(shape)) * dtype.itemsize
        yield name, offset, size
        offset += -(-size // _ALIGNMENT) * _ALIGNMENT
