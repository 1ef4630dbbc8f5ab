"""The part of the experiment manager that runs sweeps, and trains with the hyperparameters of trials."""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import io
import json
import tempfile
import traceback
from collections import Counter, OrderedDict
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
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_pvp.algorithms.hyperparameters import policy_kwargs_in
from sb3_pvp.algorithms.presets import hyperparams_in, is_ours, with_current_names, with_nested
from sb3_pvp.common.atomic_files import temporary_folder, write_atomically
from sb3_pvp.common.cores import num_cores
from sb3_pvp.common.errors import Refusal, TrainingInterrupted, refusals
from sb3_pvp.common.stop_signals import uninterrupted
from sb3_pvp.common.worker_pool import WorkerDied, WorkerPool
from sb3_pvp.game import contract_of, game_and_contract
from sb3_pvp.matches.evaluation import EvaluationFights
from sb3_pvp.players.opponents import is_path, make_opponent, opponent_name
from sb3_pvp.policies.files.model_files import find_file
from sb3_pvp.zoo.sweeps.objectives import Measure, SweepEvalCallback, mean_reward, win_rates
from sb3_pvp.zoo.sweeps.space import Block, Space, chosen_space, hyperparameters
from sb3_pvp.zoo.sweeps.study import (
    ATTEMPTS,
    SEED,
    STEPS,
    StudySettings,
    TrialQueue,
    best_configuration,
    find_study,
    read_settings,
)

