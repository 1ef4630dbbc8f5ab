"""A ``SubprocVecEnv`` that can be closed even if a worker process has died."""

from __future__ import annotations

import contextlib
import time

from stable_baselines3.common.vec_env import SubprocVecEnv

#: Seconds for all workers together to close their environments, e.g. to log out, before they are terminated.
CLOSE_SECONDS = 10.0


class WorkerVecEnv(SubprocVecEnv):
    """SB3's ``SubprocVecEnv``, with a `close` that returns whatever state the workers are in.

    If a worker dies in the middle of a step, SB3's `close` waits forever for replies that were already received.
    """

    def close(self) -> None:
        """Closes all environments, and terminates workers that do not finish within `CLOSE_SECONDS`."""
        if self.closed:
            return
        self.closed = True
        for remote in self.remotes:
            with contextlib.suppress(OSError):
                remote.send(("close", None))
        deadline = time.monotonic() + CLOSE_SECONDS
        for process in self.processes:
            process.join(max(deadline - time.monotonic(), 0.0))
        for process in self.processes:
            if process.is_alive():
                process.terminate()
                process.join()
