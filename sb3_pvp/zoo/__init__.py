"""rl-zoo3 with ``--algo maskable_ppo`` and the environments of this package.

``python -m sb3_pvp.zoo train|enjoy|record_video|record_training|plots|push`` take every option of rl-zoo3's commands,
and ``train`` also takes ``--preset NAME`` and ``--resume``. To use rl-zoo3's own commands instead, put a file
``custom_envs.py`` with the line ``import sb3_pvp.zoo.custom_envs`` into the working directory.
"""

from __future__ import annotations

from sb3_pvp.presets.presets import find_preset, hyperparams_path, presets
from sb3_pvp.zoo.front_ends import enjoy, plots, push, record_training, record_video, train

__all__ = [
    "enjoy",
    "find_preset",
    "hyperparams_path",
    "install",
    "plots",
    "presets",
    "push",
    "record_training",
    "record_video",
    "train",
]


def install() -> None:
    """Teaches rl-zoo3 this package; calling it again changes nothing.

    ``maskable_ppo`` is one of its algorithms then, `PvpExperimentManager` manages its experiments, its commands find
    all checkpoints of a run, and workers of a ``SubprocVecEnv`` start quickly.

    Raises ``RuntimeError`` if something that is needed is not installed. It is no ``ImportError``, since rl-zoo3
    silently leaves out a ``custom_envs.py`` that raises one.
    """
    from sb3_pvp.zoo.installation import install_into_rl_zoo3

    try:
        install_into_rl_zoo3()
    except ImportError as error:
        raise RuntimeError(f"sb3_pvp.zoo cannot be installed into rl-zoo3: {error}") from error
