"""``sb3-pvp plot``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.usage import AsJson, tell
from sb3_pvp.common.names import require_known

if TYPE_CHECKING:
    from sb3_pvp.callbacks.plots import Band

SOURCES = "Folders of runs, or folders with runs in them, such as logs/maskable_ppo; LABEL=FOLDER names its line."
METRIC = (
    "win_rate, eval_win_rate, eval_reward, episode_reward, episode_length, elo or rating; default: win_rate with "
    "--opponent, else the first of these that all runs have recorded."
)


def plot(
    sources: Annotated[list[str], typer.Argument(help=SOURCES, show_default=False)],
    metric: Annotated[str | None, typer.Option(help=METRIC)] = None,
    opponent: Annotated[
        list[str] | None,
        typer.Option(help="Against whom win rates are, a name in win_rates.csv. Several times: a line each."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture: .png, .svg or .pdf.", dir_okay=False)] = Path(
        "runs.png"
    ),
    as_json: AsJson = False,
) -> None:
    """Draw learning curves of training runs.

    Runs of the same label and hyperparameters make one line, their interquartile mean, with a 95 % interval that is
    bootstrapped over them. A single run has its own interval.
    """
    from matplotlib.backend_bases import FigureCanvasBase

    from sb3_pvp.callbacks.plots import METRICS, common_metric, draw, find_runs, group_runs, read_curve, summarize

    require_known("kind of picture", out.suffix[1:] or "png", FigureCanvasBase.get_supported_filetypes())
    opponents = opponent or ["baseline"]
    groups = group_runs(find_runs(sources))
    if metric is None:
        metric = "win_rate" if opponent else common_metric([run for runs in groups.values() for run in runs])
    curves = {
        f"{label}, {name}" if len(opponents) > 1 else label: [read_curve(run, metric, name) for run in runs]
        for label, runs in groups.items()
        for name in opponents
    }
    bands = {label: summarize(own) for label, own in curves.items()}
    title = METRICS[metric].title.format(opponent=" and ".join(opponents))
    draw(out, bands, title, METRICS[metric].share)
    lines = ", ".join(f"{label} ({band.num_runs})" for label, band in bands.items())
    tell({label: _figures(band) for label, band in bands.items()}, f"{out}: {metric} of {lines}", as_json)


def _figures(band: Band) -> dict[str, Any]:
    lines = {name: getattr(band, name).tolist() for name in ("steps", "center", "low", "high")}
    return {"num_runs": band.num_runs, **lines}
