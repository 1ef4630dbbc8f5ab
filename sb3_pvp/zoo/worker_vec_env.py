"""A ``SubprocVecEnv`` whose workers stay until it is closed, which works even if one of them has died."""

from __future__ import annotations

import atexit
import contextlib
import time
import weakref
from collections.abc import Callable
from functools import partial

import gymnasium as gym
from stable_baselines3.common.vec_env import SubprocVecEnv

from sb3_pvp.common.stop_signals import leave_to_parent
from sb3_pvp.common.user_modules import safe_path

#: Seconds for all workers together to close their environments, e.g. to log out, before they are killed.
CLOSE_SECONDS = 10.0


class WorkerVecEnv(SubprocVecEnv):
    """SB3's ``SubprocVecEnv``, with a `close` that returns whatever state the workers are in.

    If a worker dies in the middle of a step, SB3's `close` waits forever for replies that were already received.
    Workers end with this process, and not by signals to stop, which often reach all processes of a program.
    """

    def __init__(self, env_fns: list[Callable[[], gym.Env]], start_method: str | None = None) -> None:
        # At its end, Python would wait forever for workers of an environment that is still open: they ignore SIGTERM.
        atexit.register(_close, weakref.ref(self))
        with safe_path():
            super().__init__([partial(_make_in_worker, env_fn) for env_fn in env_fns], start_method)

    def close(self) -> None:
        """Closes all environments, and kills workers that do not finish within `CLOSE_SECONDS`."""
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
                process.kill()
                process.join()


def _close(reference: weakref.ref[WorkerVecEnv]) -> None:
    if (env := reference()) is not None:
        env.close()


def _make_in_worker(env_fn: Callable[[], gym.Env]) -> gym.Env:
    leave_to_parent()
    return env_fn()
