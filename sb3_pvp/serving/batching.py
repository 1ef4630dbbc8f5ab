"""Dynamic batching: requests that arrive while a batch runs form the next one."""

from __future__ import annotations

import asyncio
import logging
import time

import numpy as np

from sb3_pvp.serving.models import ServedFighter
from sb3_pvp.serving.protocol import Request, error_line, make_batch, write_replies
from sb3_pvp.serving.workers import Worker, Workers

logger = logging.getLogger(__name__)


class Batcher:
    """Hands waiting requests to idle workers, fighter by fighter in the order in which they began to wait.

    Nothing waits while a worker is idle, except for the requests that the event loop is about to read.
    """

    def __init__(self, workers: Workers, max_batch_size: int) -> None:
        self._workers, self._max_batch_size = workers, max_batch_size
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

    async def drain(self) -> None:
        """Waits until all requests have their replies."""
        while self._waiting or self._running or self._is_scheduled:
            await asyncio.wait(self._running) if self._running else await asyncio.sleep(0)

    def _schedule(self) -> None:
        # In the next round of the event loop, so that all requests which have arrived by now share a batch.
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._is_scheduled = False
        while self._waiting and (worker := self._workers.take()) is not None:
            fighter = next(iter(self._waiting))
            del self._waiting[fighter]
            size = min(len(fighter.waiting), self._max_batch_size)
            requests = [fighter.waiting.popleft() for _ in range(size)]
            if fighter.waiting:
                self._waiting[fighter] = None
            task = self._loop.create_task(self._answer(worker, fighter, requests))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _answer(self, worker: Worker, fighter: ServedFighter, requests: list[Request]) -> None:
        start = time.perf_counter()
        try:
            try:
                batch = make_batch(requests, fighter.form, self._rng)
                answers = await worker.answer(fighter.source, fighter.fighter, batch)
            finally:
                self._workers.release(worker)
                self._schedule()
            write_replies(requests, batch, answers, fighter.form)
        except Exception:
            logger.exception("a batch of %d requests to %s failed", len(requests), fighter.name)
            for request in requests:
                request.reply = error_line("internal error of the server; see its log")
        end = time.perf_counter()
        fighter.figures.count(len(requests), end - start, [end - request.received for request in requests])
        for tell in dict.fromkeys(request.tell for request in requests):
            tell()
