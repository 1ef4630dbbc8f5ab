"""``python -m benchmarks dreamer``."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import gymnasium as gym
import numpy as np
import torch as th
import typer
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks.report import ROUNDS, Case, Row, Turn, make_row, measure, positive_numbers, print_report, take_turn
from sb3_pvp.common.errors import Refusal

if TYPE_CHECKING:
    from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3

#: CPU seconds that the original takes for an update, compiled, one thread (dreamer.md §5.4).
ORIGINAL = {"micro, 8 starts": 0.061, "micro, all starts": 0.210, "size1m": 1.15}
FIGHTS = 64
PEER = Path(__file__).parent / "peer_programs" / "sheeprl_dreamer.py"


class Noise(gym.Env[NDArray[np.float32], Any]):
    """Random vectors of 64 numbers and random rewards, in episodes of 50 steps, as the original was timed with."""

    observation_space = spaces.Box(-np.inf, np.inf, (64,), np.float32)
    action_space = spaces.Discrete(6)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Returns the first vector."""
        super().reset(seed=seed)
        self.tick = 0
        return self.np_random.standard_normal(64).astype(np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Returns the next one."""
        self.tick += 1
        seen = self.np_random.standard_normal(64).astype(np.float32)
        return seen, float(self.np_random.standard_normal()), self.tick == 50, False, {}


def learner(name: str, device: str = "cpu", **options: Any) -> DreamerV3:
    """Returns a DreamerV3 with a replay of noise: ``micro, 8 starts``, ``micro, all starts`` or a size."""
    from benchmarks.dreamer_proofs.proofs import SETTINGS
    from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3

    micro = name.startswith("micro")
    batch_length, imag_last = 32 if micro else 64, 8 if name == "micro, 8 starts" else 0
    changes: dict[str, Any] = {"batch_length": batch_length, "imag_last": imag_last, "train_ratio": 1e-9}
    changes |= {"policy_kwargs": {"size": "micro" if micro else name}}
    model = DreamerV3("MlpPolicy", DummyVecEnv([Noise] * 4), seed=0, device=device, **SETTINGS | changes | options)
    return model.learn(16 * batch_length + 8 * batch_length)


def bench_dreamer(
    context: typer.Context,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds per case.")] = 20.0,
    threads: Annotated[str, typer.Option(help="Threads of PyTorch; several numbers, such as 1,2, take turns.")] = "1",
    device: Annotated[str, typer.Option(help="cpu, or cuda: single and half precision, and CUDA graphs.")] = "cpu",
    compiled: Annotated[bool, typer.Option("--compile", help="Also with torch.compile; needs a C++ compiler.")] = False,
    peers: Annotated[Path | None, typer.Option(help="Also sheeprl, by the Python of its own environment.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Time updates of DreamerV3 at the settings that the original was timed with, and acting in 1 and 64 fights.

    On a CPU, in CPU seconds of all threads, in turns, with the ratio to the original's own figure, and by the clock
    that of the fastest update of all; with CUDA in seconds of the clock.
    """
    if context.invoked_subcommand is not None:
        return
    counts = positive_numbers(threads, "--threads")
    if device == "cuda":
        if not th.cuda.is_available():
            raise Refusal("--device cuda needs a GPU that PyTorch sees; got none")
        print_report("dreamer", list(_cuda_rows(seconds)), ("torch",), as_json)
        return
    models = {name: learner(name) for name in ORIGINAL}
    cases = [
        Case(f"{name}, {count} threads" if count > 1 else name, count, 1, Timed(model.update, count))
        for name, model in models.items()
        for count in counts
    ]
    if compiled:
        cases += [Case(f"{name}, compiled", 1, 1, Timed(_compiled(name), 1)) for name in ORIGINAL]
    rows = measure(cases, seconds)
    for row, case in zip(rows, cases, strict=True):
        row |= {"cpu_s_per_update": row["cpu_s"] / row["agent_steps"], "best_wall_s": case.run.best}  # type: ignore[attr-defined]
        row["original"] = next(figure for name, figure in ORIGINAL.items() if case.name.startswith(name))
    th.set_num_threads(1)
    for name in ("micro, 8 starts", "size1m"):
        rows += [_acting_row(models[name], name, seconds, fights) for fights in (1, FIGHTS)]
    if peers is not None:
        rows += _peer_rows(peers, seconds)
    print_report("dreamer", rows, ("torch", "numpy"), as_json)


class Timed:
    """Runs something with so many threads, and knows the seconds of its fastest run by the clock."""

    def __init__(self, run: Callable[[], object], threads: int) -> None:
        self.run, self.threads, self.best = run, threads, float("inf")

    def __call__(self) -> None:
        th.set_num_threads(self.threads)
        start = time.perf_counter()
        self.run()
        self.best = min(self.best, time.perf_counter() - start)


def _acting_row(model: DreamerV3, name: str, seconds: float, fights: int = FIGHTS) -> Row:
    """Returns a row of acting: its rate is that of decisions."""
    rng, state = np.random.default_rng(0), list[Any]([None])
    seen = rng.standard_normal((fights, 64)).astype(np.float32)

    def act() -> None:
        state[0] = model.predict(seen, state[0], np.zeros(fights, bool))[1]

    act()
    return make_row(f"{name}, acting", fights, take_turn(Case("", fights, fights, act), seconds / ROUNDS))


def _compiled(name: str) -> Callable[[], object]:
    """Returns an update whose steps of the recurrent state are compiled."""
    model = learner(name)
    recurrent = model.policy.networks.recurrent
    for part in ("core", "posterior", "prior"):
        setattr(recurrent, part, th.compile(getattr(recurrent, part), dynamic=False))
    return model.update


# -- on a GPU, where the calls of many small operations cost more than they do


def _cuda_rows(seconds: float) -> Iterator[Row]:
    for name in ("micro, 8 starts", "micro, all starts", "size1m", "size12m"):
        control = None
        for kind in ("float32", "bfloat16", "float32, graph", "bfloat16, graph"):
            try:
                options = {"precision": "bf16" if "bfloat16" in kind else "fp32", "cuda_graph": "graph" in kind}
                turn = _cuda_turn(learner(name, "cuda", **options).update, seconds / 4)
            except RuntimeError as error:
                yield {"case": f"{name}, {kind}", "error": str(error).splitlines()[0]}
                continue
            each = turn.wall / turn.agent_steps
            control = control or each
            row = make_row(f"{name}, {kind}", 1, turn, ratio=control / each)
            yield row | {"wall_s_per_update": each, "gigabytes": th.cuda.max_memory_allocated() / 1e9}
            th.cuda.reset_peak_memory_stats()
        yield _acting_row(learner(name, "cuda"), name, seconds)


def _cuda_turn(update: Callable[[], object], seconds: float) -> Turn:
    for _ in range(5):  # the first ones are plain, then the graph is captured
        update()
    th.cuda.synchronize()
    times = 10

    def run() -> None:
        for _ in range(times):
            update()
        th.cuda.synchronize()

    return take_turn(Case("", 1, times, run), seconds)


# -- others


@dataclass(frozen=True)
class PeerSetting:
    """What sheeprl is asked to time: the sizes and the batch of a case of `ORIGINAL`."""

    name: str
    deter: int
    units: int
    stoch: int
    classes: int
    batch_length: int


PEERS = (PeerSetting("micro, all starts", 128, 32, 8, 8, 32), PeerSetting("size1m", 512, 64, 32, 4, 64))


def _peer_rows(python: Path, seconds: float) -> list[Row]:
    rows = []
    for peer in PEERS:
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        task = json.dumps(vars(peer) | {"seconds": seconds})
        done = subprocess.run([python, PEER, task], env=os.environ | one_thread, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise Refusal(f"sheeprl by {python} ended with code {done.returncode}: {last}")
        answer = json.loads(done.stdout.splitlines()[-1])
        row = make_row(f"{peer.name}, sheeprl", 1, Turn(answer["updates"], answer["cpu_s"], answer["wall_s"]))
        rows.append(row | {"cpu_s_per_update": answer["cpu_s"] / answer["updates"]})
    return rows
