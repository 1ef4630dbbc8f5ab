"""The results of trained fighters as a picture and a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.memory.fighters import HABITS, RESULTS, ratings, share
from sb3_pvp.common.errors import Refusal

HALVES = ("fights", "first", "second")


def _results(out: Path) -> dict[str, Any]:
    file = out / RESULTS
    if not file.is_file():
        raise Refusal(f"{out} has no {RESULTS}: make it with `python -m benchmarks memory compare`")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def table(out: Path) -> str:
    """Returns a row for each fighter as Markdown."""
    found = _results(out)
    columns = [f"{habit}, {half}" for habit in HABITS for half in HALVES]
    lines = [["fighter", "rating", *columns, "best response wins"]]
    lines.append(["---"] * len(lines[0]))
    for name, (rating, low, high) in sorted(ratings(found).items(), key=lambda each: -each[1][0]):
        cells = [f"{rating:.0f} ({low:.0f} to {high:.0f})"]
        for habit in HABITS:
            counts = found["habits"].get(f"{name} {habit}")
            cells += [_percent(*share(counts[half])) if counts else "" for half in HALVES]
        bound = found["exploit"].get(name)
        lines.append([name, *cells, _percent(*bound) if bound else ""])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _percent(value: float, low: float, high: float) -> str:
    return f"{value:.1%} ({low:.1%} to {high:.1%})"


def _bars(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, tuple[float, float, float]]]]:
    yield "rating", ratings(found)
    names = [*ratings(found)]
    for habit in HABITS:
        counted = {name: counts["second"] for name in names if (counts := found["habits"].get(f"{name} {habit}"))}
        yield f"second half won, habit of {habit}", {name: share(counts) for name, counts in counted.items()}
    yield "a best response wins", {name: tuple(bound) for name, bound in found["exploit"].items() if bound}


def draw_results(out: Path, picture: Path) -> None:
    """Draws ratings, second halves and best responses with 95 % intervals, a bar for each fighter."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    for axes, (title, bars) in zip(figure.subplots(1, 4), _bars(_results(out)), strict=True):
        axes.set_title(title, fontsize=9)
        kinds = [*dict.fromkeys(name.partition("-")[0] for name in bars)]
        for place, (name, (value, low, high)) in enumerate(bars.items()):
            color = f"C{kinds.index(name.partition('-')[0])}"
            axes.errorbar(place, value, [[value - low], [high - value]], fmt="o", color=color, capsize=3)
        axes.set_xticks(range(len(bars)), [*bars], rotation=60, fontsize=7)
        axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=110)