#: Default values of our options, also for rl-zoo3's own command, which does not have them.
_DEFAULTS = {
    "reference_pool": ["baseline", "scripted"],
    "reference_fights": 100,
    "search_space": None,
    "sample": None,
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
    add("--sample", metavar="JSON", help="Train with these values of parameters of the search space.")
    parser.set_defaults(**_DEFAULTS)
    parser.set_defaults(n_jobs=None)
    for action in parser._actions:
        if action.dest == "pruner":
            action.choices = ("halving", "median", "hyperband", "none")


class SweepingManager(exp_manager.ExperimentManager):
    """`rl_zoo3.exp_manager.ExperimentManager` whose ``-optimize`` and ``--trial-id`` support ``maskable_ppo``."""

    def __init__(self, args: argparse.Namespace, algo: str, env_id: str, *positional: Any, **keywords: Any) -> None:
        self._sweep = argparse.Namespace(**{**_DEFAULTS, **vars(args)})
        self._arguments = args, algo, env_id, positional, keywords
        self._vec_env_type = keywords.get("vec_env_type", "dummy")
        self._warning = ""  # printed once the hyperparameters are known to be valid
        super().__init__(args, algo, env_id, *positional, **keywords)
        self._is_ours, self._is_maskable = is_ours(env_id), issubclass(ALGOS[algo], MaskablePPO)

    def read_hyperparameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reads the hyperparameters like the base class, but with imported presets and names like ``env_kwargs.world``.

        ``--trial-id`` replaces all hyperparameters of the configuration, ``--sample`` only the sampled ones, also in
        nested values such as ``policy_kwargs``. Those on the command line override both.
        """
        if self._is_atari or (self.trial_id is not None and not self._is_maskable):
            return super().read_hyperparameters()
        given = self.custom_hyperparams or {}
        print(f"Loading hyperparameters from: {self.config}")
        block = with_current_names(with_nested(hyperparams_in(self.config, self.env_name.gym_id) | given))
        if self.env_kwargs and "env_kwargs" in block:
            if dropped := [name for name in block["env_kwargs"] or () if name not in self.env_kwargs]:
                self._warning = (
                    f"warning: --env-kwargs replaces all env_kwargs of the preset, and drops its {', '.join(dropped)}; "
                    'to keep them use -params "env_kwargs.NAME:VALUE"\n'
                )
            block["env_kwargs"] = self.env_kwargs
        if self._is_maskable and (self.trial_id is not None or self._sweep.sample is not None):
            block = plain_block(block, self.env_kwargs)
            block = self._with_sample(block) if self.trial_id is None else self._block_of_trial(self.trial_id)
            block = with_nested(block | given)  # the command line overrides trial and sample
        return block, OrderedDict(sorted(copy.deepcopy(block).items()))

    def create_callbacks(self) -> None:
        """Creates the callbacks; training with ``--sample`` is evaluated like a trial."""
        super().create_callbacks()  # type: ignore[no-untyped-call]
        if self._sweep.sample is not None and self._is_maskable:
            evaluations = self._evaluations(self.n_timesteps), self.n_timesteps
            self.callbacks.append(SweepEvalCallback(self.measure, *evaluations))

    def setup_experiment(self) -> Any:
        """Creates the model, unless hyperparameters are to be optimised: each trial creates its own."""
        return None if self.optimize_hyperparameters and self._is_maskable else super().setup_experiment()

    def hyperparameters_optimization(self) -> None:
        """Runs trials until all processes of the study together have completed ``n_trials``, then writes a report."""
        if not self._is_maskable:
            self.n_jobs = self.n_jobs or 1
            super().hyperparameters_optimization()
            return
        settings = self._settings()
        if self.continue_training:
            raise Refusal("a sweep cannot be combined with -i or --resume: it is resumed by its --storage")
        if getattr(self.args, "distribute", None) is not None:
            raise Refusal("a sweep on several machines is this command on each of them, without --distribute")
        with temporary_folder() as folder:
            queue = self._queue(self.storage or f"{folder}/sweep.log", settings)
            stopped = self._run_processes(queue, settings, folder)
            if stopped and self.storage:
                raise KeyboardInterrupt("stopped; the same command resumes the study in its --storage")
            report = Path(self.log_folder) / self.algo / f"sweep_{queue.study.study_name}"
            with uninterrupted():
                write_atomically(report / "trials.csv", queue.study.trials_dataframe().to_csv(index=False))
                with contextlib.suppress(Refusal):  # no trial was completed
                    write_atomically(report / "best.yml", best_configuration(queue.study)[1])
            states = Counter(trial.state.name.lower() for trial in queue.study.trials)
            print(f"Trials: {', '.join(f'{count} {state}' for state, count in states.items())}; report in {report}")
        if stopped:
            raise KeyboardInterrupt("stopped; only a study in a --storage can be resumed")

    def _run_processes(self, queue: TrialQueue, settings: StudySettings, folder: str) -> bool:
        """Runs trials, in this process or several, and prints their results; returns whether Ctrl-C stopped them."""
        with contextlib.ExitStack() as stack:
            # Last of all, when the locks of this process and its workers are free: what was interrupted is tried again.
            stack.callback(queue.retry_abandoned)
            results: Iterator[str] = stack.enter_context(contextlib.closing(self._run_trials(queue, settings)))
            if (n_jobs := self._num_jobs(settings)) > 1:
                print(f"Trials in {n_jobs} processes, see --n-jobs", flush=True)
                pool = WorkerPool(n_jobs, "commands", max_silence=None)
                stack.callback(pool.close)
                env_id = self.env_name.gym_id
                given = type(self), self._arguments, ALGOS[self.algo], gymnasium.spec(env_id), settings, folder
                results = pool.stream(run_trials, [given] * n_jobs)
            try:
                for text in results:
                    if self.verbose:
                        print(text, flush=True)
            except KeyboardInterrupt:
                return hasattr(self.args, "resume")  # rl-zoo3's own command would show a traceback
            except WorkerDied as error:
                resume = "; the same command resumes the study" if self.storage else ""
                raise TrainingInterrupted(f"{error}{resume}") from error
        return False

    def _num_jobs(self, settings: StudySettings) -> int:
        """Returns in how many processes to run trials: by default one per core, unless a trial needs more than that."""
        # A server or processes for each environment already use several cores.
        is_costly = self._vec_env_type != "dummy" or self._env_kwargs(settings.block).get("world", "sim") != "sim"
        return self.n_jobs or (1 if is_costly else min(num_cores(), self.n_trials))

    def _queue(self, storage: str, settings: StudySettings) -> TrialQueue:
        name = self.study_name or f"{self.algo}-{self.env_name.gym_id}"
        n_trials = self.n_trials if self.max_total_trials is None else self.max_total_trials
        queue = TrialQueue(name, storage, settings, n_trials, self._make_sampler)
        self.n_evaluations = settings.measure["n_evaluations"]
        if self.pruner == "hyperband":
            # Evaluations are what it counts as resource; by default it would learn their number from the first trials.
            queue.study.pruner = HyperbandPruner(min_resource=1, max_resource=self.n_evaluations, reduction_factor=3)
        else:
            queue.study.pruner = self._create_pruner(self.pruner)
        return queue

    def _run_trials(self, queue: TrialQueue, settings: StudySettings) -> Generator[str]:
        """Runs trials, each of which is an ordinary training run, until there are none left; yields their results.

        An error in a trial is printed. It is raised if more trials failed in this process than were completed, since
        the cause is then probably not the sampled parameters. A model that diverges counts as a pruned trial.
        """
        failed = finished = 0
        with queue.process_lock():
            while (trial := queue.next_trial()) is not None:
                try:
                    value, result = self._train(trial, settings)
                    queue.study.tell(trial, value, TrialState.PRUNED if value is None else TrialState.COMPLETE)
                    finished += 1
                    again = " (again)" if ATTEMPTS in trial.user_attrs else ""
                    yield f"Trial {trial.number}{again}: {result}, {trial.params}"
                except TrainingInterrupted:  # not caused by the parameters, which are tried again
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

    def _train(self, trial: optuna.Trial, settings: StudySettings) -> tuple[float | None, str]:
        """Trains with a trial's parameters; returns the objective (``None``: pruned or diverged) and a description."""
        n_evaluations, model = settings.measure["n_evaluations"], None

        def report(value: float, number: int) -> bool:
            trial.report(value, number)
            return number < n_evaluations and trial.should_prune()

        with contextlib.ExitStack() as stack:
            temporary = stack.enter_context(temporary_folder())
            config = Path(self.optimization_log_path or temporary, f"trial_{trial.number}", "hyperparameters.yml")
            block = hyperparameters(trial.params, settings.space, settings.block, settings.n_timesteps)
            write_atomically(config, yaml.safe_dump({settings.env_id: block}))
            experiment = self._experiment(settings, config, trial.user_attrs[SEED])
            length = n_evaluations, settings.n_timesteps
            evaluation = SweepEvalCallback(experiment.measure, *length, report, settings.measure["cpu_seconds"])
            if self.verbose < 2:
                stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            try:
                model, _ = experiment.setup_experiment()
                experiment.callbacks.append(evaluation)
                experiment.learn(model)
                trial.set_user_attr(STEPS, model.num_timesteps)
                if self.optimization_log_path and evaluation.is_over:
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
        return evaluation.result, "stopped early" if evaluation.result is None else f"{evaluation.result:.4f}"

    def _settings(self) -> StudySettings:
        """Returns the settings for a new study; raises `Refusal` if they are invalid."""
        block = plain_block(self.read_hyperparameters()[1], self.env_kwargs)
        n_timesteps, cpu_seconds = self._steps(block), self._sweep.trial_cpu_seconds
        if cpu_seconds is not None and cpu_seconds <= 0:
            raise Refusal(f"--trial-cpu-seconds must be positive, got {cpu_seconds}")
        measure = {"n_evaluations": self._evaluations(n_timesteps), "env_kwargs": self._eval_env_kwargs_args}
        measure["cpu_seconds"] = cpu_seconds
        with refusals():
            space = self._space(block)
            first = {name: each.choices[0] if each.choices else each.low for name, each in space.items()}
            hyperparameters(first, space, block, n_timesteps)  # raises if a parameter has no place in the block
            if self._is_ours:
                env_kwargs = self._env_kwargs(block)
                _, contract = game_and_contract(env_kwargs.get("game"), env_kwargs.get("contract"))
                contract = contract_of(env_kwargs.get("world", "sim"), contract)
                pool: dict[str, str] = {}
                for opponent in self._sweep.reference_pool:
                    make_opponent(opponent, contract)  # raises if the opponent does not fit the environment
                    if (name := opponent_name(opponent)) in pool:
                        raise ValueError(f"the opponents of the reference pool need different names, got {name} twice")
                    # Processes of a study must not evaluate against different models of the same name.
                    pool[name] = sha256(find_file(opponent).read_bytes()).hexdigest() if is_path(opponent) else ""
                measure |= {"fights": self._sweep.reference_fights, "reference_pool": pool}
            else:
                measure |= {"episodes": self.n_eval_episodes, "deterministic": self.deterministic_eval}
        plain = {"algo": self.algo, "env_id": self.env_name.gym_id, "n_timesteps": n_timesteps, "seed": self.seed}
        return StudySettings(block=block, space=space, measure=measure, **plain)

    def _space(self, block: Block) -> Space:
        complete = {**block, "env_kwargs": self._env_kwargs(block)}  # including the game
        return chosen_space(self._sweep.search_space, complete, self._is_ours)

    def _env_kwargs(self, block: Block) -> dict[str, Any]:
        """Returns the arguments of the environment, including those with which it is registered."""
        return {**gymnasium.spec(self.env_name.gym_id).kwargs, **(block.get("env_kwargs") or {})}

    def _experiment(self, settings: StudySettings, config: Path, seed: int) -> SweepingManager:
        """Returns a manager for a single training run with the configuration in a file."""
        # A trial is a run of its own: it is neither a sweep, nor resumed, nor one of the command's own W&B run.
        reset = dict.fromkeys(("optimize_hyperparameters", "track", "tracked", "resume", "search_space", "sample"))
        args = argparse.Namespace(**{**vars(self.args), **reset})
        given: dict[str, Any] = {"config": str(config), "n_timesteps": settings.n_timesteps, "seed": seed}
        given |= {"vec_env_type": self._vec_env_type, "device": self.device, "eval_freq": -1}
        given |= {"n_eval_episodes": self.n_eval_episodes, "n_eval_envs": self.n_eval_envs}
        given |= (
            {"verbose": self.verbose, "log_interval": -1} if self.verbose >= 2 else {"verbose": 0, "log_interval": -2}
        )
        kwargs = self._eval_env_kwargs_args
        return type(self)(args, self.algo, settings.env_id, str(config.parent), eval_env_kwargs=kwargs, **given)

    def measure(self) -> Measure:
        """Returns the function that evaluates a model, and one that cleans up."""
        if self._is_ours:
            fights = EvaluationFights(self._eval_env_kwargs_args or {}, num_envs=64)
            return partial(win_rates, fights, self._sweep.reference_pool, self._sweep.reference_fights), fights.close
        env = self.create_envs(self.n_eval_envs, eval_env=True)
        return partial(mean_reward, env, self.n_eval_episodes, self.deterministic_eval), env.close

    def _with_sample(self, block: Block) -> Block:
        """Returns the block with the values of ``--sample``."""
        with refusals(about="--sample is not valid JSON"):
            sample = json.loads(self._sweep.sample or "")
        with refusals():
            space = self._space(block)
            if not isinstance(sample, dict) or not sample.keys() <= space.keys():
                raise ValueError(f"--sample must be a JSON object with values for some of {', '.join(space)}")
            return hyperparameters(sample, space, block, self._steps(block))

    def _steps(self, block: Block) -> int:
        return self.n_timesteps if self.n_timesteps > 0 else int(block["n_timesteps"])

    def _block_of_trial(self, number: int) -> Block:
        """Returns the complete hyperparameters of a trial in the ``--storage``."""
        if self.storage is None:
            raise Refusal("--trial-id needs the --storage of the study")
        study, _ = find_study(self.storage, self.study_name)
        settings = read_settings(study)
        if (settings.algo, settings.env_id) != (self.algo, str(self.env_name.gym_id)):
            raise Refusal(f"study {study.study_name!r} is for --algo {settings.algo} --env {settings.env_id}")
        trial, text = best_configuration(study, number, self.n_timesteps if self.n_timesteps > 0 else None)
        print(f"Hyperparameters of trial {number} of {study.study_name}, with seed {trial.user_attrs.get(SEED)}")
        block: Block = yaml.safe_load(text)[settings.env_id]
        return {**block, "env_kwargs": self.env_kwargs} if self.env_kwargs else block

    def _evaluations(self, n_timesteps: int) -> int:
        return int(self.n_evaluations or max(n_timesteps // 100_000, 1))  # as in rl-zoo3

    def _make_sampler(self, seed: int) -> BaseSampler:
        if self.sampler == "tpe":
            # constant_liar keeps parallel processes from all trying the currently best region.
            return TPESampler(n_startup_trials=self.n_startup_trials, seed=seed, multivariate=True, constant_liar=True)
        self.seed = seed  # which the base class passes to the sampler; settings already have the study's seed
        return self._create_sampler(self.sampler)


def plain_block(hyperparams: Mapping[str, Any], env_kwargs: Mapping[str, Any] | None) -> Block:
    """Returns hyperparameters as plain JSON values, as studies store them, with the command line's ``env_kwargs``.

    Raises `Refusal` for other values.
    """
    block = {**hyperparams, **({"env_kwargs": env_kwargs} if env_kwargs else {})}
    with refusals():
        block |= {"policy_kwargs": policy_kwargs_in(block)} if "policy_kwargs" in block else {}
    with refusals(TypeError, about="a study stores plain values only (such as activation: tanh, not a class)"):
        return cast("Block", json.loads(json.dumps(block)))


def run_trials(
    manager: type[SweepingManager],
    arguments: tuple[Any, ...],
    algorithm: type[BaseAlgorithm],
    spec: EnvSpec,
    settings: StudySettings,
    folder: str,
) -> Iterator[str]:
    """Runs trials in a worker process until none are left, with a manager of the same arguments as that of its parent.

    The algorithm and the environment may be known to the parent only; ``folder`` is for its temporary files.
    """
    args, algo, env_id, positional, keywords = arguments
    ALGOS[algo] = algorithm  # the user's script may have registered it
    gymnasium.registry.setdefault(spec.id, spec)
    tempfile.tempdir = folder  # what a killed process leaves is removed with it
    own = manager(args, algo, env_id, *positional, **keywords)
    yield from own._run_trials(own._queue(own.storage or f"{folder}/sweep.log", settings), settings)
