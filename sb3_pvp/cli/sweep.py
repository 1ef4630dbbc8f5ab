"""``sb3-pvp sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sb3_pvp.cli.usage import AsJson, NumTimesteps, OutFile, progress, table, tell, write
from sb3_pvp.game import HOME_GAME

if TYPE_CHECKING:
    import optuna
    from optuna.storages import BaseStorage

    from sb3_pvp.presets.presets import Preset
    from sb3_pvp.zoo.sweeps.space import Space
    from sb3_pvp.zoo.sweeps.storage import Locks

sweep = typer.Typer(help="Look at the searches of train -optimize.")

Storage = Annotated[
    str, typer.Argument(help="A journal such as sweep.log, sqlite:///sweep.db or postgresql://user@host/name.")
]
StudyName = Annotated[str | None, typer.Option(help="Which study; not needed if there is only one.")]
PresetName = Annotated[str, typer.Option(help="A preset's name, or a YAML file in rl-zoo3's format.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="As a table instead.")]
SearchSpace = Annotated[Path | None, typer.Option(help="A YAML file with a search space instead of the default one.")]


@sweep.command("list")
def list_studies(storage: Storage, as_json: AsJson = False) -> None:
    """Print the studies in a storage, and their trials."""
    import optuna

    from sb3_pvp.zoo.sweeps.report import overview, summary

    opened, locks = _open(storage)
    studies, lines = overview(opened, locks), []
    for study in studies:
        states = ", ".join(f"{count} {state}" for state, count in study["trials"].items() if count) or "no trials"
        best = "" if study["best"] is None else f"; best: trial {study['best']['trial']}, {study['best']['value']:.4f}"
        trials = optuna.load_study(study_name=study["name"], storage=opened).get_trials(deepcopy=False)
        study["all"] = [{**summary(trial), "state": trial.state.name.lower()} for trial in trials]
        rows = [["trial", "state", "value", "took"]]
        for trial in trials:
            value = "" if trial.value is None else f"{trial.value:.4f}"
            rows.append([str(trial.number), trial.state.name.lower(), value, str(trial.duration or "").split(".")[0]])
        lines += [f"{study['name']}: {states}{best}", *(table(rows).splitlines() if trials else [])]
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

    trial, text = best_configuration(_study(storage, study_name), trial_id, n_timesteps)
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

    study, (_, locks) = _study(storage, study_name), _open(storage)
    before = {path: path.stat().st_mtime_ns for path in out.glob("*")}
    with progress("drawing"):
        missing = write_report(study, out)
    files = [str(path) for path in sorted(out.glob("*")) if path.stat().st_mtime_ns != before.get(path)]
    figures = {"study": study.study_name, "trials": counts(study, locks), "files": files, "missing": missing}
    tell(figures, "\n".join([*files, *(f"without {reason}" for reason in missing)]), as_json)


@sweep.command("space")
def space(preset: PresetName = HOME_GAME, search_space: SearchSpace = None, markdown: Markdown = False) -> None:
    """Print what a search varies, as a file for --search-space."""
    import yaml

    from sb3_pvp.zoo.sweeps.space import as_dict, as_markdown

    _, parameters = _space(preset, search_space)
    typer.echo(as_markdown(parameters) if markdown else yaml.safe_dump(as_dict(parameters), sort_keys=False), nl=False)


@sweep.command("wandb-config")
def wandb_config(
    preset: PresetName = HOME_GAME,
    search_space: SearchSpace = None,
    n_timesteps: NumTimesteps = None,
) -> None:
    """Print a sweep for `wandb sweep`.

    Its agents train with --sample and --track.
    """
    import yaml

    from sb3_pvp.zoo.sweeps.space import wandb_configuration

    found, parameters = _space(preset, search_space)
    config = wandb_configuration(preset, found.env_id, parameters, search_space, n_timesteps)
    typer.echo(yaml.safe_dump(config, sort_keys=False), nl=False)


def _space(preset: str, search_space: Path | None) -> tuple[Preset, Space]:
    from sb3_pvp.presets.presets import find_preset
    from sb3_pvp.zoo.sweeps.conversion import chosen_space

    found = find_preset(preset)
    return found, chosen_space(search_space, found.hyperparams(), is_ours=True)


def _study(storage: str, name: str | None) -> optuna.Study:
    from sb3_pvp.zoo.sweeps.storage import find_study

    return find_study(_open(storage)[0], name)


def _open(storage: str) -> tuple[BaseStorage, Locks]:
    import optuna

    from sb3_pvp.zoo.sweeps.storage import open_storage

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return open_storage(storage, must_exist=True)
