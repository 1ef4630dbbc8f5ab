"""Reports of studies: a table of trials, figures, and the best configuration."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import yaml
from optuna.trial import FrozenTrial, TrialState

from sb3_pvp.common.atomic_files import replacing, write_atomically
from sb3_pvp.common.errors import Refusal
from sb3_pvp.zoo.sweeps.space import hyperparameters
from sb3_pvp.zoo.sweeps.study import ATTEMPTS, SEED, STEPS, Locks, find_trial, is_abandoned, open_storage, read_settings

#: Figures of a report, and the functions of `optuna.visualization` that plot them.
_FIGURES = {
    "history.png": "plot_optimization_history",
    "courses.png": "plot_intermediate_values",
    "importances.png": "plot_param_importances",
    "slices.png": "plot_slice",
}


def write_report(study: optuna.Study, folder: Path, with_pictures: bool = True) -> tuple[list[Path], list[str]]:
    """Writes a report; returns the paths of its files, and ``"file: reason"`` for each that could not be written."""
    written, missing = [folder / "trials.csv"], []
    write_atomically(written[0], study.trials_dataframe().to_csv(index=False))
    for name in ("best.yml", *(_FIGURES if with_pictures else ())):
        try:
            if name in _FIGURES:
                _plot(study, folder / name)
            else:
                write_atomically(folder / name, best_configuration(study)[1])
            written.append(folder / name)
        except (Refusal, ValueError, RuntimeError) as error:
            missing.append(f"{name}: {error}")
    return written, missing


def best_configuration(
    study: optuna.Study, number: int | None = None, n_timesteps: int | None = None
) -> tuple[FrozenTrial, str]:
    """Returns a trial, by default the best one, and its complete configuration as yaml for ``train -conf``.

    The configuration is for a run of ``n_timesteps``, by default the number in the configuration of the sweep. Raises
    `Refusal` if there is no such trial, or if it has no parameters.
    """
    settings, trial = read_settings(study), find_trial(study, number)
    if not trial.params:
        raise Refusal(f"trial {trial.number} of study {study.study_name!r} ended before it had parameters")
    steps = n_timesteps or int(settings.block.get("n_timesteps", settings.n_timesteps))
    block = {**hyperparameters(trial.params, settings.space, settings.block, steps), "n_timesteps": steps}
    result = "no result" if trial.value is None else f"{trial.value:.4f}"
    trained = trial.user_attrs.get(STEPS, settings.n_timesteps)
    header = (
        f"# Trial {trial.number} of study {study.study_name}: {result} after {trained} steps, with "
        f"--algo {settings.algo} --env {settings.env_id} --seed {trial.user_attrs.get(SEED)}\n"
    )
    return trial, header + yaml.safe_dump({settings.env_id: block}, sort_keys=False)


def counts(study: optuna.Study, locks: Locks) -> dict[str, int]:
    """Returns the number of trials in each of Optuna's states (``running``, ``complete``, ...), and ``abandoned``."""
    trials = study.get_trials(deepcopy=False)
    states = ["abandoned" if is_abandoned(trial, locks) else trial.state.name.lower() for trial in trials]
    return {name: states.count(name) for name in (*(state.name.lower() for state in TrialState), "abandoned")}


def overview(storage: str) -> list[dict[str, Any]]:
    """Describes all studies: ``name``, ``trials`` (`counts`), ``best`` (`summary` or ``None``), ``all`` (summaries)."""
    (opened, locks), studies = open_storage(storage, must_exist=True), []
    for name in optuna.get_all_study_names(opened):
        study = optuna.load_study(study_name=name, storage=opened)
        every = [{**summary(trial), "state": trial.state.name.lower()} for trial in study.get_trials(deepcopy=False)]
        studies.append({"name": name, "trials": counts(study, locks), "best": None, "all": every})
        with suppress(Refusal):
            studies[-1]["best"] = summary(find_trial(study, None))
    return studies


def summary(trial: FrozenTrial) -> dict[str, Any]:
    """Describes a trial with plain values, for JSON."""
    return {
        "trial": trial.number,
        "value": trial.value,
        "seed": trial.user_attrs.get(SEED),
        "attempts": trial.user_attrs.get(ATTEMPTS, 0) + 1,
        "took": trial.duration and str(trial.duration).split(".")[0],
        "params": trial.params,
    }


def _plot(study: optuna.Study, path: Path) -> None:
    import matplotlib.pyplot as plt
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.visualization import matplotlib as visualization

    pool = read_settings(study).measure.get("reference_pool")
    target = "mean reward" if pool is None else f"win rate against {', '.join(pool)}"
    options: dict[str, Any] = {"target_name": target}
    needed = 1
    if path.name == "courses.png":  # plot_intermediate_values takes no options
        options = {}
    elif path.name == "importances.png":  # Optuna's default evaluator fits random forests, which takes minutes
        needed, options = 4, {"evaluator": PedAnovaImportanceEvaluator()}
    if len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))) < needed:
        raise ValueError(f"needs at least {needed} completed trials")
    with warnings.catch_warnings(), plt.style.context("default"):
        warnings.simplefilter("ignore")  # Optuna's matplotlib functions all warn that they are experimental
        axes = getattr(visualization, _FIGURES[path.name])(study, **options)
    figure = np.ravel(axes)[0].figure
    figure.set_size_inches(max(8.0, 3.0 * np.size(axes)), 5)
    plt.close(figure)  # otherwise pyplot keeps it in memory
    with replacing(path) as partial:
        figure.savefig(partial, dpi=100, bbox_inches="tight")
