"""The reward of a tick: every component whose weights are not zero, for all fights at once."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.rewards.components import COMPONENTS, Component
from sb3_pvp.envs.rewards.facts import Array, Facts, Tick
from sb3_pvp.envs.rewards.weights import RewardWeights, is_finite
from sb3_pvp.schedules import Expression, Linear, Log, Schedule
from sb3_pvp.schedules.language import parse_formula
from sb3_pvp.world import Outcome

_NAMES, _ROWS = tuple(COMPONENTS), tuple(COMPONENTS.values())
_TARGET_LOST = int(Outcome.TARGET_LOST)  # what is not less ended without a result
#: Schedules that have one value in a roll-out; the others may draw random numbers or use variables.
_STEADY = (Linear, Log)


class _Plan(NamedTuple):
    """What has to be done in the ticks of one roll-out.

    Attributes:
        rows: of the components that are computed.
        factors: float32 ``(len(COMPONENTS), 1)``, for each the product of its numbers.
        varying: rows with weights that are evaluated in every tick.
    """

    rows: tuple[int, ...]
    factors: NDArray[np.float32]
    varying: tuple[tuple[int, tuple[Schedule, ...]], ...]


class Rewards:
    """Computes the components of the reward.

    Args:
        weights: how much they are worth.
    """

    def __init__(self, weights: RewardWeights) -> None:
        self.weights = weights
        self._planned_for = 0
        self._plan = _make_plan(weights, 0)

    def components(self, tick: Tick, t: int = 0) -> NDArray[np.float32]:
        """The components of one tick after ``t`` finished roll-outs, float32 ``(len(COMPONENTS), N)``.

        A fight that broke (`Outcome.TARGET_LOST`, `Outcome.DESYNC`) is worth nothing, whatever happened in that tick
        (rewards.md §5). Raises `ValueError` if a schedule has no finite number as its value.
        """
        if t != self._planned_for:
            self._plan, self._planned_for = _make_plan(self.weights, t), t
        facts = Facts(tick, self.weights.reward_on_damage_generated)
        parts = np.zeros((len(_ROWS), len(tick.outcome)), np.float32)
        for row in self._plan.rows:
            parts[row] = _ROWS[row].amount(facts)
        parts *= self._plan.factors
        broken = tick.outcome >= _TARGET_LOST
        if broken.any():
            parts[:, broken] = 0.0
        for row, schedules in self._plan.varying:
            _multiply(parts[row], row, schedules, facts, t)
        parts += 0.0  # -0.0 becomes 0.0
        return parts


def named_components(components: NDArray[np.float32]) -> dict[str, float]:
    """The components of one fight, ``(len(COMPONENTS),)``, by name; only those that are not zero (rewards.md §4)."""
    return {_NAMES[row]: float(components[row]) for row in np.flatnonzero(components)}


def _make_plan(weights: RewardWeights, t: int) -> _Plan:
    factors = np.ones((len(_ROWS), 1), np.float32)
    rows, varying = [], []
    for row, component in enumerate(_ROWS):
        given = [getattr(weights, name) for name in component.weights]
        schedules = tuple(
            weight for weight in given if isinstance(weight, Schedule) and not isinstance(weight, _STEADY)
        )
        numbers = [weight(t) if isinstance(weight, _STEADY) else weight for weight in given if weight not in schedules]
        factors[row] = np.prod(numbers)
        if factors[row]:
            rows.append(row)
            varying.extend([(row, schedules)] if schedules else [])
    return _Plan(tuple(rows), factors, tuple(varying))


def _multiply(part: NDArray[np.float32], row: int, schedules: tuple[Schedule, ...], facts: Facts, t: int) -> None:
    """Multiplies one row where it is not zero; elsewhere the event of the component did not happen."""
    fights = np.flatnonzero(part)
    if not fights.size:
        return
    for schedule in schedules:
        factor = schedule(t, **_variables(schedule, _ROWS[row], facts, fights))
        if not is_finite(factor):
            raise ValueError(f"the reward {_NAMES[row]!r} has the value {factor!r} at t = {t}: check {schedule!r}")
        part[fights] *= factor


def _variables(schedule: Schedule, component: Component, facts: Facts, fights: NDArray[np.int64]) -> dict[str, Array]:
    if not isinstance(schedule, Expression):
        return {}
    used = component.variables.keys() & _used_names(schedule.expression)
    variables = {name: component.variables[name].values(facts, schedule.defaults.get(name))[fights] for name in used}
    # The formula does not use this one: its shape tells `random` and `normal` to draw anew for each fight.
    return {**variables, "": fights}


@lru_cache(maxsize=64)
def _used_names(formula: str) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(parse_formula(formula)) if isinstance(node, ast.Name))
