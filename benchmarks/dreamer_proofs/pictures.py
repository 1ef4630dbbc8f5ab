"""The runs of proofs as a picture and as a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.dreamer_proofs.proofs import PROOFS, Bar, reached_at
from benchmarks.report import running_means

Runs = Mapping[tuple[str, int], Sequence[Mapping[str, Any]]]


def table(runs: Runs) -> str:
    """Returns a row for each run: when each bar was reached, how its last episodes went, and what it took."""
    rows = [["proof, seed", "bars", "reached after (env steps)", "last episodes", "updates", "CPU s"], ["---"] * 6]
    for (name, seed), episodes in sorted(runs.items()):
        bars = PROOFS[name].bars
        reached = [reached_at(episodes, bar) for bar in bars]
        shown = [f"{steps:,}" if steps is not None else f"not in {episodes[-1]['env_steps']:,}" for steps in reached]
        last = running_means([each["episode_return"] for each in episodes], bars[-1].episodes)[-1]
        spent = [f"{episodes[-1]['updates']:,}", f"{episodes[-1]['cpu_s']:,.0f}"]
        rows.append([f"{name}, {seed}", "; ".join(map(_text, bars)), "; ".join(shown), f"{last:,.2f}", *spent])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def draw_runs(path: Path, runs: Runs) -> None:
    """Draws the running means of returns over steps of the environment, one panel for each proof."""
    from matplotlib.figure import Figure

    names = sorted({name for name, _ in runs})
    columns = min(len(names), 4)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(3.6 * columns, 2.8 * rows), layout="constrained")
    panels = [*figure.subplots(rows, columns, squeeze=False).flat]
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    for panel, name in zip(panels, names, strict=False):
        bar = PROOFS[name].bars[0]
        for (each, seed), episodes in sorted(runs.items()):
            if each == name:
                steps, returns = ([episode[key] for episode in episodes] for key in ("env_steps", "episode_return"))
                panel.plot(steps, running_means(returns, bar.episodes), linewidth=1, label=f"seed {seed}")
        for other in PROOFS[name].bars:
            panel.plot([other.steps], [other.mean], "k*", markersize=9)
        panel.axhline(bar.mean, color="k", linewidth=0.6, linestyle=":")
        panel.set_title(f"{name}: mean of the last {bar.episodes} episodes", fontsize=9)
        panel.tick_params(labelsize=8)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7)
    figure.supxlabel("steps of the environment", fontsize=9)
    figure.savefig(path, dpi=110)


def _text(bar: Bar) -> str:
    return f"{bar.mean:g} (last {bar.episodes}, within {bar.steps:,})"
