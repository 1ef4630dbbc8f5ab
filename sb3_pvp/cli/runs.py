"""``sb3-pvp presets`` and ``sb3-pvp runs``."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sb3_pvp.cli.usage import AsJson, table, tell
from sb3_pvp.common.errors import Refusal

if TYPE_CHECKING:
    from sb3_pvp.callbacks.plots import Run
    from sb3_pvp.presets.presets import Preset


def presets(
    name: Annotated[
        str | None, typer.Argument(help="Print all hyperparameters of this one, as YAML for `train -conf`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the hyperparameters for train --preset NAME."""
    import yaml

    from sb3_pvp.presets.presets import find_preset
    from sb3_pvp.presets.presets import presets as all_presets

    if name is not None:
        preset = find_preset(name)
        told = _described(preset) | {"hyperparams": preset.hyperparams()}
        tell(told, yaml.safe_dump({preset.env_id: told["hyperparams"]}, sort_keys=False).rstrip(), as_json)
        return
    found = [_described(preset) for preset in all_presets().values()]
    rows = [["name", "algorithm", "game", "what for"], *([str(each) for each in one.values()] for one in found)]
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


def _described(preset: Preset) -> dict[str, Any]:
    """Name, algorithm, game, and as purpose the first sentence of the comment right above it in its file."""
    from sb3_pvp.presets.presets import ALGO

    comment = re.search(rf"((?:^#.*\n)+)\n?{re.escape(preset.env_id)}:", preset.path.read_text(), re.MULTILINE)
    words = " ".join(comment[1].replace("#", " ").split()) if comment else ""
    purpose = words.partition(". ")[0].rstrip(".")
    return {"name": preset.name, "algo": ALGO, "game": preset.env_id, "purpose": purpose}


def _looked_at(run: Run) -> dict[str, Any]:
    """What the folder of a run tells."""
    from sb3_pvp.callbacks.plots import read_curve
    from sb3_pvp.presets.presets import ALGO
    from sb3_pvp.zoo.resume import INITIAL_MODEL, LOCK, checkpoints_in, running, steps_of

    config = min(run.folder.glob("*/config.yml"))
    arguments, env, checkpoints = config.with_name("args.yml"), config.parent.name, checkpoints_in(run.folder)
    # rl-zoo3 writes Python objects, none of which need be made for this number; -1 stands for that of the preset.
    text = (arguments.read_text() if arguments.is_file() else "") + run.hyperparams
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
    begun = datetime.fromtimestamp(config.stat().st_mtime).isoformat(timespec="minutes")
    preset, found = run.label.removeprefix(f"{ALGO}, "), {"evaluation": evaluation, "state": state}
    told = {"run": str(run.folder), "game": env, "preset": preset, "seed": run.seed, "steps": steps}
    return {**told, "n_timesteps": n_timesteps, "begun": begun, **found}
