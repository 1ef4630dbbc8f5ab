"""What is put into rl-zoo3, and where."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium

from sb3_pvp.presets.presets import ALGO

#: Loaded once by the server that forks the workers of a SubprocVecEnv, and not by each of them.
_WORKER_MODULES = ["stable_baselines3", "sb3_pvp.envs"]
#: Where rl-zoo3 keeps the names that are replaced. Modules that are imported later take them from the first three.
_MODULES = ("rl_zoo3", "rl_zoo3.utils", "rl_zoo3.exp_manager", "rl_zoo3.train", "rl_zoo3.enjoy")


def install() -> None:
    """Teaches rl-zoo3 this package; calling it again changes nothing.

    ``maskable_ppo`` is one of its algorithms then, `PvpExperimentManager` manages its experiments, its commands find
    all checkpoints of a run, and workers of a ``SubprocVecEnv`` start quickly.

    Raises ``RuntimeError`` if something that is needed is not installed. It is no ``ImportError``, since rl-zoo3
    silently leaves out a ``custom_envs.py`` that raises one.
    """
    try:
        from rl_zoo3 import ALGOS

        from sb3_pvp.ppo import PvpPPO
        from sb3_pvp.zoo.manager import PvpExperimentManager
        from sb3_pvp.zoo.saved_runs import create_test_env, get_model_path
    except ImportError as error:
        raise RuntimeError(f"sb3_pvp.zoo cannot be installed into rl-zoo3: {error}") from error
    ALGOS[ALGO] = PvpPPO  # a MaskablePPO, and with the arguments of one it does the same
    ours = {
        "ExperimentManager": PvpExperimentManager,
        "create_test_env": create_test_env,
        "get_model_path": get_model_path,
    }
    for module in _MODULES:
        names = vars(sys.modules[module]) if module in sys.modules else {}
        names.update({name: replacement for name, replacement in ours.items() if name in names})
    multiprocessing.set_forkserver_preload(_WORKER_MODULES)


def is_ours(env_id: str) -> bool:
    """Whether this environment was registered by this package."""
    return str(gymnasium.spec(env_id).entry_point).startswith("sb3_pvp.")


@contextmanager
def replaced(owner: Any, **names: Any) -> Iterator[None]:
    """Gives a module or class other values of these names for a while; some need not be there."""
    before = {name: vars(owner)[name] for name in names if name in vars(owner)}
    try:
        for name, value in names.items():
            setattr(owner, name, value)
        yield
    finally:
        for name in names:
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)
