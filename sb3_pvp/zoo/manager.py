"""rl-zoo3's experiment manager, extended by action masks, `PvpVecEnv`, resuming and this package's defaults."""

from __future__ import annotations

import argparse
import copy
import inspect
import os
import shutil
import sys
import uuid
import warnings
from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import fields
from itertools import count
from pathlib import Path
from pprint import pprint
from typing import Any

import gymnasium
import torch
import yaml
from gymnasium import Env
from rl_zoo3 import ALGOS, exp_manager
from rl_zoo3.utils import get_latest_run_id
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from sb3_contrib.common.vec_env import AsyncEval
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import EvalCallback, ProgressBarCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.algorithms import presets
from sb3_pvp.algorithms.actors import room_for_actors, use_ray
from sb3_pvp.algorithms.hyperparameters import check_hyperparams
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.algorithms.ppo.actor_choice import AUTO_ACTORS
from sb3_pvp.algorithms.presets import hyperparams_in, hyperparams_path, is_ours, with_current_names, with_nested
from sb3_pvp.callbacks import (
    MaskableCheckpointCallback,
    MetricLinesCallback,
    ProgressCallback,
    WandbArtifactsCallback,
)
from sb3_pvp.callbacks.base import learner, resumes_exactly
from sb3_pvp.callbacks.checkpoint import CHECKPOINTS
from sb3_pvp.callbacks.replay_and_statistics import load_replay, load_statistics
from sb3_pvp.common.errors import Refusal, refusals, without_password, without_passwords
from sb3_pvp.common.stop_signals import drop_lost_outputs, uninterrupted
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.envs.log_keys import LogKeysWrapper, LogPatterns
from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.players.league import file_name
from sb3_pvp.players.league.league import LEAGUE, league_of
from sb3_pvp.zoo.domains import is_real_time
from sb3_pvp.zoo.patches import replaced
from sb3_pvp.zoo.runs.changes import apply_changes, check_networks, start_over
from sb3_pvp.zoo.runs.resume import (
    INITIAL_MODEL,
    LOCK,
    UNFINISHED,
    RunCallbacks,
    StoppedRun,
    choose_run,
    continue_counting,
    copy_league,
    finish_checkpoints,
    folder_to_resume,
    running,
    save_after_error,
    steps_of,
    stopped_run,
    warn_if_inexact,
)
from sb3_pvp.zoo.runs.tracking import EVENTS, finish_tracking, start_tracking
from sb3_pvp.zoo.sweeps.study import check_existing
from sb3_pvp.zoo.sweeps.sweep import Sweep, check_storage, complete_env_kwargs, parameters_of_trial
from sb3_pvp.zoo.worker_vec_env import WorkerVecEnv

#: Default number of fights of an evaluation, and of parallel environments for it. The 95 % interval of a win rate is
#: ±12 points for 64 fights, ±44 for rl-zoo3's five; 64 in parallel take little longer than five in sequence.
_EVALUATION = 64, 64
#: The same where every environment needs a process or a server connection, as in rl-zoo3.
_COSTLY_EVALUATION = 5, 1
#: Default steps between evaluations, as in rl-zoo3, and most evaluations of a run in an embedded world: where fights
#: are long, 64 have as many steps as all training in between.
_EVAL_FREQ, _MOST_EVALUATIONS = 25_000, 100
#: What games of this package take as ``env_kwargs``.
_ENV_ARGUMENTS = (*(field.name for field in fields(FightSettings)), "render_mode")
#: Arguments of rl-zoo3's experiment manager that are options of another name.
_OPTIONS = {
    "env_id": "env",
    "n_eval_episodes": "eval_episodes",
    "vec_env_type": "vec_env",
    "config": "conf_file",
    "show_progress": "progress",
}


