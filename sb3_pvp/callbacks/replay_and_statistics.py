"""What SB3's algorithms keep beside a checkpoint's zip: the statistics of ``VecNormalize``, and the replay.

The files are named as by SB3's ``CheckpointCallback``, such as ``main_vecnormalize_64_steps.pkl``. `PvpPPO` and
`DreamerV3` need none: their zips have the first, and `DreamerV3` keeps its replay itself.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from sb3_pvp.common.atomic_files import replacing

_STATISTICS, _REPLAY = "vecnormalize", "replay_buffer"


def off_policy(model: BaseAlgorithm) -> Any:
    """Returns an off-policy algorithm of SB3, ``None`` for another one."""
    return model if getattr(model, "replay_buffer", None) is not None else None


def save_beside(model: BaseAlgorithm, checkpoint: Path) -> None:
    """Writes these files atomically; call it before the zip is written, so that a checkpoint never lacks them."""
    statistics, algorithm = model.get_vec_normalize_env(), off_policy(model)
    if statistics is not None:
        with replacing(_beside(checkpoint, _STATISTICS)) as partial:
            statistics.save(str(partial))
    if algorithm is not None:
        with replacing(_beside(checkpoint, _REPLAY)) as partial:
            algorithm.save_replay_buffer(partial)


def remove_beside(newest: Path, keep_replays: bool) -> None:
    """Removes such files of checkpoints before the ``newest`` that are gone, and replays also of those that are not."""
    name, steps = _parts(newest)
    for path in newest.parent.glob(f"{name}_*_steps.pkl"):
        match = re.fullmatch(rf"{re.escape(name)}_({_STATISTICS}|{_REPLAY})_(\d+)_steps", path.stem)
        if match is None or int(match[2]) >= steps:
            continue
        is_gone = not newest.with_name(f"{name}_{match[2]}_steps.zip").exists()
        if is_gone or (match[1] == _REPLAY and not keep_replays):
            path.unlink(missing_ok=True)


def load_statistics(checkpoint: str, env: VecEnv, is_evaluation: bool) -> VecEnv | None:
    """Returns the environments in a ``VecNormalize`` with the statistics of a checkpoint; ``None`` if it has none."""
    if not checkpoint or not (file := _beside(Path(checkpoint), _STATISTICS)).is_file():
        return None
    normalized = VecNormalize.load(str(file), env)
    if is_evaluation:
        normalized.training = normalized.norm_reward = False
    return normalized


def load_replay(model: BaseAlgorithm, checkpoint: Path) -> None:
    """Loads the replay of a checkpoint; without one, the model first plays ``learning_starts`` steps again."""
    if (algorithm := off_policy(model)) is None:
        return
    if (file := _beside(checkpoint, _REPLAY)).is_file():
        algorithm.load_replay_buffer(file)
        return
    # SB3 would learn from its first step on: from a replay of that one step.
    told = f"{algorithm.learning_starts} steps fill a new replay before it learns: there is no {file}"
    algorithm.learning_starts += algorithm.num_timesteps
    warnings.warn(told, RuntimeWarning, stacklevel=2)


def _beside(checkpoint: Path, kind: str) -> Path:
    name, steps = _parts(checkpoint)
    return checkpoint.with_name(f"{name}_{kind}_{steps}_steps.pkl")


def _parts(checkpoint: Path) -> tuple[str, int]:
    """Returns the beginning of a checkpoint's name and its steps, -1 for a file that is no checkpoint."""
    match = re.fullmatch(r"(.+)_(\d+)_steps", checkpoint.stem)
    return (match[1], int(match[2])) if match else (checkpoint.stem, -1)
