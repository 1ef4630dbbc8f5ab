"""How many solved positions are answered best, as a picture and as a Markdown table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from benchmarks.search.learning import LINES, METHODS
from sb3_pvp.common.atomic_files import replacing

Shares = Mapping[tuple[str, int], NDArray[np.float64]]
_POINTS = 40  #: Of a curve.


def read_shares(folder: Path) -> Shares:
    """Returns CPU seconds and shares ``(n, 2)`` of each method and seed; raises `ValueError` for other files."""
    file, found = folder / LINES, dict[tuple[str, int], dict[float, float]]()
    try:
        for line in map(json.loads, file.read_text().splitlines()):
            found.setdefault((line["method"], line["seed"]), {})[line["cpu_s"]] = line["share"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(f"{file} holds no measurements of search run: {error}") from error
    return {part: np.array(sorted(points.items())) for part, points in sorted(found.items())}


def table(shares: Shares) -> str:
    """Returns a row for each method: how many seeds, CPU minutes of the shortest, and the last share of each."""
    rows = [["method", "seeds", "CPU minutes", "share answered best", "by seed"], ["---"] * 5]
    for method in METHODS:
        own = [points for (each, _), points in shares.items() if each == method]
        if own:
            end = min(points[-1, 0] for points in own)
            last = [float(np.interp(end, *points.T)) for points in own]
            low, high = _interval(np.array([last]))
            spread = f" [{low[0]:.3f}, {high[0]:.3f}]" if len(last) > 1 else ""
            by_seed = ", ".join(f"{share:.3f}" for share in last)
            rows.append([method, f"{len(own)}", f"{end / 60:.1f}", f"{np.mean(last):.3f}{spread}", by_seed])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def draw_shares(path: Path, shares: Shares) -> None:
    """Draws a curve for each method: the mean over the seeds, with its 95 % interval, and each seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for color, method in enumerate(METHODS):
        own = [points for (each, _), points in shares.items() if each == method]
        if not own:
            continue
        seconds = np.linspace(0, min(points[-1, 0] for points in own), _POINTS)
        lines = np.stack([np.interp(seconds, *points.T) for points in own], 1)
        axes.plot(seconds / 60, lines.mean(1), color=f"C{color}", label=f"{method}, {len(own)} seeds")
        axes.plot(seconds / 60, lines, color=f"C{color}", linewidth=0.5, alpha=0.6)
        if len(own) > 1:
            axes.fill_between(seconds / 60, *_interval(lines), color=f"C{color}", alpha=0.15)
    axes.set(xlabel="CPU minutes", ylabel="share of solved positions answered best", title="Connect four")
    axes.grid(alpha=0.3)
    axes.legend()
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=110)


def _interval(lines: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the 95 % interval of the mean over seeds of each row ``(n, seeds)``, by Student's t."""
    count, mean = lines.shape[1], lines.mean(1)
    if count < 2:
        return mean, mean
    half = lines.std(1, ddof=1) / np.sqrt(count) * t.ppf(0.975, count - 1)
    return mean - half, mean + half
