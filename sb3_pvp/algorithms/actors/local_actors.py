"""Actors in processes of this machine, which write rollouts into shared memory."""

from __future__ import annotations

import math
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any
from weakref import finalize

import cloudpickle
import numpy as np
import torch as th
from numpy.typing import NDArray

from sb3_pvp.algorithms.actors.fleet import (
    Actor,
    ActorSpec,
    Arrays,
    EnvCall,
    Layout,
    Patience,
    Report,
    RolloutRequest,
    part_of,
)
from sb3_pvp.common.atomic_files import own_prefix, sweep
from sb3_pvp.common.processes import MAX_SILENCE
from sb3_pvp.common.stop_signals import without_hangup
from sb3_pvp.common.user_modules import safe_path
from sb3_pvp.common.worker_pool import WorkerDied, WorkerPool
from sb3_pvp.game import WorldError

_ALIGNMENT = 64  # bytes
_SHM = Path("/dev/shm")  # where Linux keeps shared memory
#: The actor of this process, if it is a worker, the arrays that it writes, and their memory.
_actor: tuple[Actor, Arrays, SharedMemory] | None = None


class LocalActors:
    """A `sb3_pvp.algorithms.actors.fleet.Fleet`: one worker process per actor; one that dies or hangs is replaced.

    Args:
        specs: of the actors.
        arrays: of a rollout in all rows.

    Raises:
        ValueError: if shared memory is too small for a rollout.
        WorldError: if an actor is lost twice in a rollout; any other error in an actor is raised by `wait` or `call`.
    """

    def __init__(self, specs: Sequence[ActorSpec], arrays: Layout) -> None:
        self.settings: Callable[[int], Sequence[EnvCall]] = lambda index: ()
        self._memory = _allocated(arrays)
        self._arrays = dict(_views(self._memory, arrays))
        # Packed once: together they take milliseconds, in which actors would wait.
        self._packed = [cloudpickle.dumps((self._memory.name, arrays, spec)) for spec in specs]
        self._pools = [WorkerPool(1, "actors") for _ in specs]
        #: What `wait` and `values` still wait for.
        self._collecting: list[Future[Any]] = []
        self._completing: list[Future[Any]] = []
        self._patience, self._began = Patience(), 0.0
        self._close = finalize(self, _close, self._pools, self._memory)

    def start(self, requests: Sequence[RolloutRequest]) -> None:
        """See `Fleet.start`."""
        self._began = time.monotonic()
        self._collecting = [self._ask(index, "collect", request) for index, request in enumerate(requests)]
        # Not as one job: an actor goes on with the values while the learner goes through its steps.
        self._completing = [self._ask(index, "complete", request) for index, request in enumerate(requests)]

    def wait(self) -> tuple[Arrays, Sequence[Report | None]]:
        """See `Fleet.wait`."""
        reports = [self._result(*each) for each in enumerate(self._collecting)]
        self._patience.rollout = max(self._patience.rollout, time.monotonic() - self._began)
        return self._arrays, reports

    def values(self) -> NDArray[np.float32]:
        """See `Fleet.values`."""
        for each in enumerate(self._completing):
            self._result(*each)
        return self._arrays["values"]

    def call(self, name: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """See `Fleet.call`."""
        began = time.monotonic()
        asked = {index: self._ask(index, name, *given) for index, given in arguments.items()}
        answers = {index: self._result(index, future, MAX_SILENCE) for index, future in asked.items()}
        self._patience.call = max(self._patience.call, time.monotonic() - began)
        return answers

    def close(self) -> None:
        """Ends the processes."""
        self._close()

    def _result(self, index: int, future: Future[Any], patience: float | None = None) -> Any:
        seconds = self._patience.seconds() if patience is None else patience
        try:
            return self._pools[index].result(future, seconds)
        except WorkerDied as error:
            text = f"actor {index} is lost, or hangs for {seconds:.0f} seconds: {error}"
            raise WorldError(f"{text}; see above for its error, if there was one") from error

    def _ask(self, index: int, name: str, *arguments: Any) -> Future[Any]:
        return self._pools[index].submit(_answer, self._packed[index], self.settings(index), name, arguments)


def _answer(packed: bytes, settings: Sequence[EnvCall], name: str, arguments: tuple[Any, ...]) -> Any:
    """Calls a method of the actor in this worker process; makes it if this is a new process."""
    global _actor  # there is one per process
    if _actor is None:
        memory, layout, spec = cloudpickle.loads(packed)
        th.set_num_threads(1)
        block = _attached(memory)  # NumPy would not keep it open
        _actor = Actor(spec), part_of(dict(_views(block, layout)), spec.rows), block
        # Otherwise the process before this one has died: what it had played is lost, so episodes begin anew.
        if name not in ("reset", "set_state"):
            _actor[0].begin(settings)
    # Results are in the shared arrays already: only a report travels back.
    actor, out, _ = _actor
    return getattr(actor, name)(*arguments, *([out] if name in ("collect", "complete") else []))


def _close(pools: Sequence[WorkerPool], memory: SharedMemory) -> None:
    for pool in pools:
        pool.close()
    memory.unlink()


def _allocated(layout: Layout) -> SharedMemory:
    """Returns a block of shared memory for arrays; raises `ValueError` if there is not enough."""
    sweep(_SHM)
    size = sum(_padded(*each) for each in layout.values())
    free = shutil.disk_usage(_SHM).free if _SHM.is_dir() else size
    if size > free:
        raise ValueError(
            f"a rollout of the actors needs {size >> 20} MB of shared memory, but {_SHM} has {free >> 20} MB left: "
            "make it larger (docker run --shm-size), or use fewer n_steps or n_envs"
        )
    with safe_path(), without_hangup():  # Python's watcher over shared memory ignores the other signals to stop itself
        return SharedMemory(f"{own_prefix()}{secrets.token_hex(2)}", create=True, size=size)


def _attached(name: str) -> SharedMemory:
    """Returns the block of another process, which alone will remove it."""
    memory = SharedMemory(name)
    # Before Python 3.13, which has an argument for it, this process would remove the block as well when it ends.
    resource_tracker.unregister(memory._name, "shared_memory")  # type: ignore[attr-defined]
    return memory


def _views(memory: SharedMemory, layout: Layout) -> Iterator[tuple[str, NDArray[Any]]]:
    offset = 0
    for name, (shape, dtype) in layout.items():
        yield name, np.ndarray(shape, dtype, memory.buf, offset)
        offset += _padded(shape, dtype)


def _padded(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Returns how many bytes an array takes: a multiple of those of a cache line, so that no two share one."""
    return -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
