"""``sb3-pvp presets``, ``runs`` and ``plot``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.tables import AsJson, Column, print_result, print_table
from sb3_pvp.cli.usage import choice, complete_preset
from sb3_pvp.common.arguments import as_written
from sb3_pvp.common.errors import Refusal, extra, require_known

if TYPE_CHECKING:
    from sb3_pvp.algorithms.presets import Preset

SOURCES = "Folders of runs, or folders that contain runs, such as logs/maskable_ppo; LABEL=FOLDER sets a label."
METRICS = ("win_rate", "eval_win_rate", "eval_reward", "episode_reward", "episode_length", "elo", "rating", "ghost_elo")
_METRIC = "Metric; default: win_rate with --opponent, otherwise the first of these that all runs have."


def presets(
    name: Annotated[
        str | None,
        typer.Argument(help="Preset, or YAML file, to print for train -conf.", autocompletion=complete_preset),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets for train --preset, or print one of them."""
    import yaml

    from sb3_pvp.algorithms import presets as known

    if name is not None:
        preset = known.find_preset(name)
        hyperparams = preset.hyperparams()
        text = yaml.safe_dump({preset.env_id: as_written(hyperparams)}, sort_keys=False).rstrip()
        print_result(_preset_summary(preset) | {"hyperparams": hyperparams}, text, as_json)
        return
    found = [_preset_summary(preset) for preset in known.presets().values()]
    columns = {"name": "{name}", "algorithm": "{algo}", "game": "{game}", "purpose": "{purpose}"}
    print_table("presets", found, columns, as_json)


def runs(
    folder: Annotated[Path, typer.Argument(help="Log folder.")] = Path("logs"),
    as_json: AsJson = False,
) -> None:
    """List training runs and their progress.

    The state of a run is running, finished, resumable (with train --resume; also if only evaluations are missing) or
    stopped (no checkpoint to resume from).
    """
    from sb3_pvp.matches.curves import find_runs
    from sb3_pvp.zoo.runs.saved_runs import progress_of

    found = [progress_of(run) for run in find_runs([str(folder)])]
    columns: dict[str, Column] = {
        "run": "{run}",
        "game": "{game}",
        "preset": "{preset}",
        "steps": lambda run: f"{run['steps']:,}" + (f" of {run['n_timesteps']:,}" if run["n_timesteps"] else ""),
        "started": lambda run: run["begun"].replace("T", " "),
        "last evaluation": lambda run: run["evaluation"] and "{value:.3g} ({metric})".format(**run["evaluation"]),
        "state": "{state}",
    }
    print_table("runs", found, columns, as_json)


def plot(
    sources: Annotated[list[str], typer.Argument(help=SOURCES, show_default=False)],
    metric: Annotated[str | None, choice(METRICS, text=_METRIC)] = None,
    opponent: Annotated[list[str] | None, typer.Option(help="Opponent of win_rate; may be repeated.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Image: .png, .svg or .pdf.", dir_okay=False)] = Path(
        "runs.png"
    ),
    as_json: AsJson = False,
) -> None:
    """Plot learning curves of training runs.

    Runs with the same label and hyperparameters share a line: their interquartile mean with a bootstrapped 95 %
    interval. A single run has the interval of its own evaluations.
    """
    with extra("plots", "curves"):
        from matplotlib.backend_bases import FigureCanvasBase

    from sb3_pvp.matches.curves import (
        METRICS,
        common_metric,
        find_runs,
        group_runs,
        plot_curves,
        read_curves,
        summarize,
    )

    require_known("image format", out.suffix[1:] or "png", FigureCanvasBase.get_supported_filetypes())
    opponents = opponent or ["baseline"]
    if opponent and metric not in (None, "win_rate"):
        raise Refusal(f"--opponent is for the metric win_rate: leave it, or --metric {metric}, out")
    groups = group_runs(find_runs(sources))
    if metric is None:
        metric = "win_rate" if opponent else common_metric([run for own in groups.values() for run in own])
    bands = {}
    for label, own in groups.items():
        for name in opponents:
            if curves := read_curves(own, metric, name):
                bands[f"{label}, {name}" if len(opponents) > 1 else label] = summarize(curves)
    if not bands:
        raise Refusal(f"the files with the {metric} of these runs are all damaged, see above")
    title = METRICS[metric].title.format(opponent=" and ".join(opponents))
    plot_curves(out, bands, title, METRICS[metric].share)
    lines = ", ".join(f"{label} ({band.num_runs})" for label, band in bands.items())
    print_result(bands, f"{out}: {metric} of {lines}", as_json)


def _preset_summary(preset: Preset) -> dict[str, Any]:
    """Returns name, algorithm, game and purpose: the first sentence of the comment above the preset in its file."""

    comment = re.search(rf"((?:^#.*\n)+)\n?{re.escape(preset.env_id)}:", preset.path.read_text("utf-8"), re.MULTILINE)
    words = " ".join(comment[1].replace("#", " ").split()) if comment else ""
    purpose = words.partition(". ")[0].rstrip(".")
    return {"name": preset.name, "algo": preset.algo, "game": preset.env_id, "purpose": purpose}
