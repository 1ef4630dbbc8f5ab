"""The commands of rl-zoo3, with the algorithm and the environments of this package."""

from __future__ import annotations

import importlib
import multiprocessing
import re
import runpy
import secrets
import sys
import time
from argparse import Action, ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium
from gymnasium.error import DependencyNotInstalled

from sb3_pvp.algorithms.presets import ALGO, find_preset
from sb3_pvp.common.atomic_files import no_space, replacing, write_atomically
from sb3_pvp.common.errors import (
    Refusal,
    TrainingInterrupted,
    command_line,
    extra,
    loadable,
    print_in_order,
    refusal_of,
    refusals,
    unknown_name,
    without_passwords,
)
from sb3_pvp.common.plain_yaml import parse_yaml
from sb3_pvp.common.stop_signals import STOPPED, interrupts, stopping
from sb3_pvp.common.user_modules import importing_here
from sb3_pvp.game import HOME_GAME, WorldError, register_game, unversioned
from sb3_pvp.zoo.domains import register_domain, require_packages
from sb3_pvp.zoo.patches import replaced

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

    from sb3_pvp.zoo.configs import Resolved
    from sb3_pvp.zoo.manager import PvpExperimentManager

#: The least values of options that rl-zoo3 does not check.
_LEAST = {
    **dict.fromkeys(("eval_episodes", "n_eval_envs", "n_trials", "n_jobs", "max_total_trials", "n_evaluations"), 1),
    "n_startup_trials": 0,
    "reference_fights": 1,
    **dict.fromkeys(("distribute", "num_cpus_per_actor"), 0),
}
#: Help texts of rl-zoo3's options that behave differently with our environments.
_HELP = {
    "eval_episodes": "Fights per evaluation (64 in an embedded world, else 5)",
    "eval_freq": "Steps between evaluations, -1 for none (25,000; more where that were over 100 in an embedded world; "
    "-1 for a game behind a screen, whose evaluations take hours)",
    "n_eval_envs": "Environments for evaluation (one per fight in an embedded world, else 1)",
    "n_jobs": "Processes that run trials (one for each core)",
    "num_threads": "Threads for PyTorch; one is fastest as long as no layer is wider than 256",
}
_EPILOG = (
    "python -m sb3_pvp.zoo COMMAND is the same. For rl-zoo3's own `python -m rl_zoo3.train --algo maskable_ppo`, put a "
    "file custom_envs.py with the line `import sb3_pvp.zoo.custom_envs` into the working directory."
)


def install() -> None:
    """Registers this package with rl-zoo3; calling it again has no effect.

    This adds the algorithm ``maskable_ppo``, replaces the experiment manager by `PvpExperimentManager`, lets rl-zoo3's
    commands find all checkpoints of a run, and speeds up the start of ``SubprocVecEnv`` workers.

    Raises ``RuntimeError`` if a required package is missing: rl-zoo3 silently ignores an ``ImportError`` in
    ``custom_envs.py``.
    """
    with extra("zoo", "train and enjoy"):
        import rl_zoo3
    try:
        # First, because this imports the user's custom_envs.py, which may in turn call this function.
        import rl_zoo3.import_envs  # noqa: F401
        from rl_zoo3 import ALGOS

        from sb3_pvp.algorithms.ppo import PvpPPO
        from sb3_pvp.policies.files.registry import algorithm_names, find_algorithm
        from sb3_pvp.zoo.manager import PvpExperimentManager
        from sb3_pvp.zoo.runs.saved_runs import create_test_env, get_model_path
    except ImportError as error:
        raise RuntimeError(f"sb3_pvp.zoo cannot be installed into rl-zoo3: {error}") from error
    for name, found in loadable("algorithm", algorithm_names(), lambda name: (name, find_algorithm(name))):
        ALGOS.setdefault(name, found.model_class)
    ALGOS[ALGO] = PvpPPO  # a subclass of MaskablePPO that behaves the same with its arguments
    ours: dict[str, Any] = {"ExperimentManager": PvpExperimentManager}
    ours |= {"create_test_env": create_test_env, "get_model_path": get_model_path}
    # In each module that has these names by now; one that is imported later takes them from these modules.
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] == "rl_zoo3":
            vars(module).update({each: ours[each] for each in ours.keys() & vars(module).keys()})
    # Imported once by the fork server, instead of by each worker of a SubprocVecEnv.
    multiprocessing.set_forkserver_preload(["stable_baselines3", "sb3_pvp.envs"])


