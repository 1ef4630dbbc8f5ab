"""``sb3-pvp sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sb3_pvp.cli.tables import AsJson, OutFile, print_result, print_table, write
from sb3_pvp.cli.usage import NumTimesteps
from sb3_pvp.game import HOME_GAME

if TYPE_CHECKING:
    from sb3_pvp.algorithms.presets import Preset
    from sb3_pvp.zoo.sweeps.space import Space

sweep = typer.Typer(help="Show and export the results of train -optimize.")

Storage = Annotated[str, typer.Argument(help="A file sweep.log, sqlite:///sweep.db or postgresql://user@host/name.")]
StudyName = Annotated[str | None, typer.Option(help="Name of the study; not needed if there is only one.")]
PresetName = Annotated[str, typer.Option(help="Preset, or YAML file in rl-zoo3's format.")]
SearchSpace = Annotated[Path | None, typer.Option(help="YAML file with a search space; default: the built-in one.")]
_COLUMNS = {"trial": "{trial}", "state": "{state}", "value": "{value:.4f}", "took": "{took}"}


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
def space(preset: PresetName = HOME_GAME, search_space: SearchSpace = None) -> None:
    """Print the search space of a preset for --search-space."""
    import yaml

    from sb3_pvp.zoo.sweeps.space import as_dict

    _, parameters = _space(preset, search_space)
    typer.echo(yaml.safe_dump(as_dict(parameters), sort_keys=False), nl=False)


@sweep.command("wandb-config")
def wandb(preset: PresetName = HOME_GAME, search_space: SearchSpace = None, n_timesteps: NumTimesteps = None) -> None:
    """Print a configuration for `wandb sweep`.

    Its agents train with --sample and --track.
    """
    import yaml

    from sb3_pvp.zoo.sweeps.space import WIN_RATE

    found, parameters = _space(preset, search_space)
    # W&B's own "log_uniform" takes the limits' exponents, "log_uniform_values" the limits themselves.
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
        # W&B replaces these: /usr/bin/env, python, and the parameters as one JSON object.
        "command": ["${env}", "${interpreter}", *train, "--sample", "${args_json}"],
    }
    typer.echo(yaml.safe_dump(config, sort_keys=False), nl=False)


def _space(preset: str, search_space: Path | None) -> tuple[Preset, Space]:
    from sb3_pvp.algorithms.presets import find_preset
    from sb3_pvp.zoo.sweeps.space import chosen_space

    found = find_preset(preset)
    return found, chosen_space(search_space, found.hyperparams(), is_ours=True)
