"""What a worker process of a sweep does."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from rl_zoo3 import ALGOS
from stable_baselines3.common.base_class import BaseAlgorithm
from tqdm import tqdm

from sb3_pvp.zoo.sweeps.study import Settings

if TYPE_CHECKING:
    from sb3_pvp.zoo.sweeps.manager import SweepingManager


def run_trials(
    manager: type[SweepingManager],
    arguments: tuple[Any, ...],
    algorithm: type[BaseAlgorithm],
    spec: EnvSpec,
    storage: str,
    settings: Settings,
    folder: Path,
) -> Iterator[str]:
    """Runs trials until there are none left, with a manager like that of the process that started this one.

    Args:
        manager: its class.
        arguments: of the manager: two tuples or mappings at the end, of positional and of keyword arguments.
        algorithm, spec: of the study, as they are registered there.
        storage, settings: of the study.
        folder: for temporary files, which the other process removes.
    """
    args, algo, env_id, positional, keywords = arguments
    for package in getattr(args, "gym_packages", ()):
        importlib.import_module(package)
    ALGOS[algo] = algorithm
    gymnasium.registry.setdefault(spec.id, spec)
    folder.mkdir(exist_ok=True)  # another machine of a cluster does not have it
    tempfile.tempdir = str(folder)
    own = manager(args, algo, env_id, *positional, **keywords)
    yield from own._run_trials(own._queue(storage, settings), settings, tqdm(disable=True))