def train(
    arguments: list[str] | None = None, begin: Callable[[PvpExperimentManager, BaseAlgorithm], object] | None = None
) -> Path | None:
    """Trains with the options of ``rl_zoo3.train``, by default those of the command line. Additional options:

    * ``--preset NAME`` sets the algorithm, environment and ``-conf`` of a preset, each of which may be overridden.
      Without any of these, our algorithm is trained on the home game.
    * ``--configs NAME NAME …`` merges presets, sizes and YAML files, see `sb3_pvp.zoo.configs`.
    * ``--resume [DIR]`` resumes a run exactly, by default the newest one with the same settings that has a checkpoint
      and is not finished. Only if this environment has no runs at all does it start a new one; otherwise a typo would
      silently train from scratch. ``-n`` is the number of steps of the whole run. Checkpoints are enabled.
    * ``--logdir DIR`` is the folder of the run; if a run is there, it is resumed, so that the same command goes on.
    * ``-i MODEL`` starts a new run with a trained model, also a fighter file or a name, and ``-n`` more steps, see
      `sb3_pvp.zoo.runs.resume`.
    * ``--initialize-from RUN`` starts a new run with the weights of another one, and counts from 0.
    * ``--changed`` resumes with other hyperparameters, and prints each of them, see `sb3_pvp.zoo.runs.changes`.
    * ``--mlagents FILE`` trains by a trainer file of Unity's ML-Agents, see `sb3_pvp.zoo.imports.mlagents`.
    * For ``--track`` see `sb3_pvp.zoo.runs.tracking`, for ``-optimize`` `sb3_pvp.zoo.sweeps.sweep`.

    ``begin`` is called with the experiment and its model before training: it may look at them, and add callbacks.

    Returns the folder of the run; ``None`` after a sweep. Errors are one line on stderr, and ``SystemExit(2)`` for
    invalid options, of which no folder is left, or ``SystemExit(1)`` for a lost server or worker. Ctrl-C, SIGTERM and
    SIGHUP are ``SystemExit(130)``, with the command to continue.
    """
    with _command("train", arguments) as arguments:
        import torch
        from stable_baselines3.common.utils import set_random_seed

        from sb3_pvp.zoo.configs import resolved_file
        from sb3_pvp.zoo.manager import PvpExperimentManager

        given, found = _parse_training(arguments)
        given.seed = given.seed if given.seed >= 0 else secrets.randbelow(2**32 - 1)
        set_random_seed(given.seed)
        if given.num_threads > 0:
            torch.set_num_threads(given.num_threads)
        print(f"{'=' * 10} {given.env} {'=' * 10}\nSeed: {given.seed}")
        with resolved_file(found, given, arguments) if found else nullcontext():
            experiment = PvpExperimentManager.from_options(given)
            made = experiment.setup_experiment()
        if made is None:
            experiment.hyperparameters_optimization()
            return None
        if begin is not None:
            begin(experiment, made[0])
        experiment.learn(made[0])
        experiment.save_trained_model(made[0])
        return Path(experiment.save_path)


