"""The figures of all runs: as lines of JSON, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from pydantic import BaseModel

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.pictures import new_figure

LINES = "yardsticks.jsonl"  #: In the folder of all runs.


class Point(BaseModel):
    """What the best response wins per game, on average over both sides, computed exactly."""

    game: str
    method: str
    seed: int
    steps: int  #: Of both seats together, those included in which a player waits.
    policy: float
    average: float  #: Against the averaged policy.
    cpu_s: float  #: Of training, since it last began or went on.

    @property
    def nash_conv(self) -> float:
        """What best responses win for both sides together."""
        return 2 * self.policy


def read_points(folder: Path) -> list[Point]:
    """Returns all figures in a folder, the newest of what has been computed again; none if there are none."""
    path = folder / LINES
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    points = [Point.model_validate_json(line) for line in lines]
    return [*{(each.game, each.method, each.seed, each.steps): each for each in points}.values()]


def add_point(folder: Path, point: Point) -> None:
    """Adds a line to the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LINES).open("a", encoding="utf-8") as file:
        file.write(point.model_dump_json() + "\n")


def table(points: Sequence[Point]) -> str:
    """Returns a Markdown table of the last figures: means over the seeds that have come as far, and the range."""
    head = ["game", "method", "seeds", "steps", "exploitability", "of the averaged policy", "beside the first method"]
    rows = []
    for game in dict.fromkeys(each.game for each in points):
        of_first = None
        for method in dict.fromkeys(each.method for each in points if each.game == game):
            own = [each for each in points if (each.game, each.method) == (game, method)]
            steps = min(max(each.steps for each in own if each.seed == seed) for seed in {each.seed for each in own})
            last = [each for each in own if each.steps == steps]
            policies, averages = [each.policy for each in last], [each.average for each in last]
            of_first = mean(policies) if of_first is None else of_first
            ratio = f"{mean(policies) / of_first:.2f}, averaged {mean(averages) / of_first:.2f}"
            rows.append([game, method, str(len(last)), f"{steps:,}", _cell(policies), _cell(averages), ratio])
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def _cell(values: Sequence[float]) -> str:
    return f"{mean(values):.3f}" + (f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else "")


def draw_curves(path: Path, points: Sequence[Point]) -> None:
    """Draws a panel for each game: means over seeds, of policies and, dashed, of averaged policies."""
    games = [*dict.fromkeys(each.game for each in points)]
    methods = [*dict.fromkeys(each.method for each in points)]
    columns = min(len(games), 3)
    rows = -(-len(games) // columns)
    figure = new_figure(3.6 * columns, 3.2 * rows)
    panels = [figure.add_subplot(rows, columns, number + 1) for number in range(len(games))]
    for panel, game in zip(panels, games, strict=True):
        for number, method in enumerate(methods):
            own = [each for each in points if (each.game, each.method) == (game, method)]
            steps = sorted({each.steps for each in own})
            for name, style in (("policy", "-"), ("average", "--")):
                values = [mean(getattr(each, name) for each in own if each.steps == at) for at in steps]
                label = method if name == "policy" else f"{method}, averaged"
                panel.plot([at / 1e6 for at in steps], values, style, color=f"C{number}", label=label)
        panel.set(title=game.replace("_", " "), xlabel="million steps", yscale="log")
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("{x:g}")
    panels[0].set_ylabel("exploitability")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=110)
