"""rl-zoo3 with ``--algo maskable_ppo`` and the environments of this package.

``python -m sb3_pvp.zoo train|enjoy|record_video`` accept all options of rl-zoo3's commands;
``train`` also accepts ``--preset NAME`` and ``--resume``. To use rl-zoo3's own commands instead, put a file
``custom_envs.py`` with the line ``import sb3_pvp.zoo.custom_envs`` into the working directory.
"""

from __future__ import annotations

from sb3_pvp.algorithms.presets import find_preset, hyperparams_path, presets
from sb3_pvp.zoo.front_ends import enjoy, install, record_video, train

__all__ = [
    "enjoy",
    "find_preset",
    "hyperparams_path",
    "install",
    "presets",
    "record_video",
    "train",
]
