"""``python -m docs.dreamer_picture`` draws DreamerV3 in one picture, ``docs/dreamer.png``."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

PICTURE = Path(__file__).with_name("dreamer.png")
WORLD, ACTING, LEARNT, PALE = "#3b6fb6", "#c0692b", "#2f8f5b", "#f4f1ea"
Point = tuple[float, float]


def box(axes: Axes, center: Point, text: str, color: str, width: float = 1.0, height: float = 0.52) -> None:
    """Draws a network, or what is kept somewhere."""
    corner = (center[0] - width / 2, center[1] - height / 2)
    axes.add_patch(FancyBboxPatch(corner, width, height, "round,pad=0.02,rounding_size=0.1", fc=PALE, ec=color, lw=1.6))
    axes.text(*center, text, ha="center", va="center", fontsize=9)


def state(axes: Axes, center: Point, text: str, color: str = WORLD) -> None:
    """Draws a state of the world."""
    axes.add_patch(Circle(center, 0.33, fc="white", ec=color, lw=2))
    axes.text(*center, text, ha="center", va="center", fontsize=10)


def arrow(axes: Axes, start: Point, end: Point, color: str = "0.35") -> None:
    """Draws what goes from one to another."""
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": color, "lw": 1.4})


def draw_world_model(axes: Axes) -> None:
    """Draws how the model follows a sequence of the replay."""
    axes.set_title("1  The model follows what was recorded", loc="left", fontsize=11)
    for i in range(3):
        x = 1.1 + 2.2 * i
        axes.text(x - 0.45, 0.15, f"$x_{i}$", ha="center", fontsize=11)
        box(axes, (x - 0.45, 0.85), "encoder", WORLD)
        arrow(axes, (x - 0.45, 0.32), (x - 0.45, 0.57))
        state(axes, (x, 2.2), f"$s_{i}$")
        arrow(axes, (x - 0.45, 1.13), (x - 0.12, 1.88))
        box(axes, (x, 3.5), "decoder, reward,\ncontinue", LEARNT, 1.62, 0.66)
        arrow(axes, (x, 2.54), (x, 3.15))
        axes.text(x, 4.1, rf"$\hat x_{i}\;\;\hat r_{i}\;\;\hat c_{i}$", ha="center", fontsize=11)
        if i:
            arrow(axes, (x - 1.86, 2.2), (x - 0.34, 2.2), WORLD)
            axes.text(x - 1.1, 2.34, "block GRU", ha="center", fontsize=8.5, color=WORLD)
            axes.text(x - 1.1, 1.62, f"$a_{i - 1}$", ha="center", fontsize=11, color=ACTING)
            arrow(axes, (x - 1.1, 1.8), (x - 1.1, 2.17), ACTING)
    axes.text(
        3.3, -0.75,
        "A state is a memory and 32 draws out of classes. Losses: what was seen, rewards,\n"
        "continuation, and KL between draws expected before $x_t$ and made with it.",
        ha="center", va="center", fontsize=8.5,
    )  # fmt: skip


def draw_imagination(axes: Axes) -> None:
    """Draws how actor and critic learn inside the model."""
    axes.set_title("2  Actor and critic learn inside the model", loc="left", fontsize=11)
    names = ("$s_t$", r"$\hat s_{t+1}$", r"$\hat s_{t+2}$")
    for i, name in enumerate(names):
        x = 0.9 + 2.2 * i
        state(axes, (x, 2.2), name)
        box(axes, (x, 3.5), "reward, critic", LEARNT, 1.4)
        arrow(axes, (x, 2.54), (x, 3.22))
        axes.text(x, 4.1, r"$\hat r\;\;\hat c\;\;v$", ha="center", fontsize=11)
        box(axes, (x, 0.85), "actor", ACTING)
        arrow(axes, (x, 1.86), (x, 1.13), ACTING)
        if i < 2:
            arrow(axes, (x + 0.34, 2.2), (x + 1.86, 2.2), WORLD)
            axes.text(x + 1.1, 2.34, "block GRU, draw", ha="center", fontsize=8.5, color=WORLD)
            arrow(axes, (x + 0.52, 0.95), (x + 1.1, 2.15), ACTING)
            axes.text(x + 1.0, 1.35, r"$\hat a$", fontsize=11, color=ACTING)
    axes.text(
        3.1, -0.45,
        "15 steps from every recorded state, without the environment. The critic learns\n"
        "λ-returns of the imagined rewards (and of the recorded ones); the actor, what made\n"
        "them larger than the critic expected, divided by how far returns are apart.",
        ha="center", va="center", fontsize=8.5,
    )  # fmt: skip


def draw_loop(axes: Axes) -> None:
    """Draws what goes round."""
    axes.set_title("3  What goes round", loc="left", fontsize=11)
    box(axes, (1.6, 3.6), "environments", "0.4", 1.9)
    box(axes, (1.6, 1.9), "replay of sequences,\nfresh ones first", "0.4", 1.9, 0.7)
    box(axes, (1.6, 0.2), "model, actor, critic:\none LaProp step", LEARNT, 1.9, 0.7)
    arrow(axes, (1.2, 3.32), (1.2, 2.28))
    axes.text(1.1, 2.8, "$x\\;r\\;a$, ends,\nstates", fontsize=8.5, ha="right", va="center")
    arrow(axes, (1.2, 1.53), (1.2, 0.57))
    axes.text(1.1, 1.05, "16 x 64\nsteps", fontsize=8.5, ha="right", va="center")
    arrow(axes, (2.0, 0.57), (2.0, 1.53), WORLD)
    axes.text(2.1, 1.05, "new states", fontsize=8.5, va="center", color=WORLD)
    axes.plot([2.57, 3.05, 3.05, 2.6], [0.2, 0.2, 3.6, 3.6], color=ACTING, lw=1.4)
    arrow(axes, (2.8, 3.6), (2.57, 3.6), ACTING)
    axes.text(2.95, 2.9, "acts with\na state that\nis carried on", fontsize=8.5, va="center", ha="right", color=ACTING)
    axes.text(1.6, -0.62, "train_ratio: replayed steps for each new one", fontsize=8.5, ha="center")


def main() -> None:
    """Draws the picture."""
    figure = Figure(figsize=(15, 4.6), layout="constrained")
    panels = figure.subplots(1, 3, width_ratios=(6.6, 6.4, 3.4))
    for axes, draw, width in zip(panels, (draw_world_model, draw_imagination, draw_loop), (6.7, 6.3, 3.3), strict=True):
        draw(axes)
        axes.set(xlim=(0 if width < 4 else -0.2, width), ylim=(-1.2, 4.5), aspect="equal")
        axes.set_axis_off()
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
