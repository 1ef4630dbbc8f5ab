"""Environments in processes of their own, of which one may die."""

from __future__ import annotations

import contextlib
import time

from stable_baselines3.common.vec_env import SubprocVecEnv

#: How long all workers together may take to leave their environments, e.g. to log out, before they are terminated.
CLOSE_SECONDS = 10.0


class WorkerVecEnv(SubprocVecEnv):
    """SB3's ``SubprocVecEnv``, with a `close` that ends whatever state the workers are in.

    SB3's own waits for ever if a worker has died in the middle of a step: for answers that others have given already.
    """

    def close(self) -> None:
        """Closes all environments; those of workers that do not react in time are ended with their processes."""
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
