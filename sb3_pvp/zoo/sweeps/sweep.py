"""Sweeps of ``train -optimize``: trials of one study, each of which is an ordinary training run."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import tempfile
import traceback
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import gymnasium
import optuna
import torch
import yaml
from gymnasium.envs.registration import EnvSpec
from optuna.pruners import HyperbandPruner
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import TrialState
from rl_zoo3 import ALGOS, exp_manager
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.algorithms.hyperparameters import policy_kwargs_in
from sb3_pvp.algorithms.presets import is_ours
from sb3_pvp.common.arguments import as_written
from sb3_pvp.common.atomic_files import temporary_folder, write_atomically
from sb3_pvp.common.cores import num_cores
from sb3_pvp.common.errors import Refusal, TrainingInterrupted, command_line, refusals
from sb3_pvp.common.stop_signals import uninterrupted
from sb3_pvp.common.worker_pool import WorkerDied, WorkerPool
from sb3_pvp.game import WorldError, contract_of, game_and_contract
from sb3_pvp.matches.evaluation import EvaluationFights
from sb3_pvp.players.opponents import is_path, make_opponent, opponent_name
from sb3_pvp.policies.files.model_files import find_file
from sb3_pvp.zoo.sweeps.objectives import Measure, SweepEvalCallback, mean_reward, win_rates
from sb3_pvp.zoo.sweeps.space import Block, chosen_space, hyperparameters
from sb3_pvp.zoo.sweeps.study import (
    ATTEMPTS,
    SEED,
    STEPS,
    StudySettings,
    TrialQueue,
    best_configuration,
    find_study,
    find_trial,
)

#: Default values of our options, also for rl-zoo3's own command, which does not have them.
_DEFAULTS = {
    "reference_pool": ["baseline", "scripted"],
    "reference_fights": 100,
    "search_space": None,
    "trial_cpu_seconds": None,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds our options to rl-zoo3's parser of ``train``, and Hyperband to its ``--pruner``."""
    add = parser.add_argument_group("sweeps").add_argument
    pool = "Opponents to evaluate trials against: bots, scripts and paths of models (default: baseline scripted)."
    add("--reference-pool", nargs="+", metavar="OPPONENT", help=pool)
    add("--reference-fights", type=int, metavar="N", help="Fights against each opponent of the pool (100).")
    add("--search-space", metavar="FILE", help="Search space in a yaml file, see sb3-pvp sweep space.")
    limit = "A trial also ends after this much CPU time of training; evaluations are spread over it."
    add("--trial-cpu-seconds", type=float, metavar="S", help=limit)
    parser.set_defaults(**_DEFAULTS)
    parser.set_defaults(n_jobs=None)
    for action in parser._actions:
        if action.dest == "pruner":
            action.choices = ("halving", "median", "hyperband", "none")


