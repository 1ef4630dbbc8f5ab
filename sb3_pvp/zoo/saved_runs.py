"""What rl-zoo3's enjoy, videos and hub need of a run of this package: its models, and its environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_sb3 import EnvironmentName, ModelName
from rl_zoo3 import utils
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.presets.presets import is_ours
from sb3_pvp.presets.validation import checked_env
from sb3_pvp.zoo.resume import checkpoints_in, is_whole, steps_of

# Before this package is installed into rl-zoo3 (`sb3_pvp.zoo.installation`).
_stock_model_path: Any = utils.get_model_path
_stock_test_env: Any = utils.create_test_env


def get_model_path(
    exp_id: int, folder: str, algo: str, env_name: EnvironmentName, *which: Any, **keywords: Any
) -> tuple[str, str, str]:
    """`rl_zoo3.utils.get_model_path`, which finds the checkpoints of `MaskableCheckpointCallback` as well.

    Returns a name for videos, the file of the model and the folder of the run. Raises `Refusal` if there is no such
    model in a run of an environment of this package, or if it is damaged.
    """
    if not is_ours(env_name.gym_id):
        found: tuple[str, str, str] = _stock_model_path(exp_id, folder, algo, env_name, *which, **keywords)
        return found
    names = ("load_best", "load_checkpoint", "load_last_checkpoint")
    load_best, load_checkpoint, load_last = map({**dict(zip(names, which, strict=False)), **keywords}.get, names)
    run = run_folder(exp_id, folder, algo, env_name)
    name, model = ModelName(algo, env_name), run / f"{env_name}.zip"
    prefix = f"final-model-{name}"
    if load_best:
        prefix, model = f"best-model-{name}", run / "best_model.zip"
    elif load_checkpoint is not None or load_last:
        saved = checkpoints_in(run)
        steps = max(saved, default=None) if load_checkpoint is None else load_checkpoint
        if steps not in saved:
            kept = ", ".join(map(str, sorted(saved))) or "none at all"
            raise Refusal(f"{run} has no such checkpoint; it has, by steps: {kept}")
        model = saved[steps]
        prefix = f"checkpoint-{steps}-{name}"
    if not model.is_file():
        others = "; --load-last-checkpoint takes the newest checkpoint" if checkpoints_in(run) else ""
        raise Refusal(f"there is no {model.name} in {run}: the run has not come so far{others}")
    steps_of(model)
    if not is_whole(model):
        raise Refusal(f"{model} is damaged: something in it has changed")
    return prefix, str(model), str(run)


def run_folder(exp_id: int, folder: str, algo: str, env_name: EnvironmentName) -> Path:
    """The folder of a run in rl-zoo3's log folder; 0: of the newest one; negative: the folder of the algorithm itself.

    Raises `Refusal` if there is none.
    """
    runs = Path(folder) / algo
    number = exp_id or utils.get_latest_run_id(str(runs), env_name)
    run = runs / f"{env_name}_{number}" if number > 0 else runs
    if not run.is_dir() or (number == 0 and not (run / f"{env_name}.zip").is_file()):
        raise Refusal(
            f"there is no run of {algo} on {env_name.gym_id} in {run}: give the folder of your runs with -f (train "
            "writes to logs), and the number of the run with --exp-id"
        )
    return run


def create_test_env(
    env_id: str,
    *arguments: Any,
    hyperparams: dict[str, Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    vec_env_cls: type[VecEnv] | None = None,
    **keywords: Any,
) -> VecEnv:
    """`rl_zoo3.utils.create_test_env`; environments of this package are as in training, and share one process.

    rl-zoo3 itself forgets the ``env_kwargs`` of a yaml file for videos and the hub. Raises `Refusal` for wrong
    ``env_kwargs``.
    """
    if is_ours(env_id):
        from sb3_pvp.envs import PvpVecEnv

        env_kwargs = {**(hyperparams or {}).get("env_kwargs", {}), **(env_kwargs or {})}
        with refusals():
            checked_env(env_id, env_kwargs)
        vec_env_cls = vec_env_cls or PvpVecEnv
    env: VecEnv = _stock_test_env(
        env_id, *arguments, hyperparams=hyperparams, env_kwargs=env_kwargs, vec_env_cls=vec_env_cls, **keywords
    )
    return env
