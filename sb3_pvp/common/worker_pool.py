"""Worker processes for fights and trainings: they use idle cores, and give way to what comes first, if anything does.

Not ``concurrent.futures.ProcessPoolExecutor``: there one dead worker ends the whole pool, results arrive only at the
end of a job, running jobs cannot be stopped, and each worker runs a script again that has no ``__main__`` guard.

``python -m sb3_pvp.common.worker_pool NICENESS`` is such a worker.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import GeneratorType
from typing import Any

import cloudpickle

from sb3_pvp.common.cores import PRIORITY, give_way, worker_variables
from sb3_pvp.common.processes import MAX_SILENCE, OwnedProcess
from sb3_pvp.common.stop_signals import leave_to_parent
from sb3_pvp.common.user_modules import PYTHON, importing_here
from sb3_pvp.common.waiting import WaitedTooLong

#: How often a job is begun that ends its process.
ATTEMPTS = 2
_ITEM, _RESULT, _ERROR = "item", "result", "error"  # what a worker replies


class WorkerDied(RuntimeError):
    """Raised when a job has ended its worker process twice; the message is one line."""


class WorkerPool:
    """A fixed number of worker processes, which are started when there are jobs for them.

    Each of them uses one core, ends with this process, even if that is killed, and not by Ctrl-C, SIGTERM or SIGHUP.
    If a worker dies, its job is repeated once. What jobs print goes to stderr.

    Args:
        size: number of processes.
        kind: of the work, which decides about its `PRIORITY`.
        max_silence: seconds without an item after which a `stream` ends with an error; ``None``: never.
    """

    def __init__(self, size: int, kind: str, max_silence: float | None = MAX_SILENCE) -> None:
        self.size, self._max_silence = size, max_silence
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._workers = workers = [_Worker(PRIORITY[kind]) for _ in range(size)]
        # Daemons, unlike the threads of an executor: Python would wait for these, and so for their jobs, when it exits.
        for worker in workers:
            threading.Thread(target=worker.run, args=(self._jobs,), daemon=True).start()
        self._close = weakref.finalize(self, _close, self._jobs, workers)

    def submit(
        self, function: Callable[..., Any], *args: Any, each: Callable[[Any], object] = lambda item: None
    ) -> Future[Any]:
        """Lets a worker call a function; function, arguments and result are pickled by value where necessary.

        If it is a generator function, ``each`` is called with every item as soon as it arrives, in another thread; the
        result is ``None``. After the death of a worker, items come again from the first one on.

        Returns a future of the result, of an exception that the function raised, or of `WorkerDied`.
        """
        job = _Job(cloudpickle.dumps((function, args)), each, Future())
        self._jobs.put(job)
        return job.future

    def stream(self, function: Callable[..., Any], parts: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Calls a generator function with the arguments of each part; yields the items of all parts as they arrive.

        See `submit` for what happens if a worker dies. Raises the first exception; `WaitedTooLong` after
        ``max_silence``.
        """
        items: SimpleQueue[tuple[Future[Any] | None, Any]] = SimpleQueue()  # jobs that are over, or else items
        running = [self.submit(function, *part, each=lambda item: items.put((None, item))) for part in parts]
        for future in running:
            future.add_done_callback(lambda future: items.put((future, None)))
        left = len(running)
        while left:
            try:
                ended, item = items.get(timeout=self._max_silence)
            except Empty:
                text = f"the worker processes hang: nothing came from them in {self._max_silence:g} seconds"
                raise WaitedTooLong(text) from None
            if ended is None:
                yield item
            else:
                ended.result()
                left -= 1

    def result(self, future: Future[Any], patience: float) -> Any:
        """Waits for a future of `submit`; workers are ended as if they had died if it takes longer than ``patience``.

        So a job that hangs is repeated like one whose worker has died, and ends with `WorkerDied` like that.
        """
        # Each end costs the job that runs one of its `ATTEMPTS`, so that this is over some time.
        while not futures.wait([future], patience).done:
            for worker in self._workers:
                worker.end()
        return future.result()

    def close(self) -> None:
        """Ends all workers at once, also in the middle of a job; later calls do nothing."""
        self._close()