class PvpExperimentManager(exp_manager.ExperimentManager):
    """`rl_zoo3.exp_manager.ExperimentManager` with the same arguments; our own options are attributes of ``args``.

    ``args.resume`` resumes a stopped run if there is one, see `sb3_pvp.zoo.runs.resume.choose_run`. ``args.logdir`` is
    the folder of the run: if there is one, it is resumed. ``args.track``
    tracks the run in W&B; rl-zoo3's own command has opened a W&B run before.
    """

    def __init__(self, args: argparse.Namespace, algo: str, env_id: str, *positional: Any, **keywords: Any) -> None:
        self._resume: str | None = getattr(args, "resume", None)
        self._logdir = Path(args.logdir) if getattr(args, "logdir", None) else None
        self._track: bool = getattr(args, "track", False)
        self._stopped_run: StoppedRun | None = None
        self._new_folder: Path | None = None  # if this process has created it
        self._starts_over = bool(getattr(args, "initialize_from", None))  # with the weights of another run
        self._was_stopped, self._stops_at_once, self._num_actors = False, False, 0
        if (num_actors := getattr(args, "distribute", None)) is not None:
            if not issubclass(ALGOS[algo], PvpPPO):
                raise Refusal(f"--distribute is for --algo {presets.OURS}, not for {algo}")
            with refusals():  # before anything is written
                self._num_actors = num_actors or room_for_actors(args.num_cpus_per_actor)
        default = hyperparams_path(algo) if is_ours(env_id) or algo != presets.ALGO else None
        keywords["config"] = keywords.get("config") or (str(default) if default else None)
        self._vec_env_type = keywords.get("vec_env_type", "dummy")
        self._warning = ""  # printed once the hyperparameters are known to be valid
        super().__init__(args, algo, env_id, *positional, **keywords)
        self._is_ours, self._is_maskable = is_ours(env_id), issubclass(ALGOS[algo], MaskablePPO)
        if self._logdir:
            self.log_path, self.save_path = str(self._logdir.parent), str(self._logdir)
            self.params_path = str(self._logdir / self.env_name)
            self._resume = folder_to_resume(self._logdir, self.env_name)
        check_storage(self.storage, self.trial_id, self.optimize_hyperparameters)
        if self._track and self.optimize_hyperparameters:
            raise Refusal("--track is for a single run, and a sweep has many: leave out --track or -optimize")
        self.deterministic_eval &= algo != "dreamerv3"  # it is evaluated as it plays, like the original
        if self._vec_env_type == "subproc":
            self.vec_env_class = WorkerVecEnv
        elif self._is_ours:
            self.vec_env_class = PvpVecEnv
        # For networks as small as ours, the overhead of more threads exceeds their benefit.
        if self._is_ours and getattr(args, "num_threads", -1) < 1:
            torch.set_num_threads(1)

    @classmethod
    def from_options(cls, given: argparse.Namespace) -> PvpExperimentManager:
        """Returns the manager for the options of rl-zoo3's ``train`` and ours."""
        values = {"args": given, "uuid_str": f"_{uuid.uuid4()}" if given.uuid else "", **vars(given)}
        _, *names = inspect.signature(super().__init__).parameters
        return cls(**{name: values[_OPTIONS.get(name, name)] for name in names})

    def _refusals(self) -> AbstractContextManager[None]:
        return refusals() if self._is_ours or resumes_exactly(ALGOS[self.algo]) else nullcontext()

    def read_hyperparameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reads the hyperparameters with imported presets and names like ``env_kwargs.world``.

        Raises `Refusal` if those for environments of this package are invalid.
        """
        with self._refusals():
            hyperparams, saved = self._read_block()
            given = {name: getattr(self.args, name, None) for name in ("actors", "synchronous")}
            self._actors = {name: value for name, value in given.items() if value is not None}
            if self._actors and not issubclass(ALGOS[self.algo], PvpPPO):
                raise Refusal(f"--actors and --synchronous are for --algo {presets.OURS}")
            hyperparams.update(self._actors)
            if self.continue_training:
                steps_of(Path(self.trained_agent))  # raises if this is not a model
            fights, num_parallel = _COSTLY_EVALUATION
            eval_freq = _EVAL_FREQ if self._is_ours or not is_real_time(self.env_name.gym_id) else -1
            if self._is_ours:
                check_hyperparams(hyperparams, ALGOS[self.algo], self.env_name.gym_id, _ENV_ARGUMENTS)
                if self.optimize_hyperparameters:  # what is impossible would show in the first trial only
                    self._try(hyperparams.get("env_kwargs"))
                played = self._complete(self._eval_env_kwargs_args or hyperparams.get("env_kwargs"))
                if self.vec_env_class is not WorkerVecEnv and played.get("world", "sim") == "sim":
                    fights, num_parallel = _EVALUATION
                    eval_freq = max(eval_freq, self._steps_of(saved) // _MOST_EVALUATIONS)
                    if issubclass(ALGOS[self.algo], PvpPPO) and not self.optimize_hyperparameters:
                        hyperparams.setdefault("actors", AUTO_ACTORS)
        sys.stderr.write(self._warning)
        self.eval_freq = eval_freq if self.eval_freq is None else self.eval_freq
        self.n_eval_episodes = self.n_eval_episodes or fights
        self.n_eval_envs = self.n_eval_envs or min(num_parallel, self.n_eval_episodes)
        if self._resume:
            self._select_stopped_run(self._resume, saved)
        return hyperparams, saved

    def _read_block(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.trial_id is not None:  # rl-zoo3 would pass over trial 0
            self.custom_hyperparams = parameters_of_trial(self) | (self.custom_hyperparams or {})
        if self.trial_id is not None:
            return super().read_hyperparameters()
        print(f"Loading hyperparameters from: {self.config}")
        group = "atari" if self._is_atari else presets.DEFAULT
        block = hyperparams_in(self.config, self.env_name.gym_id, group) | (self.custom_hyperparams or {})
        block = with_current_names(with_nested(block))
        if self.env_kwargs:
            if dropped := [name for name in block.get("env_kwargs") or () if name not in self.env_kwargs]:
                self._warning = (
                    f"warning: --env-kwargs replaces all env_kwargs of the preset, and drops its {', '.join(dropped)}; "
                    'to keep them use -params "env_kwargs.NAME:VALUE"\n'
                )
            block["env_kwargs"] = self.env_kwargs
        return block, OrderedDict(sorted(copy.deepcopy(block).items()))

    def _select_stopped_run(self, wanted: str, saved_hyperparams: dict[str, Any]) -> None:
        """Finds the run to resume, and uses its folder and checkpoint; without one a new run starts."""
        config = yaml.dump(saved_hyperparams)  # as in rl-zoo3's config.yml
        n_timesteps = self._steps_of(saved_hyperparams)
        given = wanted, Path(self.log_path), self.env_name, config, n_timesteps, self.trained_agent
        run = choose_run(*given, getattr(self.args, "changed", False), self.algo)
        if run is None:
            print(f"No run to resume in {self.log_path}: starting a new one")
            return
        print(f"Resuming {run.folder} after {run.steps} steps")
        warn_if_inexact(run)
        self._stopped_run = run
        self.save_path, self.params_path = str(run.folder), str(run.folder / self.env_name)
        self.trained_agent, self.continue_training = str(run.checkpoint), True

    def _steps_of(self, hyperparams: dict[str, Any]) -> int:
        return self.n_timesteps if self.n_timesteps > 0 else int(hyperparams["n_timesteps"])

    @staticmethod
    def _preprocess_schedules(hyperparams: dict[str, Any]) -> dict[str, Any]:
        # The base class accepts numbers and "lin_..." only; the algorithm itself parses schedules of this package.
        ours = {name: value for name, value in hyperparams.items() if isinstance(value, dict)}
        others = {name: value for name, value in hyperparams.items() if name not in ours}
        return {**super(PvpExperimentManager, PvpExperimentManager)._preprocess_schedules(others), **ours}

    def _preprocess_hyperparams(self, hyperparams: dict[str, Any]) -> Any:
        processed: Any = super()._preprocess_hyperparams(hyperparams)
        # The base class has set these to the command line's env_kwargs, without those of the yaml file.
        if self._eval_env_kwargs_args is None:
            self.eval_env_kwargs = self.env_kwargs
        if self._stopped_run:  # append to the monitor files of the run
            self.monitor_kwargs = {**self.monitor_kwargs, "override_existing": False}
        given = {kind: getattr(self.args, f"log_keys_{kind}", None) for kind in ("sum", "mean", "max", "video")}
        patterns = {kind: pattern for kind, pattern in given.items() if pattern is not None}
        log_keys = LogPatterns(**patterns, zeros=getattr(self.args, "log_zeros", False))
        if self._is_ours:
            if log_keys != LogPatterns():
                raise Refusal(
                    "games of this package have no observations named log_...: leave out --log-keys-... and -zeros"
                )
            return processed
        hyperparams, env_wrapper, *others = processed
        return hyperparams, LogKeysWrapper(log_keys, env_wrapper), *others

    def setup_experiment(self) -> Any:
        """Creates the model and everything it needs for training; if that fails, it leaves no folder behind."""
        if self.optimize_hyperparameters and self._is_maskable:
            return None  # each trial creates its own
        try:
            with self._refusals():
                return super().setup_experiment()
        except BaseException as error:
            if self._track:
                finish_tracking(exit_code=1)
            if self._new_folder:
                shutil.rmtree(self._new_folder, ignore_errors=True)
                with suppress(OSError):
                    os.removedirs(self.log_path)  # the log folder too, if it is empty
            # What a wrapper or a policy raises for arguments that it does not have, or of the wrong type.
            of_settings = ImportError, AttributeError, AssertionError, TypeError
            is_unknown = isinstance(error, TypeError) and "unexpected keyword argument" in str(error)
            if is_unknown or (self._is_ours and isinstance(error, of_settings)):
                raise Refusal(f"impossible hyperparameters: {error}") from error
            raise

    def hyperparameters_optimization(self) -> None:
        """Runs a `Sweep`; for algorithms without action masks, that of rl-zoo3."""
        if self._is_maskable:
            Sweep(self, self._vec_env_type).run()
            return
        check_existing(self.storage or "", self.study_name)
        self.n_jobs = self.n_jobs or 1
        super().hyperparameters_optimization()

    def create_log_folder(self) -> None:
        """Creates the run folder, with the next number if another process has just taken this one."""
        folder = Path(self.save_path)
        next_one = count(get_latest_run_id(self.log_path, self.env_name) + 1)
        while not self._stopped_run and not self._new_folder:
            try:
                folder.mkdir(parents=True)
                self._new_folder = folder
            except FileExistsError:
                if folder == self._logdir:
                    break  # it was empty, or its run was killed; what is there stays if this one cannot be set up
                folder = folder.with_name(f"{self.env_name}_{next(next_one)}")
        self.save_path, self.params_path = str(folder), str(folder / self.env_name)
        if self._logdir:
            (folder / LOCK).touch()  # a kill before there are settings leaves a folder that is known again
        if self._track:
            self.tensorboard_log = self.tensorboard_log or str(folder / EVENTS)
        super().create_log_folder()  # type: ignore[no-untyped-call]

    def create_callbacks(self) -> None:
        """Creates the callbacks: masked evaluation, our progress bar, lines of JSON, checkpoints for ``--resume``."""
        if (self._resume or self._logdir) and not any(
            isinstance(each, MaskableCheckpointCallback) for each in self.callbacks
        ):
            self.callbacks.insert(0, MaskableCheckpointCallback(keep=2, max_share=0.05))
        if not any(isinstance(each, MetricLinesCallback) for each in self.callbacks):
            self.callbacks.insert(0, MetricLinesCallback())
        # The base class looks up the classes that it makes in its module.
        evaluation = MaskableEvalCallback if self._is_maskable else EvalCallback
        progress = ProgressCallback if self._is_ours else ProgressBarCallback
        with replaced(exp_manager, EvalCallback=evaluation, ProgressBarCallback=progress):
            super().create_callbacks()  # type: ignore[no-untyped-call]
        # SB3 compares the classes of environments: with actors, those of training and evaluation differ.
        warnings.filterwarnings("ignore", "Training and eval env are not of the same type")
        if self._track and not any(isinstance(each, WandbArtifactsCallback) for each in self.callbacks):
            self.callbacks.append(WandbArtifactsCallback())
        if self._stopped_run:
            continue_counting(self.callbacks, self._stopped_run, self.n_envs)

    def create_envs(self, n_envs: int, eval_env: bool = False, no_log: bool = False) -> VecEnv:
        """Creates environments as the base class does; rows of one `PvpVecEnv` share a single environment."""
        spec = gymnasium.spec(self.env_name.gym_id)
        wrapped = self.env_wrapper or spec.max_episode_steps or spec.additional_wrappers or "game" not in spec.kwargs
        is_one_world = self._is_ours and self._vec_env_type == "dummy" and not wrapped
        if self._is_ours and self.vec_env_class is WorkerVecEnv:
            self._try(self.eval_env_kwargs if eval_env else self.env_kwargs)
        if not is_one_world:
            return super().create_envs(n_envs, eval_env, no_log)
        with replaced(exp_manager, make_vec_env=self._make_vec_env):
            return super().create_envs(n_envs, eval_env, no_log)

    def _maybe_normalize(self, env: VecEnv, eval_env: bool) -> VecEnv:
        if resumes_exactly(ALGOS[self.algo]):  # its file has them
            return super()._maybe_normalize(env, eval_env)
        if (normalized := load_statistics(self.trained_agent, env, eval_env)) is not None:
            return normalized
        if self.normalize and self._stopped_run and not eval_env:
            lacking = f"the statistics of VecNormalize begin anew: there are none beside {self.trained_agent}"
            warnings.warn(lacking, RuntimeWarning, stacklevel=2)
        return super()._maybe_normalize(env, eval_env)

    def _complete(self, env_kwargs: dict[str, Any] | None) -> dict[str, Any]:
        return complete_env_kwargs(self.env_name.gym_id, env_kwargs)

    def _try(self, env_kwargs: dict[str, Any] | None) -> None:
        """Makes an environment in this process, before others do, whose errors would be tracebacks."""
        arguments = self._complete(env_kwargs)
        if arguments.get("world", "sim") == "sim":
            env = gymnasium.make(self.env_name.gym_id, **arguments)
            (self.env_wrapper(env) if self.env_wrapper else env).close()
        else:  # without another connection to the server
            FightSettings(**{name: value for name, value in arguments.items() if name != "render_mode"})

    def _make_vec_env(
        self, make_env: object, n_envs: int, seed: int, env_kwargs: Any, monitor_dir: str | None, **others: Any
    ) -> VecEnv:
        """Replaces SB3's ``make_vec_env``, which makes an environment for each row: here all rows share a world."""
        unused: Env[Any, Any] = Env()  # whose name the monitor writes into the one file of all rows
        unused.spec = gymnasium.spec(self.env_name.gym_id)
        monitor = Monitor(unused, monitor_dir and str(Path(monitor_dir, "0")), **others["monitor_kwargs"])
        return PvpVecEnv(n_envs, seed=seed, monitor=monitor, **self._complete(env_kwargs))

    def _load_pretrained_agent(self, hyperparams: dict[str, Any], env: VecEnv) -> BaseAlgorithm:
        if self._stopped_run is None:
            given = {**hyperparams}  # without which the base class leaves them
            model = super()._load_pretrained_agent(hyperparams, env)
            check_networks(model, given)
            vars(model).pop("training_state", None)  # a new run starts new episodes
            if self._starts_over:
                start_over(model)
            return model
        # Without new hyperparameters, which `choose_run` has compared: those in the file hold the state of schedules.
        settings = {"tensorboard_log": self.tensorboard_log, "verbose": self.verbose, **self._actors}
        model = ALGOS[self.algo].load(self.trained_agent, env, self.device, **settings)
        if not resumes_exactly(model):
            load_replay(model, self._stopped_run.checkpoint)
        if self._stopped_run.changes:
            apply_changes(model, hyperparams, self._stopped_run.changes)
        return model

    def _save_config(self, saved_hyperparams: dict[str, Any]) -> None:
        pprint({**saved_hyperparams, **self._actors})
        # A password belongs into no file, and to no service: both take the command line from here.
        shown = argparse.Namespace(**{**vars(self.args), "storage": without_password(self.storage or "") or None})
        words = {name: without_passwords(getattr(sys, name)) for name in ("argv", "orig_argv")}
        with replaced(self, args=shown), replaced(sys, **words):
            # Not before all has been made: what is impossible must not open a run of W&B.
            if self._track:
                start_tracking(self.args, saved_hyperparams, Path(self.save_path))
            if self._stopped_run is None or self._stopped_run.changes:  # a resumed run keeps its files
                super()._save_config(saved_hyperparams)

    def learn(self, model: BaseAlgorithm) -> None:
        """Trains the model, after saving it as ``initial_model.zip`` for comparisons.

        Ctrl-C, SIGTERM and SIGHUP save a checkpoint; an error saves the model as ``interrupted_model.zip``. Raises
        `TrainingInterrupted` if a server or the process of an environment is gone, and `Refusal` for settings, such as
        those of callbacks, that turn out to be invalid before the first step.
        """
        vars(model)["run_folder"] = self.save_path  # where callbacks put their files, see `path_in_run`
        run, stopped = Path(self.save_path), self._stopped_run
        if self._num_actors and isinstance(model, PvpPPO):
            use_ray(model, self._num_actors, self.args.num_cpus_per_actor)
        n_timesteps = self.n_timesteps
        if stopped:  # learn() takes the number of additional steps
            n_timesteps = max(n_timesteps - (model.num_timesteps - stopped.initial_steps), 0)
        keywords: dict[str, Any] = {}
        if self.log_interval != -1:  # as in the base class; -2 disables logging
            keywords["log_interval"] = self.log_interval if self.log_interval > -1 else None
        if self.algo == "ars" and self.n_envs > 1:  # which plays in processes of its own, as in the base class
            envs = [lambda: self.create_envs(1, no_log=True)] * self.n_envs
            keywords["async_eval"] = AsyncEval(envs, model.policy)

        def save() -> None:
            (run / UNFINISHED).touch()
            model.save(f"{self.save_path}/{self.env_name}")

        callbacks = RunCallbacks(self.callbacks, save)
        with callbacks.deferring():  # also until the checkpoint is saved: there may be a second signal
            try:
                with running(run):  # before anything is written that another process may need
                    if not stopped:
                        self._save_beginning(model, run)
                    model.learn(
                        n_timesteps,
                        callbacks,
                        tb_log_name=run.name,
                        reset_num_timesteps=not stopped
                        and (self._starts_over or not (self.continue_training and self._is_ours)),
                        **keywords,
                    )
                    (run / UNFINISHED).unlink(missing_ok=True)
            except (KeyboardInterrupt, Exception) as error:
                # A signal may reach other processes as well, whose end then raises another error here.
                if isinstance(error, Exception) and not callbacks.interrupted:
                    shown = save_after_error(model, run, error, callbacks.has_begun)
                    if self._track:
                        finish_tracking(exit_code=1)
                    # Before the first rollout the settings are wrong, which is one line; later a traceback is needed.
                    with nullcontext() if callbacks.has_begun else self._refusals():
                        raise shown from shown.__cause__
                self._was_stopped, self._stops_at_once = True, callbacks.at_once
                if callbacks.resumes_at is not None and resumes_exactly(model):
                    if isinstance(model, PvpPPO):  # the rollout in progress is discarded: it will resume at its start
                        model.num_timesteps, model.trained_rollouts = callbacks.resumes_at
                    with uninterrupted():
                        model.save(run / CHECKPOINTS / file_name(learner(model)))
                drop_lost_outputs()
            finally:
                # What these raise must not hide the error that ended the training, nor keep the model from being saved.
                ended = (ProgressBarCallback, MetricLinesCallback, MaskableCheckpointCallback)  # others may wait
                for callback in self.callbacks[: len(ended)]:
                    with suppress(Exception, *([KeyboardInterrupt] if self._was_stopped else [])):
                        if isinstance(callback, ended):
                            callback.on_training_end()
                with suppress(EOFError, ConnectionError, *([KeyboardInterrupt] if self._was_stopped else [])):
                    model.env.close()  # type: ignore[union-attr]

    def _save_beginning(self, model: BaseAlgorithm, run: Path) -> None:
        """Saves the model with which a run begins, and the league that comes with it."""
        model.save(run / INITIAL_MODEL)
        league = league_of(Path(self.trained_agent)) if self.continue_training and not self._starts_over else None
        if league is not None:
            copy_league(league, run / LEAGUE, model)

    def save_trained_model(self, model: BaseAlgorithm) -> None:
        """Saves the model as the base class does, and logs it to W&B if the run is tracked.

        Raises ``KeyboardInterrupt`` if that ended the training; its arguments are a message and the command-line
        options to continue.
        """
        with uninterrupted():
            super().save_trained_model(model)
        if not self._stops_at_once:
            finish_checkpoints(self.callbacks, model, Path(self.save_path, self.env_name))
        if self._track:
            for callback in self.callbacks:
                if isinstance(callback, WandbArtifactsCallback):
                    callback.publish(model)  # has been done already, unless training was interrupted
            finish_tracking()
        if self._was_stopped and hasattr(self.args, "resume"):  # rl-zoo3's own command would show a traceback
            if self._logdir:
                raise KeyboardInterrupt("stopped; the same command goes on")
            if run := stopped_run(Path(self.save_path)):
                raise KeyboardInterrupt(f"stopped; resume after {run.steps} steps with", "--resume", self.save_path)
            model_file = f"{self.save_path}/{self.env_name}.zip"
            raise KeyboardInterrupt("stopped; start a new run from its model with", "-i", model_file)
