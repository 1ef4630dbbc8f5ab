"""What can be read from pictures of the lanes with a linear probe, by their size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.pictures import new_figure
from sb3_pvp.games.lanes import LANES, lanes_pixels
from sb3_pvp.games.lanes.cards import KIND, NUM_TOWERS, TROOP
from sb3_pvp.games.lanes.pixels import draw
from sb3_pvp.games.lanes.rules import CARD, DROPS, LEFT, X, Y

_BATTLES, _EVERY = 20, 8
_WINDOW = 3  #: Tiles around a troop that the probe sees.
_RIDGE = 10.0
#: Of the picture: what is drawn, its title, and the name of its axis.
_CHARTS = (
    ("troop_accuracy", "Which troop it is (higher is better)", "share named right"),
    ("elixir_error", "Own elixir (lower is better)", "mean error, of 0 to 10"),
)


def probe(size: int, frames: int) -> dict[str, float]:
    """Returns how well a linear probe reads what it has not seen in pictures of this size.

    ``elixir_error`` is its mean error in elixir, from whole pictures; ``troop_accuracy`` the share of troops that it
    names, from a window of three tiles around each; those that begin with ``blind`` are of who sees no picture, and
    always says the mean or the most frequent troop; ``troops`` is how many kinds there are to tell apart.
    """
    lanes_pixels(size)  # refuses what is too small
    pictures, elixir, windows, troops = _frames(size, frames)
    cut, rows = frames * 3 // 4, len(windows) * 3 // 4
    read = _fit(pictures[:cut], elixir[:cut, None], pictures[cut:])[:, 0]
    names = np.unique(troops)
    is_named = troops[:, None] == names
    guessed = _fit(windows[:rows], is_named[:rows].astype(np.float64), windows[rows:])
    return {
        "size": size,
        "elixir_error": float(np.abs(read - elixir[cut:]).mean()),
        "blind_elixir_error": float(np.abs(elixir[:cut].mean() - elixir[cut:]).mean()),
        "troop_accuracy": float((names[guessed.argmax(axis=1)] == troops[rows:]).mean()),
        "blind_troop_accuracy": float(is_named[rows:, is_named[:rows].sum(axis=0).argmax()].mean()),
        "troops": len(names),
    }


def _frames(size: int, frames: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Plays scripts against each other; returns pictures, elixir, windows around troops, and these troops' cards."""
    params = {"deck": "random", "bot": "guardian"}
    world = LANES.make_world("sim", _BATTLES, 0, params)
    both = {"bots": ("baseline", "baseline"), "reset_params": params}
    world.reset(options={"seed": 1, **both})
    pictures: list[Any] = []
    elixir: list[float] = []
    windows: list[Any] = []
    troops: list[int] = []
    canvas = np.zeros((_BATTLES, 2, 3, size, size), np.float32)
    width = max(_WINDOW * size // 32, 2)
    while len(pictures) < frames:
        for _ in range(_EVERY):
            world.step(np.zeros((_BATTLES, 2, 3), np.int64))
            over = np.flatnonzero(world.outcome[:, 0])
            world.reset(over, both)
        draw(np.arange(_BATTLES), world.figures, world.battles, canvas)
        for fight in range(_BATTLES):
            pictures.append(canvas[fight, 0].astype(np.uint8).ravel())
            elixir.append(world.elixir[fight, 0] / DROPS)
            for card, x, y in _troops(world, fight):
                left, top = (x + 9000) * size // 32000 - width // 2, (16000 - y) * size // 32000 - width // 2
                if min(left, top) >= 0 and max(left, top) <= size - width:
                    window = canvas[fight, 0, :, top : top + width, left : left + width]
                    windows.append(window.astype(np.uint8).ravel())
                    troops.append(card)
    few = slice(0, frames)
    return np.array(pictures[few]), np.array(elixir[few]), np.array(windows), np.array(troops)


def _troops(world: Any, fight: int) -> list[tuple[int, int, int]]:
    found = []
    for seat in range(2):
        for unit in world.units[fight, seat, NUM_TOWERS : world.tops[fight, seat]].tolist():
            if unit[LEFT] > 0 and world.figures[unit[CARD], KIND] == TROOP:
                found.append((unit[CARD], unit[X], unit[Y]))
    return found


def _fit(seen: NDArray[Any], told: NDArray[Any], others: NDArray[Any]) -> NDArray[np.float64]:
    """Returns what ridge regression reads in ``others``, in its dual form: pictures have more pixels than rows."""
    mean, level = seen.mean(axis=0, dtype=np.float32), told.mean(axis=0)
    one, two = ((each.astype(np.float32) - mean) / 255.0 for each in (seen, others))
    weights = np.linalg.solve((one @ one.T).astype(np.float64) + _RIDGE * np.eye(len(one)), told - level)
    fitted: NDArray[np.float64] = (two @ one.T).astype(np.float64) @ weights + level
    return fitted


def draw_legibility(path: Path, rows: Sequence[dict[str, float]]) -> None:
    """Draws what is read by the size of pictures."""

    path.parent.mkdir(parents=True, exist_ok=True)
    figure = new_figure(8, 3.2)
    sizes, places = [row["size"] for row in rows], range(len(rows))
    for axes, (name, title, label) in zip(figure.subplots(1, 2), _CHARTS, strict=True):
        values = [row[name] for row in rows]
        axes.plot(places, values, "o-", label="linear probe")
        axes.plot(places, [row[f"blind_{name}"] for row in rows], "--", color="grey", label="without a picture")
        for place, value in zip(places, values, strict=True):
            axes.annotate(f"{value:.2g}", (place, value), textcoords="offset points", xytext=(0, 6), ha="center")
        axes.set_xticks(places, [f"{size:g}" for size in sizes])
        axes.set(xlabel="pixels a side", ylabel=label, title=title)
        axes.margins(x=0.12)
        axes.set_ylim(0, 1.15 * max([*values, *(row[f"blind_{name}"] for row in rows)]))
        axes.legend(fontsize=8, loc="center right")
    figure.savefig(path, dpi=130)
