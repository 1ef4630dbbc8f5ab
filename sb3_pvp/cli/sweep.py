"""``sb3-pvp sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sb3_pvp.cli.tables import AsJson, OutFile, print_result, print_table, write
from sb3_pvp.cli.usage import NumTimesteps, complete_preset
from sb3_pvp.game import HOME_GAME

sweep = typer.Typer(help="Show and export the results of train -optimize.")

_PRESET = "Preset, or YAML file in rl-zoo3's format."

Storage = Annotated[str, typer.Argument(help="A file sweep.log, sqlite:///sweep.db or postgresql://user@host/name.")]
StudyName = Annotated[str | None, typer.Option(help="Name of the study; not needed if there is only one.")]


@sweep.command("list")
def list_studies(storage: Storage, as_json: AsJson = False) -> None:
    """List the trials of all studies in a storage."""
    from sb3_pvp.zoo.sweeps.study import overview

    columns = {"study": "{study}", "trial": "{trial}", "state": "{state}", "value": "{value:.4f}", "took": "{took}"}
    print_table("trials", overview(storage), columns, as_json, "no trials")


@sweep.command("best")
def best(
    storage: Storage,
    study_name: StudyName = None,
    trial_id: Annotated[int | None, typer.Option(min=0, help="Number of the trial; default: the best one.")] = None,
    out: OutFile = None,
    n_timesteps: NumTimesteps = None,
    as_json: AsJson = False,
) -> None:
    """Print the best hyperparameters for train -conf."""
    from sb3_pvp.zoo.sweeps.study import best_configuration, find_study, summary

    study, locks = find_study(storage, study_name)
    trial, text = best_configuration(study, trial_id, n_timesteps)
    if out is not None:
        write(text, out)
        text = f"{out}: {text.splitlines()[0].lstrip('# ')}"  # the first line describes the trial
    print_result(summary(trial, locks), text.rstrip("\n"), as_json)


@sweep.command("space")
def space(
    preset: Annotated[str, typer.Option(help=_PRESET, autocompletion=complete_preset)] = HOME_GAME,
    search_space: Annotated[
        Path | None, typer.Option(help="YAML file with a search space; default: the built-in one.")
    ] = None,
) -> None:
    """Print the search space of a preset for --search-space."""
    import yaml

    from sb3_pvp.algorithms.presets import find_preset
    from sb3_pvp.zoo.sweeps.space import as_dict, chosen_space

    parameters = chosen_space(search_space, find_preset(preset).hyperparams(), is_ours=True)
    typer.echo(yaml.safe_dump(as_dict(parameters), sort_keys=False), nl=False)
