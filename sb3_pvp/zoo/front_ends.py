"""The commands of rl-zoo3, which then know the algorithm and the environments of this package."""

from __future__ import annotations

import importlib
import multiprocessing
import runpy
import shlex
import sys
from argparse import Action, ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, cast

import gymnasium
from gymnasium.error import DependencyNotInstalled

from sb3_pvp.common.errors import Refusal, TrainingInterrupted, refusals
from sb3_pvp.common.names import require_known, unknown_name
from sb3_pvp.game import HOME_GAME
from sb3_pvp.presets.presets import ALGO, find_preset

#: The commands of `rl_zoo3.plots`.
PLOTS = ("plot_train", "plot_from_file", "all_plots")
#: Options that rl-zoo3 takes without a look, and the least that each may be.
_LEAST = {
    **dict.fromkeys(("eval_episodes", "n_eval_envs", "n_trials", "max_total_trials", "n_evaluations"), 1),
    "n_startup_trials": 0,
    "reference_fights": 1,
}
#: What is otherwise with our environments than rl-zoo3's help says.
_HELP = {
    "eval_episodes": "Fights of an evaluation (64 in an embedded world, else 5)",
    "n_eval_envs": "Environments for evaluation (as many as fights in an embedded world, else 1)",
    "num_threads": "Threads for PyTorch; learning takes one while no layer is wider than 256, more would slow it down",
}
_NAMED_VALUES = (
    "-params, --env-kwargs and --eval-env-kwargs take NAME:VALUE with a VALUE in Python, where text is in quotes "
    "within quotes, such as \"opponent:'scripted'\""
)
#: Where rl-zoo3 keeps the names that are replaced. Modules that are imported later take them from the first three.
_MODULES = ("rl_zoo3", "rl_zoo3.utils", "rl_zoo3.exp_manager", "rl_zoo3.train", "rl_zoo3.enjoy")

#: The commands that `sb3-pvp` has as well; without ``--algo`` and ``--env`` they are about our algorithm and home game.
_OURS = ("train", "enjoy")
_EPILOG = (
    "python -m sb3_pvp.zoo COMMAND is the same. For rl-zoo3's own `python -m rl_zoo3.train --algo maskable_ppo`, put a "
    "file custom_envs.py with the line `import sb3_pvp.zoo.custom_envs` into the folder in which you start it."
)

_stock_parse_args: Any = ArgumentParser.parse_args


def install() -> None:
    """Teaches rl-zoo3 this package; calling it again changes nothing.

    ``maskable_ppo`` is one of its algorithms then, `PvpExperimentManager` manages its experiments, its commands find
    all checkpoints of a run, and workers of a ``SubprocVecEnv`` start quickly.

    Raises ``RuntimeError`` if something that is needed is not installed. It is no ``ImportError``, since rl-zoo3
    silently leaves out a ``custom_envs.py`` that raises one.
    """
    try:
        import rl_zoo3.import_envs  # noqa: F401  # which imports a custom_envs.py, and that may call this function
        from rl_zoo3 import ALGOS

        from sb3_pvp.ppo import PvpPPO
        from sb3_pvp.zoo.manager import PvpExperimentManager
        from sb3_pvp.zoo.saved_runs import create_test_env, get_model_path
    except ImportError as error:
        raise RuntimeError(f"sb3_pvp.zoo cannot be installed into rl-zoo3: {error}") from error
    ALGOS[ALGO] = PvpPPO  # a MaskablePPO, and with the arguments of one it does the same
    ours: dict[str, Any] = {"ExperimentManager": PvpExperimentManager}
    ours |= {"create_test_env": create_test_env, "get_model_path": get_model_path}
    for module in _MODULES:
        names = vars(sys.modules[module]) if module in sys.modules else {}
        names.update({name: replacement for name, replacement in ours.items() if name in names})
    # Loaded once by the server that forks the workers of a SubprocVecEnv, and not by each of them.
    multiprocessing.set_forkserver_preload(["stable_baselines3", "sb3_pvp.envs"])


