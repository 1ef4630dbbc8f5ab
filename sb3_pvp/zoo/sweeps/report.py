"""What a study has found, as files: a table of trials, pictures, and the best configuration."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import yaml
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from sb3_pvp.common.atomic_files import replacing, write_atomically
from sb3_pvp.common.errors import Refusal
from sb3_pvp.zoo.sweeps.storage import Locks, find_trial
from sb3_pvp.zoo.sweeps.study import ATTEMPTS, SEED, is_abandoned, read_settings

TRIALS, BEST = "trials.csv", "best.yml"
#: Pictures, and which of `optuna.visualization` each is.
_PICTURES = {
    "history.png": "plot_optimization_history",
    "courses.png": "plot_intermediate_values",
    "importances.png": "plot_param_importances",
    "slices.png": "plot_slice",
}
#: The least number of finished trials of which a best share can be compared with the others.
_ENOUGH_TO_COMPARE = 4


def write_report(study: optuna.Study, folder: Path, with_pictures: bool = True) -> list[str]:
    """Writes the files, and tells what is missing and why; raises `Refusal` for a study of somebody else."""
    write_atomically(folder / TRIALS, study.trials_dataframe().to_csv(index=False))
    missing = []
    for name in (BEST, *(_PICTURES if with_pictures else ())):
        try:
            if name == BEST:
                write_atomically(folder / BEST, best_configuration(study)[1])
            else:
                _draw(study, name, folder / name)
        except (Refusal, ValueError, RuntimeError) as error:
            missing.append(f"{name}: {error}")
    return missing


def best_configuration(
    study: optuna.Study, number: int | None = None, n_timesteps: int | None = None
) -> tuple[FrozenTrial, str]:
    """A trial, the best one without a number, and its configuration as yaml that ``train -conf`` reads.

    That is everything, what was not varied as well, for a run of ``n_timesteps``, or as many as the configuration said
    before the sweep. Raises `Refusal` if there is no such trial, or it has no parameters.
    """
    settings, trial = read_settings(study), find_trial(study, number)
    if not trial.params:
        raise Refusal(f"trial {trial.number} of study {study.study_name!r} ended before it had parameters")
    steps = n_timesteps or int(settings.block.get("n_timesteps", settings.n_timesteps))
    block = {**settings.hyperparameters(trial.params, steps), "n_timesteps": steps}
    result = "no result" if trial.value is None else f"{trial.value:.4f}"
    header = (
        f"# Trial {trial.number} of study {study.study_name}: {result} after {settings.n_timesteps} steps, with "
        f"--algo {settings.algo} --env {settings.env_id} --seed {trial.user_attrs.get(SEED)}\n"
    )
    return trial, header + yaml.safe_dump({settings.env_id: block}, sort_keys=False)


def counts(study: optuna.Study, locks: Locks) -> dict[str, int]:
    """How many trials are over, were stopped early, run, were abandoned (`is_abandoned`), wait and failed."""
    trials = study.get_trials(deepcopy=False)
    states = ["abandoned" if is_abandoned(trial, locks) else trial.state.name.lower() for trial in trials]
    return {name: states.count(name) for name in (*(state.name.lower() for state in TrialState), "abandoned")}


def overview(storage: BaseStorage, locks: Locks) -> list[dict[str, Any]]:
    """All studies: ``name``, ``trials`` (see `counts`) and ``best``, the `summary` of that trial or ``None``."""
    studies = []
    for name in optuna.get_all_study_names(storage):
        study = optuna.load_study(study_name=name, storage=storage)
        try:
            best: dict[str, Any] | None = summary(find_trial(study, None))
        except Refusal:
            best = None
        studies.append({"name": name, "trials": counts(study, locks), "best": best})
    return studies


def summary(trial: FrozenTrial) -> dict[str, Any]:
    """What is known of a trial, as plain values."""
    seed, attempts = trial.user_attrs.get(SEED), trial.user_attrs.get(ATTEMPTS, 0)
    known = {"trial": trial.number, "value": trial.value, "seed": seed}
    return {**known, "attempts": attempts + 1, "params": trial.params}


def _draw(study: optuna.Study, name: str, path: Path) -> None:
    """Draws one of `_PICTURES`; raises `ValueError` if too few trials have come to their end."""
    import matplotlib.pyplot as plt
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.visualization import matplotlib as pictures

    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        raise ValueError("no trial has come to its end yet")
    pool = read_settings(study).measure.get("reference_pool")
    keywords: dict[str, Any] = {"target_name": "mean reward" if pool is None else f"win rate against {', '.join(pool)}"}
    if name == "courses.png":
        keywords = {}
    elif name == "importances.png":
        if len(complete) < _ENOUGH_TO_COMPARE:
            raise ValueError(f"needs {_ENOUGH_TO_COMPARE} trials that came to their end")
        # The one that Optuna takes by default draws from trees, for minutes.
        keywords = {"evaluator": PedAnovaImportanceEvaluator()}
    with warnings.catch_warnings(), plt.style.context("default"):
        warnings.simplefilter("ignore")  # all of them are experimental
        axes = getattr(pictures, _PICTURES[name])(study, **keywords)
    figure = np.ravel(axes)[0].figure
    figure.set_size_inches(max(8.0, 3.0 * np.size(axes)), 5)
    plt.close(figure)  # which pyplot would keep
    with replacing(path) as partial:
        figure.savefig(partial, dpi=100, bbox_inches="tight")
