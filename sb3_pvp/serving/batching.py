"""Dynamic batching: requests that arrive while a batch runs form the next one (protocol.md §9)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from sb3_pvp.common.worker_pool import WorkerPool
from sb3_pvp.serving.fighters import Answers, Batch, FighterSource, OpenFighter
from sb3_pvp.serving.protocol import Request, ServedFighter, error_line, make_batch, write_replies

logger = logging.getLogger(__name__)

#: Is told of each batch: the name of the fighter, rows, seconds, and those from each request to its reply.
Count = Callable[[str, int, float, Sequence[float]], None]
#: In a worker process: the fighters that it has opened.
_opened: dict[FighterSource, OpenFighter] = {}


class Batcher:
    """Hands waiting requests to idle workers, fighter by fighter in the order in which they began to wait.

    Nothing waits while a worker is idle, except for the requests that the event loop is about to read. Workers are
    processes; without any, the event loop itself runs batches.
    """

    def __init__(self, num_workers: int, max_batch_size: int) -> None:
        # A pool for each, because all of them must open all fighters. Not threads: the event loop releases the
        # interpreter's lock with each message, and a thread that takes it keeps it for a whole batch.
        self._pools = [WorkerPool(1, "commands") for _ in range(num_workers)]
        workers: list[WorkerPool | None] = [*self._pools]
        self._idle = deque(workers or [None])
        self._max_batch_size = max_batch_size
        self.count: Count | None = None
        self._rng = np.random.default_rng()
        self._waiting: dict[ServedFighter, None] = {}  # in order
        self._running: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self._loop = asyncio.get_running_loop()

    def submit(self, fighter: ServedFighter, request: Request) -> None:
        """Takes a request to a fighter; calls `Request.tell` when it has a reply."""
        fighter.waiting.append(request)
        self._waiting[fighter] = None
        self._schedule()

    async def prepare(self, sources: Iterable[FighterSource]) -> None:
        """Lets all processes open these fighters, and forget others."""
        wanted = [*sources]
        opening = (asyncio.wrap_future(pool.submit(_prepare, wanted)) for pool in self._pools)
        for result in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(result, BaseException):  # it opens them when they are needed
                logger.warning("a worker could not open all fighters: %s", result)

    async def drain(self) -> None:
        """Waits until all requests have their replies."""
        while self._waiting or self._running or self._is_scheduled:
            await asyncio.wait(self._running) if self._running else await asyncio.sleep(0)

    def close(self) -> None:
        """Ends all processes at once."""
        for pool in self._pools:
            pool.close()

    def _schedule(self) -> None:
        # In the next round of the event loop, so that all requests which have arrived by now share a batch.
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._is_scheduled = False
        while self._waiting and self._idle:
            fighter = next(iter(self._waiting))
            del self._waiting[fighter]
            size = min(len(fighter.waiting), self._max_batch_size)
            requests = [fighter.waiting.popleft() for _ in range(size)]
            if fighter.waiting:  # behind the others, who must not wait for a fighter that is always busy
                self._waiting[fighter] = None
            task = self._loop.create_task(self._answer(self._idle.popleft(), fighter, requests))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _answer(self, pool: WorkerPool | None, fighter: ServedFighter, requests: list[Request]) -> None:
        start = time.perf_counter()
        try:
            try:
                batch = make_batch(requests, fighter.form, self._rng)
                if pool is None:
                    answers = fighter.fighter.answer(batch)
                else:
                    answers = await asyncio.wrap_future(pool.submit(_answer, fighter.source, batch))
            finally:
                self._idle.append(pool)
                self._schedule()
            write_replies(requests, batch, answers, fighter.form)
        except Exception:
            logger.exception("a batch of %d requests to %s failed", len(requests), fighter.name)
            for request in requests:
                request.reply = error_line("internal error of the server; see its log")
        if self.count is not None:
            end = time.perf_counter()
            self.count(fighter.name, len(requests), end - start, [end - request.received for request in requests])
        for tell in dict.fromkeys(request.tell for request in requests):
            tell()


def _answer(source: FighterSource, batch: Batch) -> Answers:
    if source not in _opened:  # this process is new, in place of one that has died
        _opened[source] = source.open()
    return _opened[source].answer(batch)


def _prepare(sources: list[FighterSource]) -> None:
    for gone in _opened.keys() - set(sources):
        del _opened[gone]
    for source in sources:
        if source not in _opened:
            _opened[source] = source.open()