def train(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.train`` on these arguments, or on those of the command line.

    ``--preset NAME`` among them stands for the algorithm, environment and ``-conf`` of that preset; each of these may
    also be given, and without any it is our algorithm and the home game. ``--resume [DIR]`` goes on with a run as if it
    had never stopped, by default the newest one of this kind that has a checkpoint and not yet all its steps. It begins
    one only if there is no run of this environment at all: else a typing error, or a second start, would train from
    nothing without a word. The steps asked for are those of the whole run, which gets a `MaskableCheckpointCallback` if
    it has none. ``-optimize`` and ``--trial-id``: see
    `sb3_pvp.zoo.sweeps`; ``--track``: `sb3_pvp.zoo.tracking`; ``-i MODEL``, a new run with that model, which is trained
    for so many steps more: `sb3_pvp.zoo.resume`.

    What is unknown or impossible is one line on stderr and ``SystemExit(2)``, before anything is written. If the
    server that is trained on, or the process of an environment, is gone in the middle, that is one line and
    ``SystemExit(1)``. Ctrl-C is one line with the command that goes on, and ``SystemExit(130)``.
    """
    with _command("train", arguments, _read_training):
        from rl_zoo3.train import train as rl_zoo3_train

        rl_zoo3_train()


def enjoy(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.enjoy`` on these arguments, or on those of the command line."""
    with _command("enjoy", arguments):
        from rl_zoo3.enjoy import enjoy as rl_zoo3_enjoy

        rl_zoo3_enjoy()


def record_video(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.record_video`` on these arguments, or on those of the command line."""
    with _command("record_video", arguments):
        _require_packages("render", "moviepy")
        runpy.run_module("rl_zoo3.record_video", run_name="__main__")


def record_training(arguments: list[str] | None = None) -> None:
    """One video of all models of a run, one after the other: see `sb3_pvp.zoo.saved_runs.record_training`."""
    with _command("record_training", arguments) as arguments:
        _require_packages("render", "moviepy", "imageio_ffmpeg")
        from sb3_pvp.zoo.saved_runs import record_training as record

        record(arguments, record_video)


def push(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.push_to_hub`` on these arguments, or on those of the command line."""
    with _command("push", arguments) as arguments:
        if "--no-render" not in arguments:
            _require_packages("render", "moviepy", "imageio_ffmpeg")
        from sb3_pvp.zoo.saved_runs import mended_hub

        with mended_hub():
            runpy.run_module("rl_zoo3.push_to_hub", run_name="__main__")


def plots(arguments: list[str] | None = None) -> None:
    """Runs one of `PLOTS`, the first argument, on the others."""
    name, *others = (sys.argv[1:] if arguments is None else arguments) or [""]
    with _command("plots", others, _parsed):
        with refusals():
            require_known("plot", name, PLOTS)
        _require_packages("plots", "seaborn", "scipy", "pandas")
        import rl_zoo3.plots
        from matplotlib import pyplot as plt

        from sb3_pvp.zoo.manager import replaced

        stock_show: Any = plt.show
        plt.close("all")

        def show() -> None:
            if not any(axes.has_data() for number in plt.get_fignums() for axes in plt.figure(number).axes):
                raise ValueError("there is nothing to draw")
            stock_show()

        try:
            with replaced(plt, show=show):
                getattr(rl_zoo3.plots, name)()
        except Refusal:
            raise
        except Exception as error:  # it looks at nothing before it draws
            needed = "-f FOLDER, -a ALGO and -e ENV of runs"
            if name == "plot_from_file":
                needed = "what all_plots -o has made of two or more runs with two or more evaluations each"
            raise Refusal(f"{name} needs {needed}: {error!r}") from error


#: What `python -m sb3_pvp.zoo` runs.
COMMANDS: dict[str, Callable[[list[str]], None]] = {
    command.__name__: command for command in (train, enjoy, record_video, record_training, plots, push)
}


@contextmanager
def _command(
    name: str, arguments: list[str] | None, read: Callable[[ArgumentParser, list[str]], Namespace] | None = None
) -> Iterator[list[str]]:
    """Around a command, whose arguments rl-zoo3's own parser reads: installs it, and lets users' errors be one line."""
    given = sys.argv[1:] if arguments is None else arguments

    def parse_args(parser: ArgumentParser, args: Any = None, namespace: Any = None) -> Any:
        if args is not None:  # a parser of somebody else
            return _stock_parse_args(parser, args, namespace)
        parser.prog, parser.error = name, _refuse  # type: ignore[method-assign]
        parser.formatter_class = _HelpFormatter
        parser.set_defaults(folder="logs")  # where `train` writes to
        if name in _OURS:
            parser.prog, parser.epilog = f"sb3-pvp {name}", _EPILOG
            parser.set_defaults(algo=ALGO, env=HOME_GAME)
        return read(parser, given) if read else _checked(_parsed(parser, given))

    before = ArgumentParser.parse_args
    try:
        install()
        ArgumentParser.parse_args = parse_args  # type: ignore[assignment, method-assign]
        yield given
    except (Refusal, TrainingInterrupted, DependencyNotInstalled) as error:
        print(f"{name}: error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1 if isinstance(error, TrainingInterrupted) else 2)
    except KeyboardInterrupt as error:
        text, *options = error.args or ("stopped",)
        command = f": {shlex.join(['sb3-pvp', name, *given, *options])}" if options else ""
        print(f"{name}: {text}{command}", file=sys.stderr)
        sys.exit(130)
    finally:
        ArgumentParser.parse_args = before  # type: ignore[method-assign]


class _HelpFormatter(ArgumentDefaultsHelpFormatter):
    def _get_help_string(self, action: Action) -> str | None:
        says_nothing = action.default in (None, "", False, -1, [])
        return action.help if says_nothing else super()._get_help_string(action)


def _refuse(message: str) -> NoReturn:
    raise Refusal(message)


def _parsed(parser: ArgumentParser, arguments: list[str]) -> Namespace:
    try:
        return cast("Namespace", _stock_parse_args(parser, arguments))
    except Refusal:
        raise
    except Exception as error:  # whatever Python says about a value
        raise Refusal(f"{_NAMED_VALUES}: {error}") from error


def _read_training(parser: ArgumentParser, arguments: list[str]) -> Namespace:
    """The options of rl-zoo3 and those that it does not know."""
    from sb3_pvp.zoo.resume import NEWEST
    from sb3_pvp.zoo.sweeps.manager import add_options

    ours = parser.add_argument_group("sb3-pvp")
    ours.add_argument("--preset", help="Stands for --algo, --env and -conf of a preset.")
    ours.add_argument(
        "--resume", nargs="?", const=NEWEST, help="Goes on with the newest run that was stopped, or this one."
    )
    add_options(parser)
    parser.set_defaults(eval_episodes=None, n_eval_envs=None)  # the manager knows what they cost
    for action in parser._actions:
        action.help = _HELP.get(action.dest, action.help)
    given = _parsed(parser, arguments)
    if given.preset is not None:
        with refusals():
            preset = find_preset(given.preset)
        parser.set_defaults(algo=ALGO, env=preset.env_id, conf_file=str(preset.path))
        given = _parsed(parser, arguments)
    if (steps := given.n_timesteps) < 1 and steps != -1:
        raise Refusal(f"-n must be a positive number of steps, or -1 for those of the preset, got {steps}")
    for name, least in _LEAST.items():
        if (number := getattr(given, name)) is not None and number < least:
            raise Refusal(f"--{name.replace('_', '-')} must be at least {least}, got {number}")
    # rl-zoo3 would begin to track before it knows the run.
    given.tracked, given.track = given.track, False
    return _checked(given)


def _checked(given: Namespace) -> Namespace:
    """Refuses what rl-zoo3 refuses with an error of many lines."""
    import torch
    from stable_baselines3.common.utils import get_device

    with refusals(ImportError, about="--gym-packages takes names of Python packages"):
        for package in getattr(given, "gym_packages", ()):
            importlib.import_module(package)
    device = getattr(given, "device", "cpu")
    try:  # get_device would silently take the CPU for one that is not there
        torch.zeros(1, device=get_device() if device == "auto" else device).item()
    except (RuntimeError, AssertionError) as error:  # without CUDA both are possible
        raise Refusal(f"--device {device} cannot be used: {str(error).partition('. ')[0]}") from error
    trained_agent = getattr(given, "trained_agent", "")
    if trained_agent and not (trained_agent.endswith(".zip") and Path(trained_agent).is_file()):
        raise Refusal(f"there is no model {trained_agent}: -i takes the zip file of one")
    env = getattr(given.env, "gym_id", given.env)
    if env not in gymnasium.registry:
        raise Refusal(str(unknown_name("environment", env, gymnasium.registry)).partition(" Known: ")[0])
    return given


def _require_packages(extra: str, *packages: str) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise Refusal(f'this needs {" and ".join(missing)}, which are not installed: pip install "sb3-pvp[{extra}]"')