@dataclass
class _Job:
    """A pickled job, and who waits for it."""

    message: bytes
    each: Callable[[Any], object]
    future: Future[Any]


class _Worker:
    """A thread of this process, and the worker process that it talks to."""

    def __init__(self, nice: int) -> None:
        self._nice, self._lock, self._is_closed = nice, threading.Lock(), False
        self._process: OwnedProcess | None = None
        self._code: int | None = None  # of the last process that has ended

    def run(self, jobs: SimpleQueue[_Job | None]) -> None:
        while (job := jobs.get()) is not None:
            if job.future.set_running_or_notify_cancel():
                self._do(job)
            del job  # it may be large

    def _do(self, job: _Job) -> None:
        for _ in range(ATTEMPTS):
            try:
                kind, value = self._ask(job)
            except (EOFError, OSError, pickle.UnpicklingError):  # pickles end in the middle when the process dies
                self.end()
                continue
            except BaseException as error:  # of ``each``, or of a reply that cannot be read here
                self.end()  # its other replies must not reach the next job
                kind, value = _ERROR, (error, "")
            if kind == _RESULT:
                job.future.set_result(value)
            else:
                raised, text = value
                raised.__cause__ = RuntimeError(f"in a worker process:\n{text}") if text else raised.__cause__
                job.future.set_exception(raised)
            return
        text = f"a worker process has died, twice during the same job (exit code {self._code})"
        job.future.set_exception(WorkerDied(text))

    def _ask(self, job: _Job) -> tuple[str, Any]:
        """Sends a job, passes its items on and returns the last reply."""
        with self._lock:
            if self._is_closed:
                raise EOFError
            process = self._process = self._process or _start(self._nice)
        assert process.stdin is not None and process.stdout is not None
        pickle.dump(job.message, process.stdin)
        process.stdin.flush()
        while True:
            kind, value = pickle.loads(pickle.load(process.stdout))
            if kind != _ITEM:
                return kind, value
            job.each(value)

    def end(self, forever: bool = False) -> None:
        """Ends the process."""
        with self._lock:
            self._is_closed |= forever
            process, self._process = self._process, None
        if process is not None:
            process.close()
            self._code = process.returncode


def _start(nice: int) -> OwnedProcess:
    return OwnedProcess((*PYTHON, __name__, str(nice)), worker_variables(), stdout=subprocess.PIPE)


def _close(jobs: SimpleQueue[_Job | None], workers: list[_Worker]) -> None:
    for worker in workers:
        worker.end(forever=True)
        jobs.put(None)


def _work(nice: int) -> None:
    """Does jobs from stdin, one after another, until that is closed; replies to stdout."""
    leave_to_parent()
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what jobs print must not get among the replies
    give_way(nice)
    jobs: SimpleQueue[bytes] = SimpleQueue()

    def receive() -> None:
        try:
            while True:
                jobs.put(pickle.load(requests))
        except BaseException:  # the other process has closed the pipe, or is gone
            with suppress(AttributeError):  # not on Windows
                os.killpg(0, signal.SIGKILL)  # with what the job has started
            os._exit(1)

    threading.Thread(target=receive, daemon=True).start()
    while True:
        for reply in _replies(jobs.get()):
            pickle.dump(reply, replies)
            replies.flush()


def _replies(message: bytes) -> Iterator[bytes]:
    """Does a job; yields its pickled replies."""
    try:
        try:
            function, args = pickle.loads(message)
        except ModuleNotFoundError:  # one that the other process had from here, because a user has named it
            with importing_here():
                function, args = pickle.loads(message)
        result = function(*args)
        if isinstance(result, GeneratorType):
            for item in result:
                yield cloudpickle.dumps((_ITEM, item))
            result = None
        yield cloudpickle.dumps((_RESULT, result))
    except BaseException as error:  # also KeyboardInterrupt, by which training is stopped
        text = traceback.format_exc()
        try:
            pickle.loads(reply := cloudpickle.dumps((_ERROR, (error, text))))  # some can be written, but not read
        except Exception:
            reply = cloudpickle.dumps((_ERROR, (RuntimeError(f"{type(error).__name__}: {error}"), text)))
        yield reply


if __name__ == "__main__":
    _work(int(sys.argv[1]))
