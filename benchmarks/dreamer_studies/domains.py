"""Minutes of training of the presets of other domains, as a user starts them, beside random actions."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rl_zoo3.utils import get_wrapper_class
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.dreamer_studies.soak import ended, start_training
from benchmarks.json_lines import append_line, read_lines
from benchmarks.report import running_means
from sb3_pvp.algorithms.presets import Preset, presets
from sb3_pvp.callbacks.metric_lines import SCORES
from sb3_pvp.zoo.domains import DOMAINS, register_domain

#: The CPU seconds of each part of a training, and the returns of random episodes: a line each.
PARTS, RANDOM = "parts.jsonl", "random.jsonl"
EPISODES = 40  #: Of random actions, and at most so many at the end of a training are its last ones.
LEAST = 5  #: Last episodes of which there is an interval; of a single one it would be that of random actions.
REPEATS = 10_000  #: Of the bootstrap.


def domain_presets() -> dict[str, Preset]:
    """Returns the presets whose environments are of packages that are installed."""
    prefixes = tuple(prefix for domain in DOMAINS.values() if domain.is_installed for prefix in domain.prefixes)
    return {name: each for name, each in presets().items() if each.env_id.startswith(prefixes)}


def train_part(name: str, out: Path, cpu_seconds: float) -> None:
    """Trains a preset for so many CPU seconds, or goes on with it; ends it by a signal, by which it is saved.

    Raises `Refusal` if the training fails.
    """
    out.mkdir(parents=True, exist_ok=True)
    output, spent = out / f"{name}.txt", 0.0
    with closing(start_training(output, "--preset", name, "--logdir", str(out / name))) as watcher:
        while spent < cpu_seconds and (code := watcher.poll()) is None:
            time.sleep(0.5)
            with suppress(psutil.Error):
                spent = sum(sum(each.cpu_times()[:2]) for each in psutil.Process(watcher.pid).children())
        if spent < cpu_seconds and code:
            raise ended(output, code)
    append_line(out / PARTS, {"preset": name, "cpu_s": round(spent, 1)})


def play_randomly(name: str, preset: Preset, out: Path) -> None:
    """Plays `EPISODES` episodes of random actions in the environment of a preset, with its wrappers."""
    path = out / RANDOM
    done = len([line for line in read_lines(path) if line["preset"] == name]) if path.exists() else 0
    register_domain(preset.env_id)
    hyperparams = preset.hyperparams()
    env = make_vec_env(
        preset.env_id,
        env_kwargs=hyperparams.get("env_kwargs"),
        wrapper_class=get_wrapper_class(hyperparams),
        seed=done,
    )
    with closing(env):
        env.action_space.seed(done)
        env.reset()
        while done < EPISODES:
            _, _, _, infos = env.step(np.array([env.action_space.sample()]))
            if "episode" in infos[0]:  # of SB3's Monitor
                append_line(path, {"preset": name, "return": float(infos[0]["episode"]["r"])})
                done += 1


def domain_rows(out: Path) -> list[dict[str, Any]]:
    """Returns what each preset was trained for and has learnt: a mapping for each that has scores.

    ``random`` and ``last`` are returns of episodes ``(n,)``, of random actions and at the end; ``more`` is how much
    more the last ones got, with its 95 % interval of a bootstrap over episodes, of `LEAST` and more.
    """
    rows, rng = [], np.random.default_rng(0)
    for name in presets():
        scores = out / name / SCORES
        lines = read_lines(scores) if scores.exists() else []
        if not lines:  # its first episode has not ended yet
            continue
        returns = np.array([line["episode/score"] for line in lines])
        chance = np.array([line["return"] for line in read_lines(out / RANDOM) if line["preset"] == name])
        last = returns[-min(EPISODES, max(len(returns) // 4, 1)) :]
        drawn = [rng.choice(each, (REPEATS, len(each))).mean(axis=1) for each in (last, chance)]
        low, high = np.percentile(drawn[0] - drawn[1], (2.5, 97.5))
        rows.append(
            {
                "preset": name,
                "steps": np.array([line["step"] for line in lines]),
                "returns": returns,
                "random": chance,
                "last": last,
                "more": (last.mean() - chance.mean(), low, high),
                "cpu_s": sum(line["cpu_s"] for line in read_lines(out / PARTS) if line["preset"] == name),
            }
        )
    return rows


def domain_table(rows: list[dict[str, Any]]) -> str:
    """Returns a row for each preset in Markdown."""
    lines = ["| preset | steps | episodes | CPU minutes | random | last episodes | more (95 % interval) |"]
    lines.append("|---" * 7 + "|")
    for row in rows:
        more, low, high = row["more"]
        interval = f"{more:+.2f} ({low:+.2f} to {high:+.2f})" if len(row["last"]) >= LEAST else f"fewer than {LEAST}"
        lines.append(
            f"| `{row['preset']}` | {row['steps'][-1]:,} | {len(row['returns'])} | {row['cpu_s'] / 60:.1f} | "
            f"{row['random'].mean():.2f} | {row['last'].mean():.2f} of {len(row['last'])} | "
            f"{interval} |"
        )
    return "\n".join(lines)


def draw_domains(path: Path, rows: list[dict[str, Any]]) -> None:
    """Draws the returns of episodes over steps, their running mean, and the mean of random actions: a panel each."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * len(rows), 3.4), layout="constrained")
    for panel, row in zip(figure.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
        steps, returns = row["steps"], row["returns"]
        panel.plot(steps, returns, ".", color="C0", alpha=0.25, markersize=4)
        panel.plot(steps, running_means(returns, max(len(returns) // 10, 3)), color="C0", label="learner")
        panel.axhline(row["random"].mean(), color="C1", label="random")
        panel.set_title(f"{row['preset']}, {row['cpu_s'] / 60:.0f} CPU minutes", fontsize=10)
        panel.set_xlabel("environment steps")
        panel.grid(alpha=0.3)
    figure.axes[0].set_ylabel("return of an episode")
    figure.axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
