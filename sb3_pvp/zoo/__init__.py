"""rl-zoo3 with ``--algo maskable_ppo`` and the environments of this package.

``python -m sb3_pvp.zoo train ...`` and ``enjoy ...`` take every option of rl-zoo3, and ``train`` also takes
``--preset NAME`` and ``--resume``. To use rl-zoo3's own entry points instead, put a file ``custom_envs.py`` with
``import sb3_pvp.zoo; sb3_pvp.zoo.install()`` into the working directory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import sb3_pvp  # registers the environments
from sb3_pvp.zoo.hyperparams import ALGO, find_preset, hyperparams_path, presets

__all__ = ["enjoy", "find_preset", "hyperparams_path", "install", "presets", "train"]

# Loaded once by the server that forks the workers of a SubprocVecEnv, and not by each of them.
_WORKER_MODULES = ["stable_baselines3", sb3_pvp.__name__, "sb3_pvp.envs"]


#: `sb3_pvp.zoo.resume.NEWEST`, which needs SB3 to be imported.
_NEWEST = "newest"


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
    also be given.

    ``--resume`` goes on with the newest run of the algorithm and environment with these hyperparameters that has a
    checkpoint and not yet all its steps, as if it had never stopped, or else begins a new one: a command that has it
    may be killed and given again. ``--resume DIR`` goes on with the run in that folder. The steps asked for are those
    of the whole run. Without a `MaskableCheckpointCallback` of its own the run gets one.

    An unknown preset, or a folder with which one cannot go on, is one line on stderr and ``SystemExit(2)``. If the
    server that is trained on, or the process of an environment, is gone in the middle, that is one line and
    ``SystemExit(1)``.
    """
    given, arguments = _own_options(sys.argv[1:] if arguments is None else arguments)
    arguments = [*_of_preset(given.preset), *arguments]
    install()
    from rl_zoo3.train import train as rl_zoo3_train

    from sb3_pvp.zoo.manager import TrainingInterrupted
    from sb3_pvp.zoo.resume import ResumeError

    with _command_line(arguments), _resuming(given.resume):
        try:
            rl_zoo3_train()
        except ResumeError as error:
            print(f"train: error: {error}", file=sys.stderr)
            sys.exit(2)
        except TrainingInterrupted as error:
            print(f"train: error: {error}", file=sys.stderr)
            sys.exit(1)


def enjoy(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.enjoy`` on these arguments, or on those of the command line."""
    install()
    from rl_zoo3.enjoy import enjoy as rl_zoo3_enjoy

    with _command_line(sys.argv[1:] if arguments is None else arguments):
        rl_zoo3_enjoy()


def _own_options(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options that rl-zoo3 does not know, and the others."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--preset")
    parser.add_argument("--resume", nargs="?", const=_NEWEST)
    return parser.parse_known_args(arguments)


def _of_preset(name: str | None) -> list[str]:
    """What a preset stands for; to be put first, so that what is given on the command line replaces it."""
    if not name:
        return []
    try:
        preset = find_preset(name)
    except ValueError as error:
        print(f"train: error: {error}", file=sys.stderr)
        sys.exit(2)
    return ["--algo", ALGO, "--env", preset.env_id, "-conf", str(preset.path)]


@contextmanager
def _resuming(wanted: str | None) -> Iterator[None]:
    # rl-zoo3 makes the manager with the arguments that it knows.
    import rl_zoo3.train

    names = vars(rl_zoo3.train)
    manager = names["ExperimentManager"]
    names["ExperimentManager"] = partial(manager, resume=wanted)
    try:
        yield
    finally:
        names["ExperimentManager"] = manager


@contextmanager
def _command_line(arguments: list[str]) -> Iterator[None]:
    # rl-zoo3 reads `sys.argv` and nothing else.
    before = sys.argv
    sys.argv = [before[0], *arguments]
    try:
        yield
    finally:
        sys.argv = before