def enjoy(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.enjoy`` with these arguments, by default those of the command line."""
    with _command("enjoy", arguments) as arguments:
        import rl_zoo3.enjoy

        _check(_stock_parser("enjoy").parse_args(arguments))
        with _given("enjoy", arguments):
            rl_zoo3.enjoy.enjoy()


def record_video(arguments: list[str] | None = None) -> None:
    """Runs ``rl_zoo3.record_video`` with these arguments, by default those of the command line."""
    with _command("record_video", arguments) as arguments:
        require_packages("render", "moviepy")
        if not {"-h", "--help"} & {*arguments}:
            # rl-zoo3's script has no function from which to get its parser; nearly all of its options are enjoy's.
            _check(_stock_parser("enjoy").parse_known_args(arguments)[0])
        with _given("record_video", arguments):
            runpy.run_module("rl_zoo3.record_video", run_name="__main__")


#: The commands of `python -m sb3_pvp.zoo`, by name.
COMMANDS: dict[str, Callable[[list[str]], object]] = {
    command.__name__: command for command in (train, enjoy, record_video)
}


@contextmanager
def _command(name: str, arguments: list[str] | None) -> Iterator[list[str]]:
    """Runs a command in this context: with `install`, and with errors as one line; yields its arguments."""
    given = _with_plain_ids(sys.argv[1:] if arguments is None else arguments)
    print_in_order()
    try:
        # Of rl-zoo3's commands: custom_envs.py, and what configurations name.
        with importing_here(), stopping(), interrupts():
            install()
            yield given
    except Exception as error:
        full = no_space(error)  # whatever else followed from it
        machine = full or (error if isinstance(error, OSError) else None)
        has_failed = full or isinstance(error, (TrainingInterrupted, WorldError))
        is_refusal = has_failed or isinstance(error, (Refusal, DependencyNotInstalled))
        if sys.flags.dev_mode or not (machine or is_refusal):  # PYTHONDEVMODE=1: with traceback
            raise
        text = refusal_of(machine) if machine else str(error)
        text += "; with --resume a training goes on from its newest checkpoint" if full else ""
        print(f"{name}: error: {' '.join(text.split())}", file=sys.stderr)
        sys.exit(1 if has_failed else 2)
    except KeyboardInterrupt as error:
        # From the manager, with a message and the options to continue; or a plain one.
        text, *options = error.args or ("stopped",)
        words = without_passwords([name, *_without(given, options[0]), *options] if options else [])
        print(f"{name}: {text}{': ' if words else ''}{command_line(*words) if words else ''}", file=sys.stderr)
        sys.exit(STOPPED)


def _with_plain_ids(arguments: list[str]) -> list[str]:
    """Returns the arguments with ids of environments as runs and hyperparameters have them: without a version."""
    words = [*arguments]
    for place, word in enumerate(words):
        if place and words[place - 1] == "--env":
            words[place] = unversioned(word)
        elif word.startswith("--env="):
            words[place] = f"--env={unversioned(word.partition('=')[2])}"
    return words


def _without(arguments: list[str], option: str) -> list[str]:
    """Returns the arguments without this option and its value, if they have it."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(option, nargs="?")
    return parser.parse_known_args(arguments)[1]


def _given(name: str, arguments: list[str]) -> Any:
    """Lets a command of rl-zoo3 read these arguments after our defaults: the last one counts."""
    return replaced(sys, argv=[name, "--algo", ALGO, "--env", HOME_GAME, "--folder", "logs", *arguments])


class _HelpFormatter(ArgumentDefaultsHelpFormatter):
    """Shows the default values of options, except for those that only mean "not given"."""

    def _get_help_string(self, action: Action) -> str | None:
        is_unset = action.default in (None, "", False, -1, [])
        return action.help if is_unset else super()._get_help_string(action)


class _Parser(ArgumentParser):
    """A parser of rl-zoo3, in whose place it raises itself; it raises `Refusal` for what it cannot parse."""

    class Made(Exception):
        """Has the parser of a command, with all its options, as its argument."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if args is None:  # rl-zoo3 would parse the command line
            raise self.Made(self)
        try:
            return super().parse_known_args(args, namespace)
        except Refusal:
            raise
        except Exception as error:  # rl-zoo3 evaluates VALUE as Python code, which may raise anything
            raise Refusal(
                "-params, --env-kwargs and --eval-env-kwargs take NAME:VALUE with a Python VALUE, so that a string "
                f"needs quotes within quotes, such as \"opponent:'scripted'\": {error}"
            ) from error

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Does as argparse does; with ``--configs``, options that it does not know are hyperparameters."""
        given, others = self.parse_known_args(args, namespace)
        if others and not getattr(given, "configs", None):
            hint = "; --configs takes hyperparameters as options, and -params as NAME:VALUE"
            self.error(f"unrecognized arguments: {' '.join(others)}{hint if 'configs' in given else ''}")
        return given

    def error(self, message: str) -> NoReturn:
        raise Refusal(message)


def _stock_parser(name: str) -> ArgumentParser:
    """Returns the parser of `rl_zoo3.train.train` or `rl_zoo3.enjoy.enjoy`, with our defaults."""
    module = importlib.import_module(f"rl_zoo3.{name}")
    try:
        # The function makes its parser first, of the class that its own module calls so.
        with replaced(module, argparse=SimpleNamespace(ArgumentParser=_Parser)):
            getattr(module, name)()
    except _Parser.Made as made:
        parser: ArgumentParser = made.args[0]
    parser.prog, parser.epilog, parser.formatter_class = f"sb3-pvp {name}", _EPILOG, _HelpFormatter
    parser.set_defaults(algo=ALGO, env=HOME_GAME, folder="logs")  # `train` writes there; rl-zoo3 looks elsewhere
    return parser


def _training_parser() -> ArgumentParser:
    """Returns the parser of ``train``: the options of rl-zoo3 and ours."""
    from sb3_pvp.algorithms.actors.cluster import CPUS_PER_ACTOR
    from sb3_pvp.zoo.runs.resume import NEWEST
    from sb3_pvp.zoo.sweeps.sweep import add_options

    parser = _stock_parser("train")
    add = parser.add_argument_group("sb3-pvp").add_argument
    add("--preset", help="Use --algo, --env and -conf of this preset.")
    trainers = "Train by this trainer file of Unity's ML-Agents, see import-mlagents; --env names the game, if needed."
    add("--mlagents", metavar="FILE", help=trainers)
    weights = "Start a new run, from step 0, with the weights of a run's folder, RUN@STEPS, or a model."
    add("--initialize-from", metavar="RUN", help=weights)
    add("--changed", action="store_true", help="With --resume: go on with hyperparameters that have changed.")
    merged = "Configurations, merged from left to right: presets, YAML files, sizes; then --train_ratio 32 etc."
    add("--configs", nargs="+", metavar="NAME", help=merged)
    add("--challenge", help="Train for the challenge of an arena, in this folder or file: its game, start and budget.")
    newest = "Resume the run in this folder; by default the newest stopped run."
    add("--resume", nargs="?", const=NEWEST, help=newest)
    folder = "The folder of the run; the same command resumes it. In a new one, {timestamp} is the time of the start."
    add("--logdir", metavar="DIR", help=folder)
    for kind in ("sum", "mean", "max", "video"):
        what = f"Keys of observations named log_... of which the {kind} of an episode is logged: a regular expression."
        add(f"--log-keys-{kind}", f"--run.log_keys_{kind}", metavar="REGEX", help=what)
    zeros: dict[str, Any] = {"nargs": "?", "const": True, "default": False, "type": parse_yaml, "metavar": "True"}
    add("--log-zeros", "--run.log_zeros", help="Also log such keys where they are always zero.", **zeros)
    actors = "Processes that play beside learning: a number, 0 for none, or auto for one per core"
    # The algorithm refuses what is neither a number nor auto.
    number_or_word: Any = lambda text: int(text) if text.isdigit() else text  # noqa: E731
    add("--actors", type=number_or_word, help=f"{actors} (default in an embedded world)")
    synchronous = "With actors: play only between learning, for exact resume."
    add("--synchronous", action="store_true", default=None, help=synchronous)
    distribute = "Let actors of a Ray cluster play the rollouts (RAY_ADDRESS; default: as many as it has CPUs for)."
    add("--distribute", nargs="?", const=0, type=int, metavar="N", help=distribute)
    reserved = "CPUs that Ray reserves for each of them."
    add("--num-cpus-per-actor", type=float, default=CPUS_PER_ACTOR, metavar="N", help=reserved)
    add_options(parser)
    # The manager sets these depending on their cost.
    parser.set_defaults(eval_freq=None, eval_episodes=None, n_eval_envs=None)
    for action in parser._actions:
        action.help = _HELP.get(action.dest, action.help)
    return parser


def own_options() -> list[Action]:
    """Returns the options of ``train`` that are not rl-zoo3's."""
    groups = (group for group in _training_parser()._action_groups if group.title in ("sb3-pvp", "sweeps"))
    return [option for group in groups for option in group._group_actions]


def _parse_training(arguments: list[str]) -> tuple[Namespace, Resolved | None]:
    """Parses and checks rl-zoo3's options of ``train`` together with ours; returns also what ``--configs`` come to."""
    from rl_zoo3 import ALGOS
    from rl_zoo3.hyperparams_opt import HYPERPARAMS_SAMPLER
    from sb3_contrib import MaskablePPO

    from sb3_pvp.zoo.configs import resolve_options
    from sb3_pvp.zoo.runs.resume import model_of_run

    parser = _training_parser()
    now = time.strftime("%Y%m%dT%H%M%S")
    arguments = [word.replace("{timestamp}", now) for word in arguments]
    given = parser.parse_args(arguments)
    found = None
    if given.configs is not None:
        if given.preset is not None or given.mlagents is not None:
            raise Refusal("--configs take the place of --preset and --mlagents: name a preset among them")
        found = resolve_options(parser, arguments)
        given = parser.parse_args(arguments)
    if given.mlagents is not None:
        given.preset = _imported_preset(parser, given, arguments)
    if given.preset is not None:
        with refusals():
            preset = find_preset(given.preset)
            algo = preset.algo
        # As defaults, so that options on the command line override them when parsed again.
        parser.set_defaults(algo=algo, env=preset.env_id, conf_file=str(preset.path))
        given = parser.parse_args(arguments)
    if given.challenge is not None:
        given = _for_challenge(parser, given.challenge, arguments)
    if (steps := given.n_timesteps) < 1 and steps != -1:
        raise Refusal(f"-n must be a positive number of steps, or -1 for that of the preset, got {steps}")
    for name, least in _LEAST.items():
        if (number := getattr(given, name)) is not None and number < least:
            raise Refusal(f"--{name.replace('_', '-')} must be at least {least}, got {number}")
    if given.distribute is not None:
        require_packages("ray", "ray")
    _check(given)
    if given.optimize_hyperparameters and not (
        given.algo in HYPERPARAMS_SAMPLER or issubclass(ALGOS[given.algo], MaskablePPO)
    ):
        raise Refusal(f"-optimize has no search space for --algo {given.algo}")
    for kind in ("sum", "mean", "max", "video"):
        with refusals(re.error, about=f"--log-keys-{kind} takes a regular expression"):
            re.compile(getattr(given, f"log_keys_{kind}") or "")
    if given.logdir is not None and (given.resume or given.optimize_hyperparameters):
        raise Refusal("--logdir is for one run, which it resumes: leave out --resume or -optimize")
    if given.changed and not (given.resume or given.logdir):
        raise Refusal("--changed is for --resume: without it, a new run begins with any hyperparameters")
    if given.initialize_from:
        if given.trained_agent:
            raise Refusal(
                "-i goes on counting the steps of its model, and --initialize-from does not: take one of them"
            )
        given.trained_agent = model_of_run(given.initialize_from)
    if given.trained_agent:
        given.trained_agent = _initial_model(given.trained_agent, Path(given.log_folder))
    return given, found


def _imported_preset(parser: ArgumentParser, given: Namespace, arguments: list[str]) -> str:
    """Returns the path of the preset that a trainer file of ML-Agents became, in the log folder; prints the notes."""
    from sb3_pvp.zoo.imports.mlagents import import_mlagents

    if given.preset is not None:
        raise Refusal("--mlagents takes the place of --preset: leave one of them out")
    named = given.env if given.env != parser.get_default("env") or {"--env"} & {*arguments} else None
    with refusals():
        path = Path(given.mlagents)
        imported = import_mlagents(path, game=named)
        made = Path(given.log_folder, f"{path.stem}.mlagents.yml")
        write_atomically(made, imported.text(path.name))
    print("\n".join((*imported.notes, f"Imported {path} as {made}")))
    return str(made)


def _for_challenge(parser: ArgumentParser, path: str, arguments: list[str]) -> Namespace:
    """Parses options again, with the game, its start and the budget of a challenge as defaults.

    Raises `Refusal` for another game or algorithm, or more steps. The run's hyperparameters are read from its folder
    when the player enters the arena.
    """
    from sb3_pvp.arena.challenge import load_challenge

    with refusals():
        challenge = load_challenge(path)
        if challenge.played.name not in gymnasium.registry:
            register_game(challenge.played)
    entry = challenge.entry
    parser.set_defaults(env=challenge.played.name, n_timesteps=entry.budget or -1)
    if entry.algorithms:
        parser.set_defaults(algo=entry.algorithms[0])
    given = parser.parse_args(arguments)
    if given.env != challenge.played.name:
        raise Refusal(f"the challenge {challenge.name} is played in {challenge.played.name}, not in {given.env}")
    if entry.algorithms and given.algo not in entry.algorithms:
        raise Refusal(f"--algo {given.algo} may not enter {challenge.name}, only {', '.join(entry.algorithms)}")
    if entry.budget is not None and given.n_timesteps > entry.budget:
        raise Refusal(f"-n {given.n_timesteps} is more than the budget of {challenge.name}, {entry.budget} steps")
    start = {"reset_params": challenge.reset_params, "max_episode_ticks": challenge.settings.max_episode_ticks}
    # So that the other env_kwargs of a preset stay, such as its rewards.
    given.hyperparams = {**{f"env_kwargs.{name}": value for name, value in start.items()}, **(given.hyperparams or {})}
    return given


def _check(given: Namespace) -> None:
    """Raises `Refusal` for invalid values for which rl-zoo3 would show a traceback."""
    import torch
    from stable_baselines3.common.utils import get_device

    with refusals(ImportError, about="--gym-packages takes names of Python packages"):
        for package in given.gym_packages:
            importlib.import_module(package)
    try:  # get_device silently falls back to the CPU if there is no GPU
        torch.zeros(1, device=get_device() if given.device == "auto" else given.device).item()
    except (RuntimeError, AssertionError) as error:  # depending on the build, torch raises either without CUDA
        raise Refusal(f"--device {given.device} cannot be used: {str(error).partition('. ')[0]}") from error
    env = getattr(given.env, "gym_id", given.env)
    if env not in gymnasium.registry:
        register_domain(env)
    if env not in gymnasium.registry:
        raise Refusal(str(unknown_name("environment", env, gymnasium.registry)).partition(" Known: ")[0])


def _initial_model(wanted: str, log_folder: Path) -> str:
    """Returns the path of the zip to begin with; that of a fighter file, or a name, is written to the log folder."""
    from sb3_pvp.policies.files.model_files import load, save_weights
    from sb3_pvp.policies.files.shipped import find_model, is_fighter

    with refusals():
        file = find_model(wanted)
    if is_fighter(file):
        made = log_folder / f"{file.stem}.zip"
        with refusals(), replacing(made) as partial:
            save_weights(load(file), partial)
        return str(made)
    if file.suffix != ".zip":
        raise Refusal(f"{file} is no model: -i takes a model's zip, a fighter file or the name of a fighter that ships")
    return str(file)
