"""Workers that run batches: threads of this process, or processes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process

from sb3_pvp.serving.fighters import Answers, Batch, FighterSource, OpenFighter

logger = logging.getLogger(__name__)

WORKER_TYPES = ("thread", "process")
#: Without workers: the event loop itself runs batches. Threads of Python mostly wait for each other: the event loop
#: releases the interpreter's lock with each message, and a worker that takes it keeps it for a whole batch.
INLINE = "inline"
#: In a worker process: the fighters that it has opened.
_opened: dict[FighterSource, OpenFighter] = {}


class Worker:
    """Runs one batch at a time: the event loop, a thread of this process, or a process, replaced when it dies."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._executor = self._make()

    async def answer(self, source: FighterSource, fighter: OpenFighter, batch: Batch) -> Answers:
        """Runs a batch. Processes open ``source`` themselves, others share ``fighter``."""
        loop = asyncio.get_running_loop()
        if self._kind == INLINE:
            return fighter.answer(batch)
        if self._kind == "thread":
            return await loop.run_in_executor(self._executor, fighter.answer, batch)
        try:
            return await loop.run_in_executor(self._executor, _answer, source, batch)
        except BrokenProcessPool:
            logger.error("a worker process has died and is replaced")
            self._executor.shutdown(wait=False)
            self._executor = self._make()
            return await loop.run_in_executor(self._executor, _answer, source, batch)

    async def prepare(self, sources: list[FighterSource]) -> None:
        """Lets a process open fighters, and forget those that are not among ``sources``."""
        if self._kind == "process":
            await asyncio.get_running_loop().run_in_executor(self._executor, _prepare, sources)

    def close(self) -> None:
        """Ends after the current batch."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _make(self) -> Executor:
        if self._kind != "process":
            return ThreadPoolExecutor(1, "worker")  # starts its thread when it is needed
        # Not forked: a copy of a process with threads may hang.
        return ProcessPoolExecutor(1, get_context("spawn"), _start)


class Workers:
    """A fixed number of workers; without any, the event loop does their work."""

    def __init__(self, count: int, kind: str) -> None:
        self._all = [Worker(kind) for _ in range(count)] or [Worker(INLINE)]
        self._idle = deque(self._all)

    def take(self) -> Worker | None:
        """Returns an idle worker, if there is one; give it back with `release`."""
        return self._idle.popleft() if self._idle else None

    def release(self, worker: Worker) -> None:
        """Takes a worker back."""
        self._idle.append(worker)

    async def prepare(self, sources: Iterable[FighterSource]) -> None:
        """Lets all processes open these fighters, and forget others."""
        prepared = (worker.prepare([*sources]) for worker in self._all)
        for result in await asyncio.gather(*prepared, return_exceptions=True):
            if isinstance(result, BaseException):  # it opens them when they are needed
                logger.warning("a worker could not open all fighters: %s", result)

    def close(self) -> None:
        """Ends all workers after their current batch."""
        for worker in self._all:
            worker.close()


def _start() -> None:
    """Prepares a worker process, which ends with the server, and not with an interrupt of the whole terminal."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(1)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _answer(source: FighterSource, batch: Batch) -> Answers:
    if source not in _opened:
        _opened[source] = source.open()
    return _opened[source].answer(batch)


def _prepare(sources: list[FighterSource]) -> None:
    for gone in _opened.keys() - set(sources):
        del _opened[gone]
    for source in sources:
        if source not in _opened:
            _opened[source] = source.open()
