"""What the programs of peers share: the task, its environment, and the rounds that `benchmarks.peers` asks for.

A program gets its `Task` as JSON in its only argument. It trains `WARM_UP` times, prints one JSON line with the
versions of its packages, and waits. For each line on its standard input, a number of CPU seconds, it trains for about
as long, and prints one JSON line: ``agent_steps``, ``wall_s``, and CPU seconds in total (``cpu_s``), of rollouts
(``rollout_s``) and of learning (``learn_s``).
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import psutil

#: Trainings before the first round. The first one of PvpPPO only initialises the statistics of its policy.
WARM_UP = 2
#: Of interest in each program, beside its own.
PACKAGES = ("torch", "numpy", "numba", "gymnasium", "stable-baselines3")

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Task:
    """What a peer trains: fights of randomised builds against the bot, with PPO.

    Attributes:
        checkout: folder of the ``sb3_pvp`` to import.
        n_envs, n_steps: fights, and ticks of each per rollout.
        batch_size: agent-steps per mini-batch; there is one epoch per rollout.
        net_arch: widths of the hidden layers of the actor, and of the critic.
        seed: seed of fights and of weights.
        options: what only this peer's program knows.
    """

    checkout: str
    n_envs: int = 128
    n_steps: int = 128
    batch_size: int = 2048
    net_arch: Sequence[int] = (64, 64)
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Returns the argument of a program."""
        return json.dumps(asdict(self))

    @property
    def agent_steps(self) -> int:
        """Agent-steps of one rollout."""
        return self.n_envs * self.n_steps

    def make_vec_env(self) -> Any:
        """Returns the ``NhVecEnv`` of this task."""
        from sb3_pvp.envs import NhVecEnv
        from sb3_pvp.games.osrs.meta_fields import RANDOMISED

        return NhVecEnv(self.n_envs, seed=self.seed, reset_params=RANDOMISED)


def read_task() -> Task:
    """Reads the program's argument, and makes ``import sb3_pvp`` find the checkout."""
    task = Task(**json.loads(sys.argv[1]))
    sys.path.insert(0, task.checkout)
    import sb3_pvp

    assert sb3_pvp.__file__ is not None and Path(sb3_pvp.__file__).is_relative_to(task.checkout), sb3_pvp.__file__
    return task


class Rounds:
    """Measures trainings in rounds. What is printed otherwise goes to stderr.

    Args:
        agent_steps: agent-steps of one training, which is a rollout and what is learned from it.
        packages: distributions whose versions are reported, beside those of `PACKAGES`.
    """

    def __init__(self, agent_steps: int, *packages: str) -> None:
        self._agent_steps, self._packages = agent_steps, packages
        sys.stdout.flush()
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._workers: list[psutil.Process] = []
        self._to_warm_up = WARM_UP
        self._start(0.0)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Counts the CPU time of the ``with`` block as ``"rollout"`` or ``"learn"``."""
        start = self._cpu()
        yield
        self._parts[name] = self._parts.get(name, 0.0) + self._cpu() - start

    def timed(self, name: str, function: Function) -> Function:
        """Returns ``function`` with its CPU time counted as a part."""

        def call(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    def next_training(self) -> None:
        """To be called after each training: ends the round when its time is over, and waits for the next one.

        Ends the program (`SystemExit`) at the end of the standard input.
        """
        self._trainings += 1
        if self._to_warm_up:
            self._to_warm_up -= 1
            if self._to_warm_up:
                return
            versions = {name: version(name) for name in (*PACKAGES, *self._packages)}
            self._say({"versions": {"python": platform.python_version(), **versions}})
        else:
            cpu = self._cpu() - self._cpu_start
            if cpu < self._seconds:
                return
            wall = time.perf_counter() - self._wall_start
            parts = {f"{name}_s": seconds for name, seconds in self._parts.items()}
            self._say({"agent_steps": self._trainings * self._agent_steps, "cpu_s": cpu, "wall_s": wall, **parts})
        line = sys.stdin.readline()
        if not line:
            sys.exit()
        self._start(float(line))

    def _start(self, seconds: float) -> None:
        # Here and not in each reading: looking for processes costs milliseconds.
        self._workers = psutil.Process().children(recursive=True)
        self._seconds, self._trainings = seconds, 0
        self._parts: dict[str, float] = {}
        self._cpu_start, self._wall_start = self._cpu(), time.perf_counter()

    def _say(self, line: dict[str, Any]) -> None:
        print(json.dumps(line), file=self._out, flush=True)

    def _cpu(self) -> float:
        """CPU seconds of this process, of all its threads and of all its child processes."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime + sum(map(_cpu_of, self._workers))


def _cpu_of(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:  # it has ended, and is among the ended children
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
