"""Bands as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sb3_pvp.callbacks.plots.groups import Band
from sb3_pvp.common.atomic_files import replacing


def draw(path: Path, bands: Mapping[str, Band], title: str, share: bool = False) -> None:
    """Draws a line with its 95 % interval for each label.

    Args:
        path: the picture; its suffix says which kind, such as ``.png`` or ``.svg``.
        bands: by label.
        title: of the vertical axis.
        share: the values lie between 0 and 1.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.subplots()
    for number, (label, band) in enumerate(bands.items()):
        runs = "1 run" if band.num_runs == 1 else f"{band.num_runs} runs"
        axes.plot(band.steps / 1e6, band.center, color=f"C{number}", label=f"{label} ({runs})")
        axes.fill_between(band.steps / 1e6, band.low, band.high, color=f"C{number}", alpha=0.18, linewidth=0)
    axes.set(xlabel="million steps", ylabel=title)
    if share:
        axes.set(ylim=(0, 1), yticks=[tenth / 10 for tenth in range(11)])
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format=path.suffix.lstrip(".") or "png")
