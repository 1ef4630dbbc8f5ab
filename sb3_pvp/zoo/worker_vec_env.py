"""A ``SubprocVecEnv`` whose workers stay until it is closed, which works even if one of them has died."""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import gymnasium as gym
from stable_baselines3.common.vec_env import SubprocVecEnv

from sb3_pvp.common.errors import Refusal, one_line
from sb3_pvp.common.stop_signals import leave_to_parent
from sb3_pvp.common.user_modules import safe_path
from sb3_pvp.game import WorldError

#: Seconds for all workers together to close their environments, e.g. to log out, before they are killed.
CLOSE_SECONDS = 10.0
#: What is said of a process that has ended without a word.
ENDED = "the process of an environment has ended (see above for its error, if there was one)"


class WorkerVecEnv(SubprocVecEnv):
    """SB3's ``SubprocVecEnv``, with a `close` that returns whatever state the workers are in.

    If a worker dies in the middle of a step, SB3's `close` waits forever for replies that were already received.
    Workers end with this process, and not by signals to stop, which often reach all processes of a program.

    Raises:
        WorldError: for what a world says in a worker, whenever it does, and if one ends while they begin.
        Refusal: for what else prevents an environment from being made. Other errors end their worker.
    """

    def __init__(self, env_fns: list[Callable[[], gym.Env]], start_method: str | None = None) -> None:
        # At its end, Python would wait forever for workers of an environment that is still open: they ignore SIGTERM.
        atexit.register(_close, weakref.ref(self))
        try:
            with safe_path():
                super().__init__([partial(_make_in_worker, env_fn) for env_fn in env_fns], start_method)
        except (WorldError, Refusal):
            self.close()
            raise
        except (EOFError, ConnectionError) as error:
            self.close()
            raise WorldError(ENDED) from error

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


class _Raised:
    """An error in place of an answer: it is raised in the process that receives it, as its worker has no more to say.

    Not the error itself: one of a user's own may not come back whole from a pipe.
    """

    def __init__(self, error: Exception) -> None:
        self._kind = WorldError if isinstance(error, WorldError) else Refusal
        self._text = one_line(error)

    def __reduce__(self) -> Any:
        return _raise, (self._kind, self._text)


def _raise(kind: type[Exception], text: str) -> NoReturn:
    raise kind(text)


class _Unmade(gym.Env[Any, Any]):
    """In place of an environment that could not be made: it answers everything with the error."""

    def __init__(self, answer: _Raised) -> None:
        self._answer = answer
        self.observation_space = self.action_space = answer  # type: ignore[assignment]

    def get_wrapper_attr(self, name: str) -> Any:
        """Returns the error."""
        return self._answer


def _make_in_worker(env_fn: Callable[[], gym.Env]) -> gym.Env:
    """Makes an environment whose errors are raised by the parent, in one line, and leave no traceback here."""
    leave_to_parent()
    if sys.flags.dev_mode:  # PYTHONDEVMODE=1: with traceback
        return env_fn()
    try:
        env = env_fn()
    except (WorldError, Refusal, ValueError, OSError) as error:
        return _Unmade(_Raised(error))
    for name, others in (("reset", ({},)), ("step", (0.0, False, False, {}))):
        setattr(env, name, partial(_answered, getattr(env, name), others))
    return env


def _answered(method: Callable[..., Any], others: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
    """Calls a method; what a world says is in place of the observation, with ``others`` beside it."""
    try:
        return method(*args, **kwargs)
    except WorldError as error:
        return _Raised(error), *others