class Sweep:
    """The sweep that the options of an experiment manager describe; the manager trains one run for each trial.

    Args:
        manager: of the command. It is pickled for worker processes, and a new one of its class is made for each trial.
        vec_env_type: ``"dummy"`` or ``"subproc"``, which rl-zoo3's managers do not keep.
    """

    def __init__(self, manager: exp_manager.ExperimentManager, vec_env_type: str) -> None:
        self.manager, self._vec_env_type, self._env_id = manager, vec_env_type, str(manager.env_name.gym_id)
        self._options = argparse.Namespace(**{**_DEFAULTS, **vars(manager.args)})
        self._is_ours = is_ours(self._env_id)
        self._settings: StudySettings

    def run(self) -> None:
        """Runs trials until all processes of the study together have completed ``n_trials``, then writes a report."""
        manager = self.manager
        self._settings = self._make_settings()
        if manager.continue_training:
            raise Refusal("a sweep cannot be combined with -i or --resume: it is resumed by its --storage")
        if getattr(manager.args, "distribute", None) is not None:
            raise Refusal("a sweep on several machines is this command on each of them, without --distribute")
        with temporary_folder() as folder:
            queue = self._queue(folder)
            stopped = self._run_processes(queue, folder)
            if stopped and manager.storage:
                raise KeyboardInterrupt("stopped; the same command resumes the study in its --storage")
            report = Path(manager.log_folder) / manager.algo / f"sweep_{queue.study.study_name}"
            with uninterrupted():
                write_atomically(report / "trials.csv", queue.study.trials_dataframe().to_csv(index=False))
                with contextlib.suppress(Refusal):  # no trial was completed
                    write_atomically(report / "best.yml", best_configuration(queue.study)[1])
            states = Counter(trial.state.name.lower() for trial in queue.study.trials)
            print(f"Trials: {', '.join(f'{count} {state}' for state, count in states.items())}; report in {report}")
        if stopped:
            raise KeyboardInterrupt("stopped; only a study in a --storage can be resumed")

    def _run_processes(self, queue: TrialQueue, folder: str) -> bool:
        """Runs trials, in this process or several, and prints their results; returns whether Ctrl-C stopped them."""
        with contextlib.ExitStack() as stack:
            # Last of all, when the locks of this process and its workers are free: what was interrupted is tried again.
            stack.callback(queue.retry_abandoned)
            results: Iterator[str] = stack.enter_context(contextlib.closing(self._run_trials(queue)))
            if (n_jobs := self._num_jobs()) > 1:
                print(f"Trials in {n_jobs} processes, see --n-jobs", flush=True)
                pool = WorkerPool(n_jobs, "commands", max_silence=None)
                stack.callback(pool.close)
                given = self, ALGOS[self.manager.algo], gymnasium.spec(self._env_id), folder
                results = pool.stream(run_trials, [given] * n_jobs)
            try:
                for done, text in enumerate(results, queue.num_completed() + 1):
                    if self.manager.verbose:
                        print(f"[{done} of {queue.n_trials}] {text}", flush=True)
            except KeyboardInterrupt:
                return hasattr(self.manager.args, "resume")  # rl-zoo3's own command would show a traceback
            except WorkerDied as error:
                resume = "; the same command resumes the study" if self.manager.storage else ""
                raise TrainingInterrupted(f"{error}{resume}") from error
        return False

    def _num_jobs(self) -> int:
        """Returns in how many processes to run trials: by default one per core, unless a trial needs more than that."""
        kwargs = complete_env_kwargs(self._env_id, self._settings.block.get("env_kwargs"))
        # A server or processes for each environment already use several cores.
        is_costly = self._vec_env_type != "dummy" or kwargs.get("world", "sim") != "sim"
        return self.manager.n_jobs or (1 if is_costly else min(num_cores(), self.manager.n_trials))

    def _queue(self, folder: str) -> TrialQueue:
        """Returns the trials of the study, by default one in the temporary folder."""
        manager = self.manager
        name, storage = manager.study_name or f"{manager.algo}-{self._env_id}", manager.storage or f"{folder}/sweep.log"
        n_trials = manager.n_trials if manager.max_total_trials is None else manager.max_total_trials
        queue = TrialQueue(name, storage, self._settings, n_trials, self._make_sampler)
        manager.n_evaluations = evaluations = self._settings.measure["n_evaluations"]
        if manager.pruner == "hyperband":
            # Evaluations are what it counts as resource; by default it would learn their number from the first trials.
            queue.study.pruner = HyperbandPruner(min_resource=1, max_resource=evaluations, reduction_factor=3)
        else:
            queue.study.pruner = manager._create_pruner(manager.pruner)
        return queue

    def _run_trials(self, queue: TrialQueue) -> Generator[str]:
        """Runs trials, each of which is an ordinary training run, until there are none left; yields their results.

        An error in a trial is printed. It is raised if more trials failed in this process than were completed, since
        the cause is then probably not the sampled parameters. A model that diverges counts as a pruned trial.
        """
        failed = finished = 0
        with queue.process_lock():
            while (trial := queue.next_trial()) is not None:
                try:
                    value, result = self._train(trial)
                    queue.study.tell(trial, value, TrialState.PRUNED if value is None else TrialState.COMPLETE)
                    finished += 1
                    again = " (again)" if ATTEMPTS in trial.user_attrs else ""
                    params = ", ".join(f"{name} {value}" for name, value in as_written(trial.params, 4).items())
                    yield f"Trial {trial.number}{again}: {result}, {params}"
                except (TrainingInterrupted, WorldError):  # not caused by the parameters, which are tried again
                    raise
                except Exception:
                    # study.tell raises as well if another process has failed this trial in the meantime.
                    if queue.was_abandoned(trial):
                        print(f"Trial {trial.number} was considered abandoned, and is repeated by another process")
                        continue
                    queue.study.tell(trial, state=TrialState.FAIL)
                    failed += 1
                    if failed > finished:
                        raise
                    traceback.print_exc()
                gc.collect()  # callbacks and models are reference cycles, which hold much memory

    def _train(self, trial: optuna.Trial) -> tuple[float | None, str]:
        """Trains with a trial's parameters; returns the objective (``None``: pruned or diverged) and a description."""
        manager, settings = self.manager, self._settings
        model, n_evaluations = None, settings.measure["n_evaluations"]

        def report(value: float, number: int) -> bool:
            trial.report(value, number)
            return number < n_evaluations and trial.should_prune()

        with contextlib.ExitStack() as stack:
            temporary = stack.enter_context(temporary_folder())
            config = Path(manager.optimization_log_path or temporary, f"trial_{trial.number}", "hyperparameters.yml")
            block = hyperparameters(trial.params, settings.space, settings.block, settings.n_timesteps)
            write_atomically(config, yaml.safe_dump({settings.env_id: block}))
            experiment = self._experiment(config, trial.user_attrs[SEED])
            length = n_evaluations, settings.n_timesteps
            measure = partial(self._measure, experiment)
            evaluation = SweepEvalCallback(measure, *length, report, settings.measure["cpu_seconds"])
            if manager.verbose < 2:
                stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            try:
                model, _ = experiment.setup_experiment()
                experiment.callbacks.append(evaluation)
                experiment.learn(model)
                trial.set_user_attr(STEPS, model.num_timesteps)
                if manager.optimization_log_path and evaluation.is_over:
                    experiment.save_trained_model(model)
            except (ValueError, AssertionError, RuntimeError) as error:
                # Errors after the weights have become NaN or infinite are consequences of a divergence.
                weights = () if model is None or isinstance(error, TrainingInterrupted) else model.policy.parameters()
                if all(bool(torch.isfinite(each).all()) for each in weights):
                    raise
                return None, f"diverged ({error})"
            finally:
                # Callbacks may have processes to end; after an interruption rl-zoo3 calls this only for the first one.
                for callback in () if evaluation.is_over else experiment.callbacks:
                    with contextlib.suppress(Exception):
                        callback.on_training_end()
        if not evaluation.is_over:
            raise KeyboardInterrupt  # caught by learn(), as in rl-zoo3; a sweep has to stop as well
        what = "win rate" if self._is_ours else "mean reward"
        text = "stopped early" if evaluation.result is None else f"{what} {evaluation.result:.4g}"
        return evaluation.result, f"{text} after {model.num_timesteps:,} steps"

    def _make_settings(self) -> StudySettings:
        """Returns the settings for a new study; raises `Refusal` if they are invalid."""
        manager, cpu_seconds = self.manager, self._options.trial_cpu_seconds
        block = plain_block(manager.read_hyperparameters()[1], manager.env_kwargs)
        n_timesteps = manager.n_timesteps if manager.n_timesteps > 0 else int(block["n_timesteps"])
        if cpu_seconds is not None and cpu_seconds <= 0:
            raise Refusal(f"--trial-cpu-seconds must be positive, got {cpu_seconds}")
        n_evaluations = int(manager.n_evaluations or max(n_timesteps // 100_000, 1))  # as in rl-zoo3
        measure = {"n_evaluations": n_evaluations, "env_kwargs": manager._eval_env_kwargs_args}
        measure["cpu_seconds"] = cpu_seconds
        with refusals():
            env_kwargs = complete_env_kwargs(self._env_id, block.get("env_kwargs"))  # including the game
            space = chosen_space(self._options.search_space, {**block, "env_kwargs": env_kwargs}, self._is_ours)
            first = {name: each.choices[0] if each.choices else each.low for name, each in space.items()}
            hyperparameters(first, space, block, n_timesteps)  # raises if a parameter has no place in the block
            if self._is_ours:
                _, contract = game_and_contract(env_kwargs.get("game"), env_kwargs.get("contract"))
                contract = contract_of(env_kwargs.get("world", "sim"), contract)
                pool: dict[str, str] = {}
                for opponent in self._options.reference_pool:
                    make_opponent(opponent, contract)  # raises if the opponent does not fit the environment
                    if (name := opponent_name(opponent)) in pool:
                        raise ValueError(f"the opponents of the reference pool need different names, got {name} twice")
                    # Processes of a study must not evaluate against different models of the same name.
                    pool[name] = sha256(find_file(opponent).read_bytes()).hexdigest() if is_path(opponent) else ""
                measure |= {"fights": self._options.reference_fights, "reference_pool": pool}
            else:
                measure |= {"episodes": manager.n_eval_episodes, "deterministic": manager.deterministic_eval}
        return StudySettings(
            algo=manager.algo,
            env_id=self._env_id,
            n_timesteps=n_timesteps,
            block=block,
            space=space,
            measure=measure,
            seed=manager.seed,
        )

    def _experiment(self, config: Path, seed: int) -> Any:
        """Returns a manager for a single training run with the configuration in a file."""
        manager, settings = self.manager, self._settings
        # A trial is a run of its own: it is neither a sweep, nor resumed, nor one of the command's own W&B run.
        reset = dict.fromkeys(("optimize_hyperparameters", "track", "tracked", "resume"))
        args = argparse.Namespace(**{**vars(manager.args), **reset})
        given: dict[str, Any] = {"config": str(config), "n_timesteps": settings.n_timesteps, "seed": seed}
        given |= {"vec_env_type": self._vec_env_type, "device": manager.device, "eval_freq": -1}
        given |= {"n_eval_episodes": manager.n_eval_episodes, "n_eval_envs": manager.n_eval_envs}
        given |= (
            {"verbose": manager.verbose, "log_interval": -1}
            if manager.verbose >= 2
            else {"verbose": 0, "log_interval": -2}
        )
        kwargs = manager._eval_env_kwargs_args
        return type(manager)(args, manager.algo, settings.env_id, str(config.parent), eval_env_kwargs=kwargs, **given)

    def _measure(self, experiment: exp_manager.ExperimentManager) -> Measure:
        """Returns the function that evaluates a model, and one that cleans up."""
        if self._is_ours:
            fights = EvaluationFights(self.manager._eval_env_kwargs_args or {}, num_envs=64)
            return partial(
                win_rates, fights, self._options.reference_pool, self._options.reference_fights
            ), fights.close
        env = experiment.create_envs(experiment.n_eval_envs, eval_env=True)
        return partial(mean_reward, env, experiment.n_eval_episodes, experiment.deterministic_eval), env.close

    def _make_sampler(self, seed: int) -> BaseSampler:
        if self.manager.sampler == "tpe":
            # constant_liar keeps parallel processes from all trying the currently best region.
            return TPESampler(
                n_startup_trials=self.manager.n_startup_trials, seed=seed, multivariate=True, constant_liar=True
            )
        self.manager.seed = seed  # which it passes to the sampler; settings already have the study's seed
        return self.manager._create_sampler(self.manager.sampler)


def plain_block(hyperparams: Mapping[str, Any], env_kwargs: Mapping[str, Any] | None) -> Block:
    """Returns hyperparameters as plain JSON values, as studies store them, with the command line's ``env_kwargs``.

    Raises `Refusal` for other values.
    """
    block = {**hyperparams, **({"env_kwargs": env_kwargs} if env_kwargs else {})}
    with refusals():
        block |= {"policy_kwargs": policy_kwargs_in(block)} if "policy_kwargs" in block else {}
    with refusals(TypeError, about="a study stores plain values only (such as activation: tanh, not a class)"):
        return cast("Block", json.loads(json.dumps(block)))


def run_trials(sweep: Sweep, algorithm: type[BaseAlgorithm], spec: EnvSpec, folder: str) -> Iterator[str]:
    """Runs trials of a sweep in a worker process until none are left.

    The algorithm and the environment may be known to the parent only; ``folder`` is for its temporary files.
    """
    ALGOS[sweep.manager.algo] = algorithm  # the user's script may have registered it
    gymnasium.registry.setdefault(spec.id, spec)
    tempfile.tempdir = folder  # what a killed process leaves is removed with it
    yield from sweep._run_trials(sweep._queue(folder))


def check_storage(storage: str | None, trial_id: int | None, is_sweep: bool) -> None:
    """Raises `Refusal` if ``--storage`` or ``--trial-id`` would have no effect."""
    if trial_id is not None and not storage:
        raise Refusal("--trial-id is a trial of a study: give its --storage")
    if storage and trial_id is None and not is_sweep:
        raise Refusal("--storage is where -optimize keeps a study: add -optimize, or --trial-id for one of its trials")


def parameters_of_trial(manager: exp_manager.ExperimentManager) -> dict[str, Any]:
    """Returns the hyperparameters of ``--trial-id`` in a sweep of rl-zoo3; raises `Refusal` if there is none."""
    algo, number = manager.algo, manager.trial_id
    if issubclass(ALGOS[algo], MaskablePPO):
        export = command_line("sweep", "best", "STORAGE", "--trial-id", number, "-o", "trial.yml")
        raise Refusal(f"--trial-id is not for --algo {algo}: write the trial to a file for -conf with {export}")
    study, _ = find_study(str(manager.storage), manager.study_name)
    with refusals(Exception, about=f"trial {number} of study {study.study_name!r} is not of rl-zoo3's --algo {algo}"):
        parameters: dict[str, Any] = HYPERPARAMS_CONVERTER[algo](find_trial(study, number).params)
    return parameters


def complete_env_kwargs(env_id: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the arguments of an environment, including those with which it is registered."""
    return {**gymnasium.spec(env_id).kwargs, **(given or {})}
