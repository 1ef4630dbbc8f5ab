"""The part of the experiment manager that sweeps, and trains with what a sweep has found."""

from __future__ import annotations

import argparse
import copy
import json
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import optuna
import yaml
from optuna.pruners import BasePruner, HyperbandPruner
from optuna.samplers import BaseSampler, TPESampler
from rl_zoo3 import ALGOS, exp_manager
from sb3_contrib import MaskablePPO

from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.game import contract_of, game_and_contract
from sb3_pvp.presets.presets import hyperparams_in, is_ours, renamed, with_nested
from sb3_pvp.presets.validation import policy_kwargs_in
from sb3_pvp.zoo.sweeps.conversion import Block, chosen_space, hyperparameters
from sb3_pvp.zoo.sweeps.report import best_configuration, counts, write_report
from sb3_pvp.zoo.sweeps.space import Space, as_dict
from sb3_pvp.zoo.sweeps.storage import find_study, open_storage
from sb3_pvp.zoo.sweeps.study import SEED, Settings, TrialQueue, open_study, read_settings
from sb3_pvp.zoo.sweeps.sweep import MeanReward, Measure, SweepEvalCallback, WinRates, check_pool, work

#: Without ``--n-evaluations``, as in rl-zoo3.
_STEPS_PER_EVALUATION = 100_000
_HYPERBAND = "hyperband"
#: What holds where rl-zoo3's own command was called, which has none of our options.
_DEFAULTS: dict[str, Any] = {
    "reference_pool": ["baseline", "scripted"],
    "reference_fights": 100,
    "search_space": None,
    "sample": None,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds our options to rl-zoo3's parser of ``train``, and Hyperband to its ``--pruner``."""
    add = parser.add_argument_group("sweeps").add_argument
    whom = "Whom trials are measured by: bots, scripts and paths of models (default: baseline scripted)."
    add("--reference-pool", nargs="+", metavar="OPPONENT", help=whom)
    add("--reference-fights", type=int, metavar="N", help="Fights against each (100).")
    add("--search-space", metavar="FILE", help="A yaml file, see sb3-pvp sweep space.")
    add("--sample", metavar="JSON", help="Train with these values of the search space.")
    parser.set_defaults(**_DEFAULTS)
    for action in parser._actions:
        if action.dest == "pruner":
            action.choices = ("halving", "median", _HYPERBAND, "none")


class SweepingManager(exp_manager.ExperimentManager):
    """`rl_zoo3.exp_manager.ExperimentManager` whose ``-optimize`` and ``--trial-id`` know ``maskable_ppo``."""

    def __init__(self, args: argparse.Namespace, algo: str, env_id: str, *positional: Any, **keywords: Any) -> None:
        self._sweep = argparse.Namespace(**{**_DEFAULTS, **vars(args)})
        self._vec_env_type = keywords.get("vec_env_type", "dummy")
        self._warning = ""  # told after errors
        super().__init__(args, algo, env_id, *positional, **keywords)
        self._is_ours, self._is_maskable = is_ours(env_id), issubclass(ALGOS[algo], MaskablePPO)

    def read_hyperparameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reads them in the place of the base class, with imported presets and names like ``env_kwargs.world``.

        ``--trial-id`` and ``--sample`` replace what they say something about: a trial brings all its hyperparameters,
        and those of the command line replace them; a sample is put among those of the configuration. Nested values,
        such as ``policy_kwargs``, keep what was not drawn.
        """
        if self._is_atari or (self.trial_id is not None and not self._is_maskable):
            hyperparams: tuple[dict[str, Any], dict[str, Any]] = super().read_hyperparameters()
            return hyperparams
        given = self.custom_hyperparams or {}
        print(f"Loading hyperparameters from: {self.config}")
        block = renamed(with_nested(hyperparams_in(self.config, self.env_name.gym_id) | given))
        if self.env_kwargs and "env_kwargs" in block:
            if dropped := [name for name in block["env_kwargs"] or () if name not in self.env_kwargs]:
                self._warning = (
                    f"warning: --env-kwargs replaces all env_kwargs of the preset, and drops its {', '.join(dropped)}; "
                    'to add to them: -params "env_kwargs.NAME:VALUE"\n'
                )
            block["env_kwargs"] = self.env_kwargs
        if self._is_maskable and (self.trial_id is not None or self._sweep.sample is not None):
            block = plain_block(block, self.env_kwargs)
            block = self._of_sample(block) if self.trial_id is None else self._of_trial(self.trial_id)
            block = with_nested(block | given)  # what the command line says goes before all else
        return block, OrderedDict(sorted(copy.deepcopy(block).items()))

    def create_callbacks(self) -> None:
        """Creates those of the base class; training with a sample is measured like a trial."""
        super().create_callbacks()  # type: ignore[no-untyped-call]
        if self._sweep.sample is not None and self._is_maskable:
            n_evaluations = self._evaluations(self.n_timesteps)
            self.callbacks.append(SweepEvalCallback(self.measure(), n_evaluations, self.n_timesteps))

    def setup_experiment(self) -> Any:
        """Makes the model, or nothing yet if hyperparameters are to be optimised."""
        return None if self.optimize_hyperparameters and self._is_maskable else super().setup_experiment()

    def hyperparameters_optimization(self) -> None:
        """Does trials until all processes of the study together have done as many as were asked for, then reports.

        Raises `Refusal`, before the first trial, for what cannot be done.
        """
        if not self._is_maskable:
            super().hyperparameters_optimization()
            return
        if self.n_jobs != 1:
            raise Refusal("trials do not run in threads: start this command several times with the same --storage")
        wanted = self._settings()
        if self.continue_training:
            raise Refusal("trials begin with new models, and a sweep goes on with its --storage: no -i, no --resume")
        storage, locks = open_storage(self.storage)
        name = self.study_name or f"{self.algo}-{self.env_name.gym_id}"
        study, settings = open_study(name, storage, locks, wanted)
        study.pruner = self._make_pruner(settings)
        n_trials = self.n_trials if self.max_total_trials is None else self.max_total_trials
        work(TrialQueue(study, settings, locks, n_trials, self._make_sampler), settings, self)
        folder = Path(self.log_folder) / self.algo / f"sweep_{name}"
        missing = write_report(study, folder, with_pictures=not self.no_optim_plots)
        print(f"Trials: {', '.join(f'{count} {state}' for state, count in counts(study, locks).items() if count)}")
        print(f"Report in {folder}", *(f"without {reason}" for reason in missing), sep="\n  ")

    def _settings(self) -> Settings:
        block = plain_block(self.read_hyperparameters()[1], self.env_kwargs)
        n_timesteps = self._steps(block)
        measure = {"n_evaluations": self._evaluations(n_timesteps), "env_kwargs": self._eval_env_kwargs_args}
        with refusals():
            space = self._space(block)
            first = {each.name: each.choices[0] if each.choices else each.low for each in space}
            hyperparameters(first, space, block, n_timesteps)  # is there a place for all of them?
            if self._is_ours:
                env_kwargs = self._env_kwargs(block)
                _, contract = game_and_contract(env_kwargs.get("game"), env_kwargs.get("contract"))
                contract = contract_of(env_kwargs.get("world", "sim"), contract)
                pool = check_pool(self._sweep.reference_pool, contract)
                measure |= {"fights": self._sweep.reference_fights, "reference_pool": pool}
            else:
                measure |= {"episodes": self.n_eval_episodes, "deterministic": self.deterministic_eval}
        return Settings(self.algo, str(self.env_name.gym_id), n_timesteps, block, as_dict(space), measure, self.seed)

    def _space(self, block: Block) -> Space:
        told = {**block, "env_kwargs": self._env_kwargs(block)}  # which game it is
        return chosen_space(self._sweep.search_space, told, self._is_ours)

    def _env_kwargs(self, block: Block) -> dict[str, Any]:
        return {**gymnasium.spec(self.env_name.gym_id).kwargs, **(block.get("env_kwargs") or {})}

    def experiment(self, settings: Settings, config: Path, folder: Path, seed: int) -> SweepingManager:
        """A manager like this one that trains once, with the configuration in a file."""
        unlike = dict.fromkeys(("optimize_hyperparameters", "track", "tracked", "resume", "search_space", "sample"))
        return type(self)(
            argparse.Namespace(**{**vars(self.args), **unlike}),
            self.algo,
            settings.env_id,
            str(folder),
            n_timesteps=settings.n_timesteps,
            eval_freq=-1,
            log_interval=-1 if self.verbose >= 2 else -2,
            n_eval_episodes=self.n_eval_episodes,
            eval_env_kwargs=self._eval_env_kwargs_args,
            seed=seed,
            verbose=self.verbose if self.verbose >= 2 else 0,
            vec_env_type=self._vec_env_type,
            n_eval_envs=self.n_eval_envs,
            device=self.device,
            config=str(config),
        )

    def measure(self) -> Measure:
        """What tells how good a model is."""
        if self._is_ours:
            return WinRates(self._sweep.reference_pool, self._sweep.reference_fights, self._eval_env_kwargs_args)
        env = self.create_envs(self.n_eval_envs, eval_env=True)
        return MeanReward(env, self.n_eval_episodes, self.deterministic_eval)

    def _of_sample(self, block: Block) -> Block:
        with refusals(about="--sample is not valid JSON"):
            sample = json.loads(self._sweep.sample or "")
        with refusals():
            space = self._space(block)
            if not isinstance(sample, dict) or not sample.keys() <= {each.name for each in space}:
                raise ValueError(f"--sample must have values for some of {', '.join(each.name for each in space)}")
            return hyperparameters(sample, space, block, self._steps(block))

    def _steps(self, block: Block) -> int:
        return self.n_timesteps if self.n_timesteps > 0 else int(block["n_timesteps"])

    def _of_trial(self, number: int) -> Block:
        if self.storage is None:
            raise Refusal("--trial-id needs the --storage with the study")
        study = find_study(open_storage(self.storage, must_exist=True)[0], self.study_name)
        settings = read_settings(study)
        if (settings.algo, settings.env_id) != (self.algo, str(self.env_name.gym_id)):
            raise Refusal(f"study {study.study_name!r} is for --algo {settings.algo} --env {settings.env_id}")
        trial, text = best_configuration(study, number, self.n_timesteps if self.n_timesteps > 0 else None)
        print(f"Hyperparameters of trial {number} of {study.study_name}, whose seed was {trial.user_attrs.get(SEED)}")
        block: Block = yaml.safe_load(text)[settings.env_id]
        return {**block, "env_kwargs": self.env_kwargs} if self.env_kwargs else block

    def _evaluations(self, n_timesteps: int) -> int:
        return int(self.n_evaluations or max(n_timesteps // _STEPS_PER_EVALUATION, 1))

    def _make_sampler(self, seed: int) -> BaseSampler:
        if self.sampler == "tpe":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                # Processes must not all try what looks best now.
                return TPESampler(
                    n_startup_trials=self.n_startup_trials, seed=seed, multivariate=True, constant_liar=True
                )
        self.seed = seed  # those of trials follow from that of the study
        return self._create_sampler(self.sampler)

    def _make_pruner(self, settings: Settings) -> BasePruner:
        self.n_evaluations = settings.measure["n_evaluations"]
        if self.pruner == _HYPERBAND:
            return HyperbandPruner(min_resource=1, max_resource=self.n_evaluations, reduction_factor=3)
        return self._create_pruner(self.pruner)


def plain_block(hyperparams: Mapping[str, Any], env_kwargs: Mapping[str, Any] | None) -> Block:
    """Hyperparameters as they are kept in a study: plain values, with the command line's ``env_kwargs``.

    Raises `Refusal` for values that are none.
    """
    block = {**hyperparams, **({"env_kwargs": env_kwargs} if env_kwargs else {})}
    with refusals():
        block |= {"policy_kwargs": policy_kwargs_in(block)} if "policy_kwargs" in block else {}
    with refusals(TypeError, about="a study keeps plain values only (such as activation: tanh, no classes)"):
        plain: Block = json.loads(json.dumps(block))
        return plain
