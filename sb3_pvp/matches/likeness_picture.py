"""A picture of how alike two players are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sb3_pvp.algorithms.imitation.likeness import Habit, Likeness
from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.pictures import new_figure

_COLUMNS = 3


def draw_likeness(path: str | Path, found: Likeness, names: tuple[str, str]) -> None:
    """Draws the divergences of the heads, and the habits of both players as histograms; ``names`` are theirs."""
    habits = {"choices made in a tick": found.actions_per_tick, **found.habits}
    rows = -(-(len(habits) + 1) // _COLUMNS)
    figure = new_figure(4.2 * _COLUMNS, 3.0 * rows)
    first, *panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    bars = first.barh([*found.heads][::-1], [*found.heads.values()][::-1], color="0.5")
    first.bar_label(bars, fmt=" %.3f", fontsize=7)
    first.set(xlim=(0, max(0.05, 1.3 * max(found.heads.values(), default=0.0))), xlabel="divergence of choices, bits")
    first.set_title(f"{names[0]} and {names[1]}: told apart in {found.accuracy:.0%} of ticks", fontsize=9)
    for panel, (name, habit) in zip(panels, habits.items(), strict=False):
        _draw_habit(panel, habit, names)
        panel.set_title(f"{name}\n(divergence {habit.divergence:.2f})", fontsize=9)
    panels[0].legend(fontsize=8, frameon=False)
    for panel in panels[len(habits) :]:
        panel.set_axis_off()
    with replacing(Path(path)) as partial:
        figure.savefig(partial, format="png", dpi=110)


def _draw_habit(panel: object, habit: Habit, names: tuple[str, str]) -> None:
    axes, both = panel, np.concatenate([habit.ours, habit.theirs])
    if not len(both):
        return
    values = np.unique(both)
    whole = len(values) <= 20 and (values == values.round()).all()
    edges = np.arange(values[0] - 0.5, values[-1] + 1) if whole else np.linspace(values[0], values[-1] + 1e-9, 21)
    for own, name, style in ((habit.ours, names[0], "-"), (habit.theirs, names[1], "--")):
        if len(own):
            shares = np.histogram(own, edges)[0] / len(own)
            axes.stairs(shares, edges, label=name, linestyle=style, linewidth=1.6)  # type: ignore[attr-defined]
    axes.set(ylabel="share", ylim=(0, None))  # type: ignore[attr-defined]
