"""rl-zoo3 with ``--algo maskable_ppo`` and the environments of this package.

``python -m sb3_pvp.zoo train ...`` and ``enjoy ...`` take every option of rl-zoo3, and ``train`` also takes
``--preset NAME``. To use rl-zoo3's own entry points instead, put a file ``custom_envs.py`` with
``import sb3_pvp.zoo; sb3_pvp.zoo.install()`` into the working directory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import sb3_pvp  # registers the environments
from sb3_pvp.zoo.hyperparams import ALGO, find_preset, hyperparams_path, presets

__all__ = ["enjoy", "find_preset", "hyperparams_path", "install", "presets", "train"]

# Loaded once by the server that forks the workers of a SubprocVecEnv, and not by each of them.
_WORKER_MODULES = ["stable_baselines3", sb3_pvp.__name__, "sb3_pvp.envs"]


def install() -> None:
    """Adds ``maskable_ppo`` to rl-zoo3 and puts `PvpExperimentManager` in place; calling it again changes nothing."""
    from rl_zoo3 import ALGOS, exp_manager

    from sb3_pvp.ppo import PvpPPO
    from sb3_pvp.zoo.manager import PvpExperimentManager

    ALGOS[ALGO] = PvpPPO  # a MaskablePPO, and with the arguments of one it does the same
    # For ``rl_zoo3.train`` whether it has been imported already or, as under ``python -m rl_zoo3.train``, will be.
    vars(exp_manager)["ExperimentManager"] = PvpExperimentManager
    import rl_zoo3.train

    vars(rl_zoo3.train)["ExperimentManager"] = PvpExperimentManager
    multiprocessing.set_forkserver_preload(_WORKER_MODULES)


def train(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.train`` on these arguments, or on those of the command line.

    ``--preset NAME`` among them stands for the algorithm, environment and ``-conf`` of that preset; each of these may
    also be given. An unknown preset is one line on stderr and ``SystemExit(2)``. If the server that is trained on, or
    the process of an environment, is gone in the middle, that is one line and ``SystemExit(1)``.
    """
    arguments = _without_preset(sys.argv[1:] if arguments is None else arguments)
    install()
    from rl_zoo3.train import train as rl_zoo3_train

    from sb3_pvp.zoo.manager import TrainingInterrupted

    with _command_line(arguments):
        try:
            rl_zoo3_train()
        except TrainingInterrupted as error:
            print(f"train: error: {error}", file=sys.stderr)
            sys.exit(1)


def enjoy(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.enjoy`` on these arguments, or on those of the command line."""
    install()
    from rl_zoo3.enjoy import enjoy as rl_zoo3_enjoy

    with _command_line(sys.argv[1:] if arguments is None else arguments):
        rl_zoo3_enjoy()


def _without_preset(arguments: list[str]) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, argument_default="")
    parser.add_argument("--preset")
    given, others = parser.parse_known_args(arguments)
    if not given.preset:
        return others
    try:
        preset = find_preset(given.preset)
    except ValueError as error:
        print(f"train: error: {error}", file=sys.stderr)
        sys.exit(2)
    # First, so that what is given on the command line replaces it.
    return ["--algo", ALGO, "--env", preset.env_id, "-conf", str(preset.path), *others]


@contextmanager
def _command_line(arguments: list[str]) -> Iterator[None]:
    # rl-zoo3 reads `sys.argv` and nothing else.
    before = sys.argv
    sys.argv = [before[0], *arguments]
    try:
        yield
    finally:
        sys.argv = before
