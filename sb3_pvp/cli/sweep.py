"""``sb3-pvp sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sb3_pvp.cli.usage import AsJson, NumTimesteps, OutFile, progress, table, tell, write
from sb3_pvp.game import HOME_GAME

if TYPE_CHECKING:
    from sb3_pvp.presets.presets import Preset
    from sb3_pvp.zoo.sweeps.space import Space

sweep = typer.Typer(help="Look at the searches of train -optimize.")

Storage = Annotated[str, typer.Argument(help="A file sweep.log, sqlite:///sweep.db or postgresql://user@host/name.")]
StudyName = Annotated[str | None, typer.Option(help="Which study; not needed if there is only one.")]
PresetName = Annotated[str, typer.Option(help="A preset's name, or a YAML file in rl-zoo3's format.")]
SearchSpace = Annotated[Path | None, typer.Option(help="A YAML file with a search space instead of the default one.")]


@sweep.command("list")
def list_studies(storage: Storage, as_json: AsJson = False) -> None:
    """Print the studies in a storage, and their trials."""
    from sb3_pvp.zoo.sweeps.report import overview

    studies, lines = overview(storage), []
    for study in studies:
        states = ", ".join(f"{count} {state}" for state, count in study["trials"].items() if count) or "no trials"
        best = "" if study["best"] is None else f"; best: trial {study['best']['trial']}, {study['best']['value']:.4f}"
        lines.append(f"{study['name']}: {states}{best}")
        rows = [["trial", "state", "value", "took"]]
        for trial in study["all"]:
            value = "" if trial["value"] is None else f"{trial['value']:.4f}"
            rows.append([str(trial["trial"]), trial["state"], value, trial["took"] or ""])
        lines += table(rows).splitlines() if study["all"] else []
    tell({"studies": studies}, "\n".join(lines), as_json)


@sweep.command("best")
def best(
    storage: Storage,
    study_name: StudyName = None,
    trial_id: Annotated[int | None, typer.Option(min=0, help="This trial instead of the best one.")] = None,
    out: OutFile = None,
    n_timesteps: NumTimesteps = None,
    as_json: AsJson = False,
) -> None:
    """Write the best hyperparameters, for train -conf."""
    from sb3_pvp.zoo.sweeps.report import best_configuration, summary
    from sb3_pvp.zoo.sweeps.study import find_study

    trial, text = best_configuration(find_study(storage, study_name)[0], trial_id, n_timesteps)
    if out is not None:
        write(text, out)
        text = f"{out}: {text.splitlines()[0].lstrip('# ')}"
    tell(summary(trial), text.rstrip("\n"), as_json)


@sweep.command("report")
def report(
    storage: Storage,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the files.", file_okay=False)],
    study_name: StudyName = None,
    as_json: AsJson = False,
) -> None:
    """Write a table of all trials, pictures and the best hyperparameters into a folder."""
    from sb3_pvp.zoo.sweeps.report import counts, write_report
    from sb3_pvp.zoo.sweeps.study import find_study

    study, locks = find_study(storage, study_name)
    with progress("drawing"):
        written, missing = write_report(study, out)
    files = sorted(map(str, written))
    figures = {"study": study.study_name, "trials": counts(study, locks), "files": files, "missing": missing}
    tell(figures, "\n".join([*files, *(f"without {reason}" for reason in missing)]), as_json)


@sweep.command("space")
def space(preset: PresetName = HOME_GAME, search_space: SearchSpace = None) -> None:
    """Print what a search varies, as a file for --search-space."""
    import yaml

    from sb3_pvp.zoo.sweeps.space import as_dict

    _, parameters = _space(preset, search_space)
    typer.echo(yaml.safe_dump(as_dict(parameters), sort_keys=False), nl=False)


@sweep.command("wandb-config")
def wandb(preset: PresetName = HOME_GAME, search_space: SearchSpace = None, n_timesteps: NumTimesteps = None) -> None:
    """Print a sweep for `wandb sweep`; its agents train with --sample and --track."""
    import yaml

    from sb3_pvp.zoo.sweeps.space import WIN_RATE

    found, parameters = _space(preset, search_space)
    distributions = {"uniform": "uniform", "log_uniform": "log_uniform_values"}
    train = ["-m", "sb3_pvp.zoo", "train", "--preset", preset, "--track", "--eval-freq", "-1"]
    train += [] if n_timesteps is None else ["-n", str(n_timesteps)]
    train += [] if search_space is None else ["--search-space", str(search_space)]
    config = {
        "name": f"sb3_pvp {found.env_id}",
        "method": "bayes",
        "metric": {"name": WIN_RATE, "goal": "maximize"},
        "early_terminate": {"type": "hyperband", "min_iter": 2, "eta": 3},
        "parameters": {
            name: {"values": list(each.choices)}
            if each.choices
            else {"distribution": distributions[each.kind], "min": each.low, "max": each.high}
            for name, each in parameters.items()
        },
        "command": ["${env}", "${interpreter}", *train, "--sample", "${args_json}"],
    }
    typer.echo(yaml.safe_dump(config, sort_keys=False), nl=False)


def _space(preset: str, search_space: Path | None) -> tuple[Preset, Space]:
    from sb3_pvp.presets.presets import find_preset
    from sb3_pvp.zoo.sweeps.space import chosen_space

    found = find_preset(preset)
    return found, chosen_space(search_space, found.hyperparams(), is_ours=True)
