"""A study that any number of processes work on, of which each may be killed at any moment.

No trial is lost: those of processes that are gone are failed, and their parameters are tried again. None is done twice,
and all processes together do as many as were asked for. Every trial has its own seed, and what is drawn for it follows
from the study's seed, the trial's number and the trials before it, so that a study goes on after a stop as it would
have without. Optuna's `RetryFailedTrialCallback` does less: it needs heartbeats, which journals do not have, and
``optimize`` counts the trials of one process only.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from sb3_pvp.common.errors import Refusal
from sb3_pvp.presets.presets import renamed
from sb3_pvp.zoo.sweeps.conversion import Block, hyperparameters, own_values
from sb3_pvp.zoo.sweeps.space import Space, from_dict
from sb3_pvp.zoo.sweeps.storage import EXCLUSIVE, Locks

#: The attribute of a study with its `Settings`.
SETTINGS = "sb3_pvp"
#: Attributes of a trial: its seed, the process that runs it, how often it was begun before, and which trial that was.
SEED, PROCESS, ATTEMPTS, RETRY_OF = "seed", "process", "attempts", "retry_of"
#: What has ended its process so often is not tried again.
MAX_ATTEMPTS = 3

_VERSION = 1


@dataclass(frozen=True)
class Settings:
    """What all trials of a study have in common; kept with it as JSON."""

    algo: str
    env_id: str
    n_timesteps: int
    block: Block  #: The hyperparameters that are not varied, and those that the varied ones replace.
    space: dict[str, Any]  #: What is varied, see `sb3_pvp.zoo.sweeps.space.as_dict`.
    measure: dict[str, Any]
    seed: int  #: From which those of the trials follow.

    def parameters(self) -> Space:
        """What is varied."""
        return from_dict(self.space)

    def hyperparameters(self, sample: Mapping[str, Any], n_timesteps: int | None = None) -> Block:
        """The whole configuration of a trial, for a run of another length if one is given."""
        return hyperparameters(sample, self.parameters(), self.block, n_timesteps or self.n_timesteps)


def read_settings(study: optuna.Study) -> Settings:
    """The settings of a study; raises `Refusal` if it is not one of these."""
    values = dict(study.user_attrs.get(SETTINGS, {}))
    if values.pop("version", None) != _VERSION:
        raise Refusal(f"study {study.study_name!r} was not begun by this version of sb3_pvp")
    return Settings(**renamed(values))


def open_study(name: str, storage: BaseStorage, locks: Locks, settings: Settings) -> tuple[optuna.Study, Settings]:
    """The study of that name, which is begun with these settings if it is new; and the settings that it has.

    The first trial of a new study has the configuration's own values, where they are in the space.

    Only the seed may differ. Raises `Refusal` if anything else does.
    """
    with locks.held(EXCLUSIVE):
        is_known = name in optuna.get_all_study_names(storage)  # else Optuna would say that it is
        begin = optuna.load_study if is_known else partial(optuna.create_study, direction="maximize")
        study = begin(study_name=name, storage=storage)
        is_empty = not study.get_trials(deepcopy=False)
        if is_empty and SETTINGS not in study.user_attrs:  # new, or killed before it had them
            study.set_user_attr(SETTINGS, {"version": _VERSION, **asdict(settings)})
        begun = read_settings(study)
        if is_empty and (own := own_values(begun.parameters(), begun.block, begun.n_timesteps)):
            study.enqueue_trial(own)
    wanted = json.loads(json.dumps({**asdict(settings), "seed": begun.seed}))
    for path, before, now in _differences(asdict(begun), wanted):
        raise Refusal(f"study {name!r} was begun with {path} = {before!r}, and not {now!r}: give another --study-name")
    return study, begun


def is_abandoned(trial: FrozenTrial, locks: Locks) -> bool:
    """Whether a trial still counts as running although its process is gone: the next process tries it again."""
    process = trial.user_attrs.get(PROCESS)
    return trial.state is TrialState.RUNNING and process is not None and not locks.is_alive(process)


class TrialQueue:
    """Hands out the trials of a study, one at a time, until all processes together have done ``n_trials``.

    Those that failed are not counted. ``settings`` and ``locks`` are those of the study and its storage.
    """

    def __init__(
        self,
        study: optuna.Study,
        settings: Settings,
        locks: Locks,
        n_trials: int,
        make_sampler: Callable[[int], BaseSampler],
    ) -> None:
        self._study, self._seed, self._locks = study, settings.seed, locks
        self.n_trials, self._make_sampler = n_trials, make_sampler
        self._distributions = {each.name: each.distribution() for each in settings.parameters()}
        self._process = uuid.uuid4().hex

    @contextmanager
    def working(self) -> Iterator[None]:
        """Around the work of this process."""
        with self._locks.held(self._process):
            yield

    def take(self) -> optuna.Trial | None:
        """The next trial, with its parameters drawn; ``None`` if as many as were asked for are done or being done."""
        with self._locks.held(EXCLUSIVE):
            self._retry_abandoned()
            trials = self._trials()
            waiting = any(trial.state is TrialState.WAITING for trial in trials)
            if not waiting and sum(trial.state is not TrialState.FAIL for trial in trials) >= self.n_trials:
                return None
            # A sampler of its own: after a stop, and in every process, others would begin with the same random numbers.
            self._study.sampler = self._make_sampler(derived_seed(self._seed, len(trials), "sampler"))
            trial = self._study.ask(self._distributions)
            trial.set_user_attr(PROCESS, self._process)
            if SEED not in trial.user_attrs:
                trial.set_user_attr(SEED, derived_seed(self._seed, trial.number, "trial"))
            return trial

    def finish(self, trial: optuna.Trial, state: TrialState, value: float | None = None) -> None:
        """Keeps how a trial has ended: with a result, stopped early, or with an error."""
        try:
            self._study.tell(trial, value, state=state)
        except (optuna.exceptions.UpdateFinishedTrialError, ValueError):  # somebody else has finished it
            if self._trials()[trial.number].state is not TrialState.FAIL:
                raise
            print(f"Trial {trial.number} was taken for lost, and tried again: this result does not count")

    def give_back(self, trial: optuna.Trial) -> None:
        """Lets the parameters of a trial that was interrupted be tried again."""
        with self._locks.held(EXCLUSIVE):
            frozen = self._trials()[trial.number]
            if frozen.state is TrialState.RUNNING:  # and nobody took it for lost
                self._retry(frozen)

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _retry_abandoned(self) -> None:
        left = [
            trial.number
            for trial in self._trials()
            if is_abandoned(trial, self._locks)
            # Who has the lock sees a trial of nobody only if its process was killed before it told whose that is.
            or (trial.state is TrialState.RUNNING and PROCESS not in trial.user_attrs)
        ]
        # The last that a process did before it was gone may have been to finish its trial: it is time to look again.
        for trial in self._trials() if left else []:
            if trial.number in left and trial.state is TrialState.RUNNING:
                self._retry(trial)

    def _retry(self, trial: FrozenTrial) -> None:
        """Lets a trial be tried again, and then fails it: whoever is killed in between has lost and doubled nothing."""
        attempts = trial.user_attrs.get(ATTEMPTS, 0) + 1
        # Whoever was killed while it drew has perhaps not kept all of it, nor anything else.
        params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        is_queued = any(each.user_attrs.get(RETRY_OF) == trial.number for each in self._trials())
        if params and attempts < MAX_ATTEMPTS and not is_queued:
            seed = trial.user_attrs.get(SEED, derived_seed(self._seed, trial.number, "trial"))
            attributes = {SEED: seed, ATTEMPTS: attempts, RETRY_OF: trial.number}
            self._study.enqueue_trial(params, user_attrs=attributes)
        self._study.tell(trial.number, state=TrialState.FAIL)


def derived_seed(seed: int, number: int, purpose: str) -> int:
    """A seed below 2**31 for one purpose in the trial of that number."""
    words = [seed, number, *purpose.encode()]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


def _differences(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif before != now:
        yield path, before, now
