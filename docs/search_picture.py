"""``python -m docs.search_picture`` draws how a tree and a policy feed each other, ``docs/search.png``."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from docs.dreamer_picture import ACTING, LEARNT, WORLD, Point, arrow, box, state

PICTURE = Path(__file__).with_name("search.png")
_NODES: dict[str, Point] = {"a": (3.0, 3.8), "b": (1.4, 2.3), "c": (3.0, 2.3), "d": (4.6, 2.3), "e": (3.0, 0.8)}


def draw_tree(axes: Axes) -> None:
    """Draws what a simulation does."""
    axes.set_title("1  A simulation: down by what is known, one copy more, back up", loc="left", fontsize=11)
    for start, end, visits in (("a", "b", 7), ("a", "c", 21), ("a", "d", 4)):
        (x, y), (to_x, to_y) = _NODES[start], _NODES[end]
        chosen = end == "c"
        arrow(axes, (x + (to_x - x) * 0.2, y - 0.34), (to_x, to_y + 0.36), WORLD if chosen else "0.6")
        axes.text((x + to_x) / 2 + 0.12, (y + to_y) / 2, f"{visits}", fontsize=9, color=WORLD if chosen else "0.4")
    arrow(axes, (3.0, 1.94), (3.0, 1.16), ACTING)
    axes.text(3.12, 1.5, "copy_fights, step", fontsize=8.5, color=ACTING, va="center")
    for name, center in _NODES.items():
        state(axes, center, "new" if name == "e" else "", ACTING if name == "e" else WORLD)
    box(axes, (6.3, 0.8), "network\n(all trees at once)", LEARNT, 1.9, 0.7)
    arrow(axes, (3.36, 0.8), (5.32, 0.8))
    axes.text(4.35, 0.98, "what the mover sees", fontsize=8.5, ha="center")
    axes.plot([6.3, 6.3, 3.4], [1.17, 3.8, 3.8], color=LEARNT, lw=1.4)
    arrow(axes, (3.5, 3.8), (3.35, 3.8), LEARNT)
    axes.text(6.2, 2.6, "value: up to the root\npriors: for what\ncomes below", fontsize=8.5, ha="right", color=LEARNT)
    axes.text(
        3.6, -0.35,
        "PUCT goes where value + prior · √visits / (1 + own visits) is largest. After so many\n"
        "simulations the visits of the root's moves say more than the network did.",
        ha="center", va="center", fontsize=8.5,
    )  # fmt: skip


def draw_loop(axes: Axes) -> None:
    """Draws what goes round in expert iteration."""
    axes.set_title("2  Expert iteration: the policy learns what the search found", loc="left", fontsize=11)
    box(axes, (1.5, 3.6), "games against itself,\neach move searched", WORLD, 2.3, 0.7)
    box(axes, (5.1, 3.6), "positions, visits,\nwho has won", "0.4", 2.1, 0.7)
    box(axes, (5.1, 1.0), "towards visits: policy\ntowards the end: value", LEARNT, 2.3, 0.7)
    box(axes, (1.5, 1.0), "network", LEARNT, 1.4, 0.6)
    arrow(axes, (2.7, 3.6), (4.0, 3.6))
    axes.text(3.35, 3.75, "as games end", fontsize=8.5, ha="center")
    arrow(axes, (5.1, 3.22), (5.1, 1.4))
    axes.text(5.2, 2.3, "the newest\n(window)", fontsize=8.5, va="center")
    arrow(axes, (3.9, 1.0), (2.25, 1.0), LEARNT)
    arrow(axes, (1.5, 1.33), (1.5, 3.22), LEARNT)
    axes.text(1.6, 2.3, "better priors and values:\na better search", fontsize=8.5, va="center", color=LEARNT)
    axes.text(
        3.3, -0.35,
        "A search is a policy made better by looking ahead; the network is\nthat search, remembered.",
        ha="center", va="center", fontsize=8.5,
    )  # fmt: skip


def main() -> None:
    """Draws the picture."""
    figure = Figure(figsize=(13, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, width_ratios=(7.6, 6.6))
    for axes, draw, width in zip(panels, (draw_tree, draw_loop), (7.5, 6.5), strict=True):
        draw(axes)
        axes.set(xlim=(0, width), ylim=(-0.8, 4.4), aspect="equal")
        axes.set_axis_off()
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
