"""Stops training when a condition on the logged metrics holds (self-play.md §10.1)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import InstanceOf
from stable_baselines3.common.logger import KVWriter

from sb3_pvp.callbacks.base import PvpCallback, trained_rollouts
from sb3_pvp.common.arguments import Kind, checked
from sb3_pvp.common.schedules import Expression
from sb3_pvp.common.schedules.expression import names_in
from sb3_pvp.common.schedules.schedule import as_schedule

#: When the condition is checked: the values of its variable ``phase``, in chronological order.
PHASES = (
    *("on_training_start", "on_rollout_start", "on_rollout_sampling_end", "on_rollout_end", "on_learn_end"),
    "on_training_end",
)
_CONDITION = Kind[Any](str | InstanceOf[Mapping] | Callable, "a formula or a schedule")  # type: ignore[type-arg]


class EarlyStoppingCallback(PvpCallback, KVWriter):
    """Stops training between two rollouts as soon as a condition holds.

    The condition is a formula of `sb3_pvp.common.schedules.Expression` such as ``"eval_baseline_win_rate >= 0.9"``;
    ``a * b`` is "and". Its variables are ``t`` (trained rollouts), ``phase`` (`PHASES`) and the last value of every
    logged metric, under its tag with every character that is not a letter or digit replaced by ``_``. While a metric is
    missing the condition is false, with one warning. SB3 calls its hook for the end of a rollout after the advantages
    are computed, so ``on_rollout_sampling_end`` and ``on_rollout_end`` coincide, as do ``on_learn_end`` and the next
    phase.

    List it last, so that it sees the metrics that other callbacks log at the end of a rollout. `PvpPPO` saves the
    values with the model: a run that was stopped by the condition stops again when resumed.

    Args:
        condition: a formula, or a schedule (`sb3_pvp.common.schedules.parse_schedule`), whose ``defaults`` replace
            missing metrics.
        verbose: 1: print why training ends.
    """

    @checked
    def __init__(self, condition: Annotated[Any, _CONDITION], verbose: bool | int = 1) -> None:
        super().__init__(verbose)
        self._condition = as_schedule(Expression(condition) if isinstance(condition, str) else condition)
        self._text, self._warned = str(self._condition), False
        self._names: set[str] = set()  # of the metrics that the condition needs
        if isinstance(self._condition, Expression):
            self._text = self._condition.expression
            known = {"t", *self._condition.substitutions, *self._condition.defaults}
            self._names = {*names_in(self._text)} - known

    def _init_callback(self) -> None:
        self._values: dict[str, float] = {}
        self._stops = self._is_learning = False
        self._resume_with_model("early_stopping", "_values")

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        """Remembers the logged numbers; this makes the callback an output format of the logger."""
        for tag, value in key_values.items():
            if isinstance(value, (bool, int, float, np.number)):
                self._values[re.sub(r"\W", "_", tag)] = float(value)

    def close(self) -> None:
        """Does nothing: there is no file to close."""

    def _on_training_start(self) -> None:
        # SB3 records its own metrics (time/, train/) right before it dumps them, when no callback runs.
        self.logger.output_formats.append(self)
        self._check_condition("on_training_start")

    def _on_rollout_start(self) -> None:
        self._check_condition("on_rollout_start")

    def _on_step(self) -> bool:
        """Stops the training in the first step of a rollout, which is not counted."""
        if self._stops:
            # on_rollout_start cannot stop SB3, so the rollout takes one step per environment, which is not trained on.
            self.model.num_timesteps -= self.training_env.num_envs
        return not self._stops

    def _on_rollout_end(self) -> None:
        self._check_condition("on_rollout_sampling_end")
        self._check_condition("on_rollout_end")
        self._is_learning = True

    def _on_training_end(self) -> None:
        self._check_condition("on_training_end")
        if self in self.logger.output_formats:
            self.logger.output_formats.remove(self)

    def _check_condition(self, phase: str) -> None:
        # SB3 has no hook for the end of learning: the next hook after it stands in.
        if self._is_learning and phase in ("on_rollout_start", "on_training_end"):
            self._is_learning = False
            self._check_condition("on_learn_end")
        self.write(self.logger.name_to_value, {})  # recorded, but not dumped yet
        variables, rollouts = {**self._values, "phase": phase}, trained_rollouts(self.model)
        missing = self._names - variables.keys()
        if missing and not self._warned:
            self._warned = True
            warnings.warn(f"{self._text} is false until {', '.join(sorted(missing))} is logged", stacklevel=2)
        if not missing and not self._stops and bool(self._condition(rollouts, **variables)):
            self._stops = True
            if self.verbose and phase != "on_training_end":  # then training ends anyway
                print(f"Stopping training after {rollouts} rollouts: {self._text}")
