"""Hours of training as a user starts it, watched from outside: whether its memory stays as it is."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.dreamer_studies.runs import TASKS
from benchmarks.json_lines import append_line, read_lines
from sb3_pvp.callbacks.metric_lines import METRICS
from sb3_pvp.common.errors import Refusal
from sb3_pvp.common.processes import SAVING_GRACE, WatchedProcess

LINES, RUN = "memory.jsonl", "run"
#: A replay that is full after a quarter of an hour, in a folder, with all that a run writes.
SETTINGS = (
    "n_envs:4", "n_timesteps:1e9", "policy:'MlpPolicy'", "learning_rate:1e-3", "batch_length:32", "imag_last:8",
    "train_ratio:128", "buffer_size:50000", "policy_kwargs:dict(size='micro', optimizer_kwargs=dict(warmup=100))",
)  # fmt: skip
#: The share of a part after which it is warm: all is imported, and in two hours the replay is full.
WARM = 0.5
_PLAY = TASKS["CartPole"].seconds / 3600  #: Hours of play of a step.


def soak_part(out: Path, seconds: float) -> None:
    """Trains for so many seconds of the clock, or goes on with it, and appends what it takes; ends it by a signal.

    Raises `Refusal` if the training ends by itself. It ends with this process, even if that is killed.
    """
    if not seconds:
        return
    out.mkdir(parents=True, exist_ok=True)
    part = max((line["part"] for line in read_samples(out)), default=-1) + 1
    output, words = out / "output.txt", ("--algo", "dreamerv3", "--env", "CartPole-v1", "--logdir", str(out / RUN))
    start, wait = time.monotonic(), min(max(seconds / 200, 0.5), 20.0)
    with closing(start_training(output, *words, "-params", *SETTINGS)) as watcher:
        while time.monotonic() - start < seconds:
            time.sleep(wait)
            if (code := watcher.poll()) is not None:
                raise ended(output, code)
            if sample := _sample(watcher.pid, out / RUN):
                append_line(out / LINES, {"part": part, "seconds": round(time.monotonic() - start, 1)} | sample)


def start_training(output: Path, *options: str) -> WatchedProcess:
    """Starts ``train`` with these options, with one thread and without evaluations; it saves when it is closed."""
    command = [sys.executable, "-m", "sb3_pvp.zoo", "train", "--verbose", "0", "--eval-freq", "-1", "--seed", "0"]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return WatchedProcess([*command, *options], output, one_thread, grace=SAVING_GRACE)


def ended(output: Path, code: int) -> Refusal:
    """Returns what to say of a training that has ended by itself."""
    return Refusal(f"the training has ended with code {code}: {' '.join(output.read_text().splitlines()[-1:])}")


def _sample(watcher: int, run: Path) -> dict[str, Any] | None:
    """Returns what the training takes; ``None`` if there is none, before it has begun or after it has died."""
    metrics = run / METRICS
    logged = metrics.read_bytes().splitlines(keepends=True)[-2:] if metrics.exists() else []
    steps = [json.loads(line)["step"] for line in logged if line.endswith(b"\n")]
    size = 0
    for folder, _, names in os.walk(run):
        for name in names:
            with suppress(OSError):  # it has just been removed
                size += os.stat(os.path.join(folder, name)).st_size
    with suppress(psutil.Error):
        for process in psutil.Process(watcher).children():
            found = {
                "megabytes": process.memory_full_info().uss / 2**20,  # its own, not what it shares
                "cpu_s": sum(process.cpu_times()[:2]),
                "files": process.num_fds(),
                "threads": process.num_threads(),
                "disk_megabytes": size / 2**20,
                "steps": max(steps, default=0),
            }
            return found if found["megabytes"] else None
    return None


def read_samples(out: Path) -> list[dict[str, Any]]:
    """Returns all samples of all parts."""
    return read_lines(out / LINES) if (out / LINES).exists() else []


def growth(samples: list[dict[str, Any]]) -> float:
    """Returns the megabytes by which a part grows in an hour once it is warm: the slope of a line through them."""
    warm = samples[int(WARM * len(samples)) :]
    hours = np.array([line["seconds"] for line in warm]) / 3600
    return float(np.polyfit(hours, [line["megabytes"] for line in warm], 1)[0])


def soak_table(samples: list[dict[str, Any]]) -> str:
    """Returns a row for each part in Markdown."""
    columns = "part|hours|CPU hours|steps|hours of play|MB at the start, once warm, at the end|MB an hour, once warm"
    rows = [f"{columns}|files|threads|MB on disk".split("|")]
    rows.append(["---"] * len(rows[0]))
    for part in sorted({line["part"] for line in samples}):
        own = [line for line in samples if line["part"] == part]
        last, warm = own[-1], own[int(WARM * len(own))]
        megabytes = ", ".join(f"{line['megabytes']:.0f}" for line in (own[0], warm, last))
        row = [
            str(part),
            f"{last['seconds'] / 3600:.2f}",
            f"{last['cpu_s'] / 3600:.2f}",
            f"{last['steps']:,}",
            f"{_PLAY * last['steps']:.2f}",
            megabytes,
        ]
        row += [f"{growth(own):+.1f}" if len(own) > 4 else "", f"{last['files']}", f"{last['threads']}"]
        rows.append([*row, f"{last['disk_megabytes']:.0f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def draw_soak(path: Path, samples: list[dict[str, Any]]) -> None:
    """Draws memory, and what is on the disk, over hours of the clock; a line is where a part began."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.4), layout="constrained")
    memory = figure.subplots()
    disk, before, cpu = memory.twinx(), 0.0, 0.0
    for part in sorted({line["part"] for line in samples}):
        own = [line for line in samples if line["part"] == part]
        hours = [before + line["seconds"] / 3600 for line in own]
        labels = (None, None) if part else ("memory of the process", "files of the run")
        memory.plot(hours, [line["megabytes"] for line in own], color="C0", label=labels[0])
        disk.plot(hours, [line["disk_megabytes"] for line in own], color="C1", linewidth=0.9, label=labels[1])
        memory.axvline(before, color="k", linewidth=0.5, linestyle=":")
        before, cpu = hours[-1], cpu + own[-1]["cpu_s"]
    memory.set(xlabel="hours", ylabel="megabytes of memory", ylim=(0, None))
    disk.set(ylabel="megabytes on disk", ylim=(0, None))
    memory.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=2, fontsize=9)
    last = samples[-1]
    memory.set_title(
        f"{last['steps']:,} steps of CartPole-v1, {_PLAY * last['steps']:.2f} hours of play, "
        f"{cpu / 3600:.2f} CPU hours",
        fontsize=10,
    )
    figure.savefig(path, dpi=110)
