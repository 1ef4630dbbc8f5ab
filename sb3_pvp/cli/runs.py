"""``sb3-pvp quickstart``, ``presets``, ``runs`` and ``plot``: trainings, before and after."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext, redirect_stdout, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.fights import score_model
from sb3_pvp.cli.usage import AsJson, NumTimesteps, Seed, table, tell
from sb3_pvp.common.errors import Refusal
from sb3_pvp.common.names import require_known
from sb3_pvp.game import HOME_GAME

if TYPE_CHECKING:
    from sb3_pvp.callbacks.plots import Run
    from sb3_pvp.presets.presets import Preset

SOURCES = "Folders of runs, or folders with runs in them, such as logs/maskable_ppo; LABEL=FOLDER names its line."
METRIC = (
    "win_rate, eval_win_rate, eval_reward, episode_reward, episode_length, elo or rating; default: win_rate with "
    "--opponent, else the first of these that all runs have recorded."
)


def quickstart(
    n_timesteps: NumTimesteps = None,
    episodes: Annotated[int, typer.Option(min=1, help="Fights before and after, for the win rates.")] = 400,
    log_folder: Annotated[
        Path, typer.Option("--log-folder", "-f", help="Where runs are saved.", file_okay=False)
    ] = Path("logs"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train a first fighter, in a few minutes.

    Prints how often it wins before and after, draws its learning curve and says how to go on.
    """
    import numpy as np
    from rl_zoo3 import get_latest_run_id

    from sb3_pvp.callbacks.plots import Band, draw, find_runs, read_curve
    from sb3_pvp.matches.evaluation import wilson_interval
    from sb3_pvp.presets.presets import ALGO
    from sb3_pvp.zoo import find_preset, train

    defaults = find_preset(HOME_GAME).hyperparams()
    n_timesteps = n_timesteps or int(defaults["n_timesteps"])
    options = {
        "--n-timesteps": n_timesteps,
        "--seed": seed,
        "--log-folder": log_folder,
        "--eval-freq": max(n_timesteps // 15, defaults["n_envs"] * defaults["n_steps"]),
        "--eval-episodes": 128,
        "--n-eval-envs": 64,
        "--verbose": 0,
    }
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        train(["--progress", *(str(word) for option in options.items() for word in option)])
        run = log_folder / ALGO / f"{HOME_GAME}_{get_latest_run_id(str(log_folder / ALGO), HOME_GAME)}"
        typer.echo(f"Two times {episodes} fights for the win rates ...")
        model, picture = run / f"{HOME_GAME}.zip", run / "learning_curve.png"
        before, after = (score_model(zip, episodes, seed)[0] for zip in (run / "initial_model.zip", model))
    curve = read_curve(find_runs([str(run)])[0], "eval_win_rate")
    first = (0, before.win_rate, *wilson_interval(before.wins, before.decided))
    columns = np.array([curve.steps, curve.center, curve.low, curve.high])
    band = Band(*np.insert(columns, 0, first, axis=1))
    draw(picture, {run.name: band}, "win rate against the baseline bot", share=True)
    files = {"model": str(model), "learning_curve": str(picture)}
    figures = {**files, "before": before.as_dict(), "after": after.as_dict()}
    lines = (
        f"\nBefore training: {before}\nAfter training:  {after}\n",
        f"Learning curve: {picture}\nModel:          {model}",
        f"Fight again:    sb3-pvp evaluate {model} --episodes {episodes} --seed {seed}",
    )
    tell(figures, "\n".join(lines), as_json)


def presets(
    name: Annotated[str | None, typer.Argument(help="Print this one, or that in a YAML file, for train -conf.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets for train --preset, or print one."""
    import yaml

    from sb3_pvp.presets import presets as known

    if name is not None:
        preset = known.find_preset(name)
        told = _described(preset) | {"hyperparams": preset.hyperparams()}
        tell(told, yaml.safe_dump({preset.env_id: told["hyperparams"]}, sort_keys=False).rstrip(), as_json)
        return
    found = [_described(preset) for preset in known.presets().values()]
    rows = [["name", "algorithm", "game", "what for"], *(one.values() for one in found)]
    tell({"presets": found}, table(rows), as_json)


def runs(
    folder: Annotated[Path, typer.Argument(help="The folder where runs are saved.")] = Path("logs"),
    as_json: AsJson = False,
) -> None:
    """List training runs, and how far they are.

    A run is running, finished, resumable (train --resume goes on with it) or stopped: it has no checkpoint to go on
    from.
    """
    from sb3_pvp.callbacks.plots import find_runs

    found = [_looked_at(run) for run in find_runs([str(folder)])]
    rows = [["run", "game", "preset", "steps", "begun", "last evaluation", "state"]]
    for run in found:
        asked = f" of {run['n_timesteps']:,}" if run["n_timesteps"] else ""
        seen = f"{run['evaluation']['value']:.3g} ({run['evaluation']['metric']})" if run["evaluation"] else ""
        begun = run["begun"].replace("T", " ")
        rows.append([run["run"], run["game"], run["preset"], f"{run['steps']:,}{asked}", begun, seen, run["state"]])
    tell({"runs": found}, table(rows), as_json)


def plot(
    sources: Annotated[list[str], typer.Argument(help=SOURCES, show_default=False)],
    metric: Annotated[str | None, typer.Option(help=METRIC)] = None,
    opponent: Annotated[list[str] | None, typer.Option(help="Whom win_rate is against; may be repeated.")] = None,
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
        metric = "win_rate" if opponent else common_metric([run for own in groups.values() for run in own])
    bands = {}
    for label, own in groups.items():
        for name in opponents:
            curves = [read_curve(run, metric, name) for run in own]
            bands[f"{label}, {name}" if len(opponents) > 1 else label] = summarize(curves)
    title = METRICS[metric].title.format(opponent=" and ".join(opponents))
    draw(out, bands, title, METRICS[metric].share)
    lines = ", ".join(f"{label} ({band.num_runs})" for label, band in bands.items())
    tell(bands, f"{out}: {metric} of {lines}", as_json)


def _described(preset: Preset) -> dict[str, Any]:
    """Name, algorithm, game, and as purpose the first sentence of the comment right above it in its file."""
    from sb3_pvp.presets.presets import ALGO

    comment = re.search(rf"((?:^#.*\n)+)\n?{re.escape(preset.env_id)}:", preset.path.read_text("utf-8"), re.MULTILINE)
    words = " ".join(comment[1].replace("#", " ").split()) if comment else ""
    purpose = words.partition(". ")[0].rstrip(".")
    return {"name": preset.name, "algo": ALGO, "game": preset.env_id, "purpose": purpose}


def _looked_at(run: Run) -> dict[str, Any]:
    """What the folder of a run tells."""
    from sb3_pvp.callbacks.plots import CONFIG, read_curve
    from sb3_pvp.presets.presets import ALGO
    from sb3_pvp.zoo.resume import INITIAL_MODEL, LOCK, checkpoints_in, running, steps_of

    config = min(run.folder.glob(f"*/{CONFIG}"))
    arguments, env, checkpoints = config.with_name("args.yml"), config.parent.name, checkpoints_in(run.folder)
    # rl-zoo3 writes Python objects, none of which need be made for this number; -1 stands for that of the preset.
    text = (arguments.read_text("utf-8") if arguments.is_file() else "") + run.hyperparams
    asked = [int(float(number)) for number in re.findall(r"- n_timesteps\n +- (\S+)", text)]
    n_timesteps = next((number for number in asked if number > 0), None)
    models = run.folder / INITIAL_MODEL, run.folder / f"{env}.zip"
    begun_at, final = (steps_of(model) if model.is_file() else 0 for model in models)
    steps = max(begun_at, final, *checkpoints) - begun_at
    state = "finished" if n_timesteps and steps >= n_timesteps else "resumable" if checkpoints else "stopped"
    if (run.folder / LOCK).is_file():
        try:
            with running(run.folder):
                pass
        except Refusal:
            state = "running"
    evaluation = None
    for metric in ("eval_reward", "eval_win_rate", "win_rate"):  # the last one that there is
        with suppress(ValueError):
            curve = read_curve(run, metric)
            evaluation = {"metric": metric, "value": float(curve.center[-1]), "steps": int(curve.steps[-1])}
    return {
        "run": str(run.folder),
        "game": env,
        "preset": run.label.removeprefix(f"{ALGO}, "),
        "seed": run.seed,
        "steps": steps,
        "n_timesteps": n_timesteps,
        "begun": datetime.fromtimestamp(config.stat().st_mtime).isoformat(timespec="minutes"),
        "evaluation": evaluation,
        "state": state,
    }
