"""Saved runs: how far they are, and their models and environments for rl-zoo3's ``enjoy`` and ``record_video``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms.presets import ALGO, is_ours
from sb3_pvp.common.errors import Refusal, extra, refusals
from sb3_pvp.envs.log_keys import LogKeysWrapper
from sb3_pvp.matches.curves import CONFIG, Run, read_curves
from sb3_pvp.zoo.patches import replaced
from sb3_pvp.zoo.runs.resume import (
    INITIAL_MODEL,
    checkpoints_in,
    is_over,
    is_running,
    is_whole,
    readable_steps,
    steps_of,
    stopped_run,
)

with extra("zoo", "saved runs"):
    from huggingface_sb3 import EnvironmentName, ModelName
    from rl_zoo3 import utils

# rl-zoo3's own functions: this module is imported before `sb3_pvp.zoo.install` replaces them.
_stock_model_path: Any = utils.get_model_path
_stock_test_env: Any = utils.create_test_env
_stock_wrapper_class: Any = utils.get_wrapper_class


def get_model_path(
    exp_id: int,
    folder: str,
    algo: str,
    env_name: EnvironmentName,
    load_best: bool = False,
    load_checkpoint: int | None = None,
    load_last_checkpoint: bool = False,
) -> tuple[str, str, str]:
    """Replaces `rl_zoo3.utils.get_model_path` to also find the checkpoints of `MaskableCheckpointCallback`.

    Returns a name for videos, the path of the model and the run folder. For environments of this package, raises
    `Refusal` if there is no such model or if it is damaged.
    """
    if not is_ours(env_name.gym_id):
        which = load_best, load_checkpoint, load_last_checkpoint
        return cast("tuple[str, str, str]", _stock_model_path(exp_id, folder, algo, env_name, *which))
    run = run_folder(exp_id, folder, algo, env_name)
    saved = checkpoints_in(run)
    kind, model = "final-model", run / f"{env_name}.zip"
    if load_best:
        kind, model = "best-model", run / "best_model.zip"
    elif load_checkpoint is not None or load_last_checkpoint:
        steps = max(saved, default=None) if load_checkpoint is None else load_checkpoint
        if steps not in saved:
            kept = ", ".join(map(str, sorted(saved))) or "none"
            raise Refusal(f"{run} has no such checkpoint; available ones, by steps: {kept}")
        kind, model = f"checkpoint-{steps}", saved[steps]
    if not model.is_file():
        others = "; use --load-last-checkpoint for the newest checkpoint" if saved else ""
        raise Refusal(f"there is no {model.name} in {run}: the run has not saved it yet{others}")
    steps_of(model)  # raises if this is not a model
    if not is_whole(model):
        raise Refusal(f"{model} is damaged: its content does not match its checksums")
    return f"{kind}-{ModelName(algo, env_name)}", str(model), str(run)


def run_folder(exp_id: int, folder: str, algo: str, env_name: EnvironmentName) -> Path:
    """Returns the run folder with this number in rl-zoo3's log folder; raises `Refusal` if there is none.

    ``exp_id`` 0 is the newest run; with a negative one, the algorithm's folder itself is the run folder.
    """
    runs = Path(folder) / algo
    number = exp_id or utils.get_latest_run_id(str(runs), env_name)
    run = runs / f"{env_name}_{number}" if number > 0 else runs
    if not run.is_dir() or (number == 0 and not (run / f"{env_name}.zip").is_file()):
        raise Refusal(
            f"there is no run of {algo} on {env_name.gym_id} in {run}: set the log folder with -f (train writes to "
            "logs by default), and the number of the run with --exp-id"
        )
    return run


def progress_of(run: Run) -> dict[str, Any]:
    """Returns the progress and the state of a run, from the files in its folder: plain values by name."""
    config = min(run.folder.glob(f"*/{CONFIG}"))  # rl-zoo3 writes it to a subfolder with the environment's name
    env, stopped = config.parent.name, stopped_run(run.folder)
    # The hyperparameters are not parsed as YAML, because rl-zoo3 writes Python objects there. The command line has
    # precedence; there -1 means the preset's number.
    in_preset = re.findall(r"- n_timesteps\n +- ([\d.]+(?:e\+?\d+)?)$", run.hyperparams, re.MULTILINE)
    numbers = [run.arguments.get("n_timesteps") or -1]
    with suppress(ValueError, OverflowError):  # of a damaged file
        numbers += [int(float(number)) for number in in_preset]
    n_timesteps = next((number for number in numbers if number > 0), None)
    # A model that continues another one does not start at 0.
    first_step = stopped.initial_steps if stopped else readable_steps(run.folder / INITIAL_MODEL)
    saved = stopped.steps if stopped else 0
    steps = max(first_step, readable_steps(run.folder / f"{env}.zip"), saved) - first_step
    is_finished = n_timesteps and steps >= n_timesteps and is_over(run.folder, env, saved)
    state = "finished" if is_finished else "resumable" if stopped else "stopped"
    if is_running(run.folder):
        state = "running"
    evaluation = None
    for metric in ("eval_reward", "eval_win_rate", "win_rate"):  # the last available one wins
        with suppress(ValueError):
            for curve in read_curves([run], metric):
                evaluated = int(curve.steps[-1])
                evaluation = {"metric": metric, "value": float(curve.center[-1]), "steps": evaluated}
                steps = max(steps, evaluated - first_step)  # of a model that may be saved later, or never
    if not steps:  # where nothing else is known: the episodes so far
        with suppress(ValueError):
            steps = max((int(curve.steps[-1]) for curve in read_curves([run], "episode_length")), default=0)
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


def create_test_env(
    env_id: str,
    *arguments: Any,
    hyperparams: dict[str, Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    vec_env_cls: type[VecEnv] | None = None,
    **keywords: Any,
) -> VecEnv:
    """Replaces `rl_zoo3.utils.create_test_env` to create environments as in training: ours as a `PvpVecEnv`.

    rl-zoo3 itself ignores the ``env_kwargs`` of a yaml file for videos. Raises `Refusal` for invalid ``env_kwargs``.
    """
    ours = is_ours(env_id)
    if ours:
        from sb3_pvp.envs import PvpVecEnv

        env_kwargs = {**(hyperparams or {}).get("env_kwargs", {}), **(env_kwargs or {})}
        vec_env_cls = vec_env_cls or PvpVecEnv
    keywords |= {"hyperparams": hyperparams, "env_kwargs": env_kwargs, "vec_env_cls": vec_env_cls}
    made_as_in_training = nullcontext() if ours else replaced(utils, get_wrapper_class=_with_log_keys)
    with refusals() if ours else nullcontext(), made_as_in_training:
        env: VecEnv = _stock_test_env(env_id, *arguments, **keywords)
        return env


def _with_log_keys(hyperparams: dict[str, Any], key: str = "env_wrapper") -> Any:
    """Does as rl-zoo3's function of the name; its wrapper of environments also takes out what is for the log."""
    inner = _stock_wrapper_class(hyperparams, key)
    return LogKeysWrapper(inner=inner) if key == "env_wrapper" else inner
