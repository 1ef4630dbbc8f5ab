"""The commands of rl-zoo3, which then know the algorithm and the environments of this package."""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium

from sb3_pvp.common.errors import Refusal, TrainingInterrupted, refusals
from sb3_pvp.common.names import require_known, unknown_name
from sb3_pvp.presets.presets import ALGO, find_preset
from sb3_pvp.zoo.installation import install_into_rl_zoo3
from sb3_pvp.zoo.option_checks import check_numbers, check_plot
from sb3_pvp.zoo.sweeps.options import SweepOptions, add_options, read_options
from sb3_pvp.zoo.tracking import Tracking

#: `sb3_pvp.zoo.resume.NEWEST`, which needs SB3 to be imported.
_NEWEST = "newest"

#: The commands of `rl_zoo3.plots`.
PLOTS = ("plot_train", "plot_from_file", "all_plots")


def train(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.train`` on these arguments, or on those of the command line.

    ``--preset NAME`` among them stands for the algorithm, environment and ``-conf`` of that preset; each of these may
    also be given.

    ``--resume`` goes on with the newest run of the algorithm and environment with these hyperparameters that has a
    checkpoint and not yet all its steps, as if it had never stopped, or else begins a new one: a command that has it
    may be killed and given again. ``--resume DIR`` goes on with the run in that folder. The steps asked for are those
    of the whole run. Without a `MaskableCheckpointCallback` of its own the run gets one.

    ``-optimize`` and ``--trial-id`` are those of `sb3_pvp.zoo.sweeps`, with the options of `SweepOptions`.

    ``--track`` follows the training in W&B: see `sb3_pvp.zoo.tracking`.

    ``-i MODEL`` begins a new run with that model, which is trained for so many steps more; see
    `sb3_pvp.zoo.continuing`.

    What is unknown or impossible is one line on stderr and ``SystemExit(2)``, before anything is written. If the
    server that is trained on, or the process of an environment, is gone in the middle, that is one line and
    ``SystemExit(1)``.
    """
    with _command("train", arguments) as arguments:
        given, arguments = _own_options(arguments)
        sweep, of_sweep = read_options(given)
        arguments = [*_of_preset(given.preset), *arguments, *of_sweep]
        _check(arguments)
        check_numbers(arguments)
        from rl_zoo3.train import train as rl_zoo3_train

        tracking = Tracking(given.preset) if given.track else None
        with _command_line(arguments), _manager_with(resume=given.resume, sweep=sweep, tracking=tracking):
            rl_zoo3_train()


def enjoy(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.enjoy`` on these arguments, or on those of the command line."""
    with _command("enjoy", arguments) as arguments:
        _check(arguments)
        from rl_zoo3.enjoy import enjoy as rl_zoo3_enjoy

        with _command_line(arguments):
            rl_zoo3_enjoy()


def record_video(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.record_video`` on these arguments, or on those of the command line."""
    with _command("record_video", arguments) as arguments:
        _check(arguments)
        _require_packages("render", "moviepy")
        _run_script("rl_zoo3.record_video", arguments)


def record_training(arguments: list[str] | None = None) -> None:
    """One video of all models of a run, one after the other: see `sb3_pvp.zoo.training_video`."""
    with _command("record_training", arguments) as arguments:
        _check(arguments)
        _require_packages("render", "moviepy", "imageio_ffmpeg")
        from sb3_pvp.zoo.training_video import record_training as record

        record(arguments, record_video)


def push(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.push_to_hub`` on these arguments, or on those of the command line: see `sb3_pvp.zoo.hub`."""
    with _command("push", arguments) as arguments:
        _check(arguments)
        if "--no-render" not in arguments:
            _require_packages("render", "moviepy", "imageio_ffmpeg")
        from sb3_pvp.zoo.hub import mended_hub

        with mended_hub():
            _run_script("rl_zoo3.push_to_hub", arguments)


def plots(arguments: list[str] | None = None) -> None:
    """Runs one of `PLOTS`, the first argument, on the others."""
    with _command("plots", arguments) as arguments:
        name = arguments[0] if arguments else ""
        with refusals():
            require_known("plot", name, PLOTS)
        _require_packages("plots", "seaborn", "scipy", "pandas")
        check_plot(name, arguments[1:])
        import rl_zoo3.plots

        with _command_line(arguments[1:]):
            getattr(rl_zoo3.plots, name)()


#: What `python -m sb3_pvp.zoo` runs.
COMMANDS: dict[str, Callable[[list[str]], None]] = {
    command.__name__: command for command in (train, enjoy, record_video, record_training, plots, push)
}


@contextmanager
def _command(name: str, arguments: list[str] | None) -> Iterator[list[str]]:
    """Around a command, whose arguments it gives: installs what it needs, and lets errors of the user be one line."""
    try:
        install_into_rl_zoo3()
        yield sys.argv[1:] if arguments is None else arguments
    except Refusal as error:
        _end(name, error, 2)
    except TrainingInterrupted as error:
        _end(name, error, 1)


def _end(name: str, error: Exception, code: int) -> None:
    print(f"{name}: error: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(code)


def _own_options(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options that rl-zoo3 does not know, and the others."""
    usage = "train [these options] [options of rl-zoo3, which follow]"
    parser = argparse.ArgumentParser(usage=usage, add_help=False, allow_abbrev=False)
    parser.add_argument("--preset", help="Stands for --algo, --env and -conf of a preset.")
    parser.add_argument("--resume", nargs="?", const=_NEWEST, help="Goes on with a run that was stopped.")
    # rl-zoo3 would begin with it before it knows the run.
    parser.add_argument("--track", action="store_true", help="Follows the run in W&B.")
    add_options(parser)
    if {"-h", "--help"} & set(arguments):
        print(parser.format_help())
    return parser.parse_known_args(arguments)


def _of_preset(name: str | None) -> list[str]:
    """What a preset stands for; to be put first, so that what is given on the command line replaces it."""
    if not name:
        return []
    with refusals():
        preset = find_preset(name)
    return ["--algo", ALGO, "--env", preset.env_id, "-conf", str(preset.path)]


def _check(arguments: list[str]) -> None:
    """What rl-zoo3 refuses with an error of many lines."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--gym-packages", nargs="+", default=[])
    parser.add_argument("-i", "--trained-agent", default="")
    parser.add_argument("--device", default="cpu")
    given, _ = parser.parse_known_args(arguments)
    with refusals(ImportError, about="--gym-packages takes names of Python packages"):
        for package in given.gym_packages:
            importlib.import_module(package)
    _check_device(given.device)
    model = Path(given.trained_agent)
    if given.trained_agent and not (model.suffix == ".zip" and model.is_file()):
        raise Refusal(f"there is no model {model}: -i takes the zip file of one")
    if given.env not in gymnasium.registry:
        raise Refusal(_unknown_env(given.env))


def _check_device(name: str) -> None:
    import torch
    from stable_baselines3.common.utils import get_device

    try:
        torch.zeros(1, device=get_device(name))
    except (RuntimeError, AssertionError) as error:  # without CUDA both are possible
        raise Refusal(f"--device {name} cannot be used: {str(error).partition('. ')[0]}") from error


def _unknown_env(name: str) -> str:
    return str(unknown_name("environment", name, gymnasium.registry)).partition(" Known: ")[0]


def _require_packages(extra: str, *packages: str) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise Refusal(f'this needs {" and ".join(missing)}, which are not installed: pip install "sb3-pvp[{extra}]"')


def _run_script(module: str, arguments: list[str]) -> None:
    """Runs a module of rl-zoo3 that is a script only."""
    with _command_line(arguments):
        runpy.run_module(module, run_name="__main__")


@contextmanager
def _manager_with(resume: str | None, sweep: SweepOptions, tracking: Tracking | None) -> Iterator[None]:
    # rl-zoo3 makes the manager with the arguments that it knows.
    import rl_zoo3.train

    names: dict[str, Any] = vars(rl_zoo3.train)
    manager = names["ExperimentManager"]
    names["ExperimentManager"] = partial(manager, resume=resume, sweep=sweep, tracking=tracking)
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
