"""rl-zoo3's experiment manager, taught about masks, the vectorised environment and the defaults of this package."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from pathlib import Path
from pprint import pprint
from typing import Any

import torch
import yaml
from gymnasium import Env
from rl_zoo3 import ALGOS, exp_manager
from rl_zoo3.utils import get_latest_run_id
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from sb3_pvp.callbacks import MaskableCheckpointCallback, ProgressCallback, WandbArtifactsCallback
from sb3_pvp.callbacks.base import learner
from sb3_pvp.callbacks.checkpoint import CHECKPOINTS
from sb3_pvp.common.errors import Refusal, TrainingInterrupted, refusals
from sb3_pvp.game import WorldError
from sb3_pvp.ppo import PvpPPO
from sb3_pvp.presets.presets import hyperparams_path, is_ours
from sb3_pvp.presets.validation import check_hyperparams
from sb3_pvp.selfplay import file_name
from sb3_pvp.selfplay.league import LEAGUE
from sb3_pvp.zoo.resume import (
    INITIAL_MODEL,
    LastCallback,
    StoppedRun,
    choose_run,
    continue_counting,
    copy_league,
    league_of,
    running,
    steps_of,
    stopped_run,
    warn_of_losses,
)
from sb3_pvp.zoo.sweeps.manager import SweepingManager
from sb3_pvp.zoo.tracking import EVENTS, Tracking
from sb3_pvp.zoo.workers import WorkerVecEnv

#: Fights of an evaluation, and how many at once, if nobody says it: of 64 a win rate is within 12 points (95 %), of
#: rl-zoo3's five within 44; and 64 at once take little longer than those five, one after the other.
_EVALUATION = 64, 64
#: As in rl-zoo3, where every environment has a process or a server's connection of its own.
_COSTLY_EVALUATION = 5, 1


class PvpExperimentManager(SweepingManager):
    """`rl_zoo3.exp_manager.ExperimentManager`, with the same arguments; options of ours are among those of ``args``.

    ``resume`` goes on with a run that was stopped, see `sb3_pvp.zoo.resume.choose_run`, if there is one. A run that is
    ``tracked`` is followed in W&B, and so is one for which rl-zoo3's own command has opened a W&B run.
    """

    def __init__(self, args: argparse.Namespace, algo: str, env_id: str, *positional: Any, **keywords: Any) -> None:
        self._refusals = refusals if is_ours(env_id) else nullcontext
        self._resume = getattr(args, "resume", None)
        track = getattr(args, "track", False) or getattr(args, "tracked", False)
        self._tracking = Tracking() if track else None
        self._stopped_run: StoppedRun | None = None
        self._was_stopped = False
        self._checked_envs: list[tuple[Any, Env[Any, Any] | None]] = []
        args = argparse.Namespace(**{**vars(args), "track": track})
        default = hyperparams_path(algo) if is_ours(env_id) else None
        keywords["config"] = keywords.get("config") or (str(default) if default else None)
        super().__init__(args, algo, env_id, *positional, **keywords)
        if self._tracking and self.optimize_hyperparameters:
            raise Refusal("--track follows one training: for a sweep in W&B see sb3-pvp sweep wandb-config --help")
        if self._is_ours:
            from sb3_pvp.envs import PvpVecEnv

            self.vec_env_class = {"dummy": PvpVecEnv, "subproc": WorkerVecEnv}[self._vec_env_type]
            # More threads only get into each other's way with networks as small as these.
            if getattr(args, "num_threads", -1) < 1:
                torch.set_num_threads(1)

    def read_hyperparameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reads them as `SweepingManager` does, and checks those for environments of this package.

        Raises `Refusal` for what is impossible.
        """
        with self._refusals():
            hyperparams, saved = super().read_hyperparameters()
            is_cheap = False
            if self.continue_training:
                steps_of(Path(self.trained_agent))
            if self._is_ours:
                environments = [hyperparams.get("env_kwargs", self.env_kwargs)]
                environments += [self._eval_env_kwargs_args] if self._eval_env_kwargs_args else []
                one_world = self.vec_env_class is not WorkerVecEnv
                begins_with = self.trained_agent if self.continue_training else ""
                game = (ALGOS[self.algo], self.env_name.gym_id)
                made = check_hyperparams(hyperparams, *game, environments, one_world, begins_with)
                self._checked_envs = list(zip(environments, made, strict=True))
                is_cheap = one_world and self._env_kwargs({"env_kwargs": environments[-1]}).get("world", "sim") == "sim"
        pprint(hyperparams)
        sys.stderr.write(self._warning)
        fights, at_once = _EVALUATION if is_cheap else _COSTLY_EVALUATION
        self.n_eval_episodes = self.n_eval_episodes or fights
        self.n_eval_envs = self.n_eval_envs or min(at_once, self.n_eval_episodes)
        if self._resume:
            self._go_on(self._resume, saved)
        self._saved_hyperparams = saved
        return hyperparams, saved

    def _go_on(self, wanted: str, saved_hyperparams: dict[str, Any]) -> None:
        """Takes the place of the run that was stopped, if there is one."""
        n_timesteps, config = self._steps(saved_hyperparams), yaml.dump(saved_hyperparams)  # as rl-zoo3 writes it down
        run = choose_run(wanted, Path(self.log_path), self.env_name, config, n_timesteps, self.trained_agent)
        if run is None:
            print(f"No run to resume in {self.log_path}: this is a new one")
            return
        print(f"Resuming {run.folder} after {run.steps} steps")
        warn_of_losses(run)
        self._stopped_run = run
        self.save_path, self.params_path = str(run.folder), str(run.folder / self.env_name)
        self.trained_agent, self.continue_training = str(run.checkpoint), True

    @staticmethod
    def _preprocess_schedules(hyperparams: dict[str, Any]) -> dict[str, Any]:
        # The base class knows numbers and "lin_..."; the algorithm itself reads what is a schedule of this package.
        ours = {name: value for name, value in hyperparams.items() if isinstance(value, dict)}
        others = {name: value for name, value in hyperparams.items() if name not in ours}
        return {**super(PvpExperimentManager, PvpExperimentManager)._preprocess_schedules(others), **ours}

    def _preprocess_hyperparams(self, hyperparams: dict[str, Any]) -> Any:
        processed: Any = super()._preprocess_hyperparams(hyperparams)
        # The base class lets only the command line's env_kwargs reach the evaluation environment.
        if self._eval_env_kwargs_args is None:
            self.eval_env_kwargs = self.env_kwargs
        if self._stopped_run:
            self.monitor_kwargs = {**self.monitor_kwargs, "override_existing": False}
        return processed

    def setup_experiment(self) -> Any:
        """Makes the model and all that its training needs."""
        try:
            with self._refusals():
                return super().setup_experiment()
        except BaseException:
            if self._tracking:
                self._tracking.finish(exit_code=1)
            raise

    def create_log_folder(self) -> None:
        """Creates it, with the next number if another process has just taken this one, and announces it to W&B."""
        folder = Path(self.save_path)
        next_one = count(get_latest_run_id(self.log_path, self.env_name) + 1)
        while not self._stopped_run:
            try:
                folder.mkdir(parents=True)
                break
            except FileExistsError:
                folder = folder.with_name(f"{self.env_name}_{next(next_one)}")
        self.save_path, self.params_path = str(folder), str(folder / self.env_name)
        if self._tracking:
            try:
                self._tracking.start(self.args, self._saved_hyperparams, folder)
            except Refusal:
                with suppress(OSError):  # it is empty, unless it is that of a run that goes on
                    os.removedirs(folder)
                raise
            self.tensorboard_log = self.tensorboard_log or str(folder / EVENTS)
        super().create_log_folder()  # type: ignore[no-untyped-call]

    def create_callbacks(self) -> None:
        """Creates the callbacks of the base class; evaluation respects masks, and the progress bar tells more."""
        if self._resume and not any(isinstance(each, MaskableCheckpointCallback) for each in self.callbacks):
            self.callbacks.insert(0, MaskableCheckpointCallback(keep=2))
        ours: dict[str, Any] = {"EvalCallback": MaskableEvalCallback} if self._is_maskable else {}
        ours |= {"ProgressBarCallback": ProgressCallback} if self._is_ours else {}
        with replaced(exp_manager, **ours):  # where the base class looks callbacks up when it makes them
            super().create_callbacks()
        if self._tracking and not any(isinstance(each, WandbArtifactsCallback) for each in self.callbacks):
            self.callbacks.append(WandbArtifactsCallback())
        if self._stopped_run:
            continue_counting(self.callbacks, self._stopped_run, self.n_envs)

    def create_envs(self, n_envs: int, eval_env: bool = False, no_log: bool = False) -> VecEnv:
        """Creates them as the base class does; those that share a world are set up once, and not once for each row."""
        is_one_world = self._is_ours and self._vec_env_type == "dummy" and self.env_wrapper is None
        with replaced(exp_manager, **({"make_vec_env": self._make_vec_env} if is_one_world else {})):
            env: VecEnv = super().create_envs(n_envs, eval_env, no_log)
            return env

    def _make_vec_env(
        self,
        make_env: Callable[..., Env[Any, Any]],
        n_envs: int,
        seed: int,
        env_kwargs: dict[str, Any],
        monitor_dir: str | None,
        monitor_kwargs: dict[str, Any],
        **_: Any,
    ) -> VecEnv:
        """SB3's ``make_vec_env`` for rows with one environment, which `read_hyperparameters` may have made already."""
        known = (env for kwargs, env in self._checked_envs if env is not None and kwargs == env_kwargs)
        env = next(known, None) or make_env(**env_kwargs)
        monitor = Monitor(env, monitor_dir and str(Path(monitor_dir, "0")), **monitor_kwargs)  # one file for all rows
        vec_env: VecEnv = self.vec_env_class([lambda: monitor] * n_envs)
        vec_env.seed(seed)
        return vec_env

    def _load_pretrained_agent(self, hyperparams: dict[str, Any], env: VecEnv) -> BaseAlgorithm:
        if self._stopped_run is None:
            model = super()._load_pretrained_agent(hyperparams, env)
            vars(model).pop("training_state", None)  # this is a new run, with episodes of its own
            return model
        # With the hyperparameters that it was saved with: they are the same, and where schedules stand.
        settings: dict[str, Any] = {"tensorboard_log": self.tensorboard_log, "verbose": self.verbose}
        return ALGOS[self.algo].load(self.trained_agent, env, self.device, **settings)

    def _save_config(self, saved_hyperparams: dict[str, Any]) -> None:
        if self._stopped_run is None:  # else what the run was begun with stays
            super()._save_config(saved_hyperparams)

    def learn(self, model: BaseAlgorithm) -> None:
        """Trains the model; what it was at the beginning is kept as ``initial_model.zip``, to compare with.

        Ctrl-C leaves a checkpoint. If an error ends the training, what was learned so far is kept as
        ``interrupted_model.zip``; it is a `TrainingInterrupted` if a server or the process of an environment is gone.
        Raises `Refusal` for settings that turn out to be impossible before the first step, such as those of callbacks.
        """
        if self.algo == "ars":
            super().learn(model)  # with processes of its own
            return
        vars(model)["run_folder"] = self.save_path  # where callbacks put their files
        run, stopped = Path(self.save_path), self._stopped_run
        if not stopped:
            model.save(run / INITIAL_MODEL)
            league = league_of(Path(self.trained_agent)) if self.continue_training else None
            if league is not None:
                with self._refusals():
                    copy_league(league, run / LEAGUE, model)
        n_timesteps = self.n_timesteps
        if stopped:  # what is left of the steps of the whole run
            n_timesteps = max(n_timesteps - (model.num_timesteps - stopped.begun_at), 0)
        keywords: dict[str, Any] = {}
        if self.log_interval != -1:  # as in the base class, -2: no log of its own
            keywords["log_interval"] = self.log_interval if self.log_interval > -1 else None
        last = LastCallback()
        try:
            with running(run), last.waited_for():
                model.learn(
                    n_timesteps,
                    callback=[*self.callbacks, last],
                    tb_log_name=run.name,
                    reset_num_timesteps=not (self.continue_training and self._is_ours),
                    **keywords,
                )
        except (KeyboardInterrupt, Exception) as error:
            if isinstance(error, Exception) and not last.interrupted:  # Ctrl-C ends worker processes as well
                self._end(model, error, last.was_tried)  # raises it
            self._was_stopped = True
            if last.rollout is not None and isinstance(model, PvpPPO):
                model.num_timesteps = last.rollout  # what is saved now is where it goes on: the start of this rollout
                model.save(run / CHECKPOINTS / file_name(learner(model)))
        finally:
            with suppress(Exception):  # what has ended the training says more
                self.callbacks[0].on_training_end()  # which may be the progress bar
            with suppress(EOFError, ConnectionError):
                model.env.close()  # type: ignore[union-attr]

    def _end(self, model: BaseAlgorithm, error: Exception, has_begun: bool) -> None:
        """Keeps what was learned until this error, and raises what the user is told of it."""
        reason = str(error) if isinstance(error, WorldError) else None
        if isinstance(error, (EOFError, ConnectionError)):  # from the pipes of a SubprocVecEnv
            reason = "the process of an environment has ended (its error, if it had one, stands above)"
        if has_begun or reason is not None:
            model.save(f"{self.save_path}/interrupted_model")
        if self._tracking:
            self._tracking.finish(exit_code=1)
        if reason is not None:
            so_far = f"{self.save_path}/interrupted_model.zip"
            raise TrainingInterrupted(f"{reason}; the model so far is {so_far}") from error
        with nullcontext() if has_begun else self._refusals():
            raise error

    def save_trained_model(self, model: BaseAlgorithm) -> None:
        """Saves it as the base class does, and for W&B if the run is followed there.

        Raises ``KeyboardInterrupt``, with the words and options that say how to go on, if that has ended the training.
        """
        super().save_trained_model(model)
        if self._tracking:
            for callback in self.callbacks:
                if isinstance(callback, WandbArtifactsCallback):
                    callback.publish(model)  # nothing new, unless training was interrupted
            self._tracking.finish()
        if self._was_stopped and hasattr(self.args, "resume"):  # rl-zoo3's own command would show a traceback
            if run := stopped_run(Path(self.save_path)):
                raise KeyboardInterrupt(f"stopped; it goes on after {run.steps} steps with", "--resume", self.save_path)
            model_file = f"{self.save_path}/{self.env_name}.zip"
            raise KeyboardInterrupt("stopped; a new run begins with its model with", "-i", model_file)


@contextmanager
def replaced(owner: Any, **names: Any) -> Iterator[None]:
    """Gives a module other values of these names for a while; some need not be there."""
    before = {name: vars(owner)[name] for name in names if name in vars(owner)}
    try:
        vars(owner).update(names)
        yield
    finally:
        for name in names:
            del vars(owner)[name]
        vars(owner).update(before)
