"""Hours of training as a user starts it, watched from outside: whether its memory stays as it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sb3_pvp.callbacks.metric_lines import METRICS

LINES, RUN = "memory.jsonl", "run"
#: A replay that is full after a quarter of an hour, in a folder, with all that a run writes.
SETTINGS = (
    "n_envs:4", "n_timesteps:1e9", "policy:'MlpPolicy'", "learning_rate:1e-3", "batch_length:32", "imag_last:8",
    "train_ratio:128", "buffer_size:50000", "policy_kwargs:dict(size='micro', optimizer_kwargs=dict(warmup=100))",
)  # fmt: skip
#: The share of a part after which it is warm: all is imported, and all that is kept has been made.
WARM = 0.2


def soak_part(out: Path, seconds: float) -> None:
    """Trains for so many seconds of the clock, or goes on with it, and appends what it takes; ends it by a signal."""
    out.mkdir(parents=True, exist_ok=True)
    part = max((line["part"] for line in read_samples(out)), default=-1) + 1
    command = [sys.executable, "-m", "sb3_pvp.zoo", "train", "--algo", "dreamerv3", "--env", "CartPole-v1"]
    command += ["--logdir", str(out / RUN), "--verbose", "0", "--eval-freq", "-1", "--seed", "0", "-params", *SETTINGS]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with (out / "output.txt").open("ab") as output:
        process = subprocess.Popen(command, env=os.environ | one_thread, stdout=output, stderr=output)
        watched, start, wait = psutil.Process(process.pid), time.monotonic(), min(max(seconds / 200, 0.5), 20.0)
        try:
            while (now := time.monotonic() - start) < seconds and process.poll() is None:
                time.sleep(wait)
                with (out / LINES).open("a") as file:
                    file.write(
                        json.dumps({"part": part, "seconds": round(now, 1)} | _sample(watched, out / RUN)) + "\n"
                    )
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _sample(process: psutil.Process, run: Path) -> dict[str, Any]:
    metrics = run / METRICS
    logged = metrics.read_bytes().splitlines(keepends=True)[-2:] if metrics.exists() else []
    steps = [json.loads(line)["step"] for line in logged if line.endswith(b"\n")]
    files = (path.stat().st_size for path in run.rglob("*") if path.is_file())
    with process.oneshot():
        return {
            "megabytes": process.memory_full_info().uss / 2**20,  # its own, not what it shares
            "cpu_s": sum(process.cpu_times()[:2]),
            "files": process.num_fds(),
            "threads": process.num_threads(),
            "disk_megabytes": sum(files) / 2**20,
            "steps": max(steps, default=0),
        }


def read_samples(out: Path) -> list[dict[str, Any]]:
    """Returns all samples of all parts."""
    path = out / LINES
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def growth(samples: list[dict[str, Any]]) -> float:
    """Returns the megabytes by which a part grows in an hour once it is warm: the slope of a line through them."""
    warm = samples[int(WARM * len(samples)) :]
    hours = np.array([line["seconds"] for line in warm]) / 3600
    return float(np.polyfit(hours, [line["megabytes"] for line in warm], 1)[0])


def soak_table(samples: list[dict[str, Any]]) -> str:
    """Returns a row for each part in Markdown."""
    rows = [["part", "hours", "CPU hours", "steps", "MB at the start, once warm, at the end", "MB an hour, once warm"]]
    rows[0] += ["files", "threads", "MB on disk"]
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
    disk, before = memory.twinx(), 0.0
    for part in sorted({line["part"] for line in samples}):
        own = [line for line in samples if line["part"] == part]
        hours = [before + line["seconds"] / 3600 for line in own]
        labels = (None, None) if part else ("memory of the process", "files of the run")
        memory.plot(hours, [line["megabytes"] for line in own], color="C0", label=labels[0])
        disk.plot(hours, [line["disk_megabytes"] for line in own], color="C1", linewidth=0.9, label=labels[1])
        memory.axvline(before, color="k", linewidth=0.5, linestyle=":")
        before = hours[-1]
    memory.set(xlabel="hours", ylabel="megabytes of memory", ylim=(0, None))
    disk.set(ylabel="megabytes on disk", ylim=(0, None))
    memory.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=2, fontsize=9)
    last = samples[-1]
    memory.set_title(
        f"{last['steps']:,} steps of CartPole-v1, {last['steps'] * 0.02 / 3600:.2f} hours of play", fontsize=10
    )
    figure.savefig(path, dpi=110)
