"""Ends a training when a formula of its metrics says so (self-play.md §10.1)."""

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
from sb3_pvp.schedules import Expression
from sb3_pvp.schedules.base import as_schedule
from sb3_pvp.schedules.expression import names_in

#: When the condition is asked, the values of its variable ``phase``, in the order of a training.
PHASES = (
    *("on_training_start", "on_rollout_start", "on_rollout_sampling_end", "on_rollout_end", "on_learn_end"),
    "on_training_end",
)
_CONDITION = Kind[Any](str | InstanceOf[Mapping] | Callable, "a formula or a schedule")  # type: ignore[type-arg]


class EarlyStoppingCallback(PvpCallback, KVWriter):
    """Ends the training between two rollouts, as soon as a condition holds.

    The condition is a formula of `sb3_pvp.schedules.Expression` such as ``"eval_baseline_win_rate >= 0.9"``; ``a * b``
    is "and". It knows the time ``t`` (trained rollouts), the ``phase`` in which it is asked (`PHASES`) and the last
    value of everything that was logged, under its tag with ``_`` for every character that is no letter or digit.
    Metrics that are not there yet make it false, which is said once. SB3 speaks of a rollout when its advantages are
    known: ``on_rollout_sampling_end`` and ``on_rollout_end`` are the same moment, as ``on_learn_end`` and what follows.

    List it last, so that what the others log at the end of a rollout is known. With `PvpPPO` the values are saved with
    the model: a run that was stopped and is resumed stops again.

    Args:
        condition: a formula, or a schedule (`sb3_pvp.schedules.parse_schedule`), whose ``defaults`` may stand for
            metrics that are not there yet.
        verbose: 1: says why training ends.
    """

    @checked
    def __init__(self, condition: Annotated[Any, _CONDITION], verbose: bool | int = 1) -> None:
        super().__init__(verbose)
        formula = {"type": "expression", "expression": condition} if isinstance(condition, str) else condition
        self._condition = as_schedule(formula)
        self._names: set[str] = set()  # of what the condition must be told besides the time
        if isinstance(self._condition, Expression):
            known = {"t", *self._condition.substitutions, *self._condition.defaults}
            self._names = {*names_in(self._condition.expression)} - known
        self._text = getattr(self._condition, "expression", str(self._condition))
        self._warned = False

    def _init_callback(self) -> None:
        self._values: dict[str, float] = {}
        self._stops = self._learns = False
        self._resume_with_model("early_stopping", "_values")

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        """Remembers the numbers among what was logged, as an output of the logger."""
        for tag, value in key_values.items():
            if isinstance(value, (bool, int, float, np.number)):
                self._values[re.sub(r"\W", "_", tag)] = float(value)

    def close(self) -> None:
        """Nothing to close."""

    def _on_training_start(self) -> None:
        # What SB3 itself logs comes with the whole table only.
        self.logger.output_formats.append(self)
        self._ask("on_training_start")

    def _on_rollout_start(self) -> None:
        self._ask("on_rollout_start")

    def _on_step(self) -> bool:
        if self._stops:
            # The rollout has only begun because nothing can stop SB3 before its first step.
            self.model.num_timesteps -= self.training_env.num_envs
        return not self._stops

    def _on_rollout_end(self) -> None:
        self._ask("on_rollout_sampling_end")
        self._ask("on_rollout_end")
        self._learns = True

    def _on_training_end(self) -> None:
        self._ask("on_training_end")
        if self in self.logger.output_formats:
            self.logger.output_formats.remove(self)

    def _ask(self, phase: str) -> None:
        if self._learns and phase in ("on_rollout_start", "on_training_end"):
            self._learns = False
            self._ask("on_learn_end")
        self.write(self.logger.name_to_value, {})
        variables, rollouts = {**self._values, "phase": phase}, trained_rollouts(self.model)
        missing = self._names - variables.keys()
        if missing and not self._warned:
            self._warned = True
            warnings.warn(f"{self._text} is false until {', '.join(sorted(missing))} is logged", stacklevel=2)
        if not missing and not self._stops and bool(self._condition(rollouts, **variables)):
            self._stops = True
            if self.verbose and phase != "on_training_end":
                print(f"Training ends after {rollouts} rollouts: {self._text}")
