"""The reward of a tick: every component whose weights are not zero, for all fights at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Outcome, Transition
from sb3_pvp.games.osrs.rewards.components import COMPONENTS, DESCRIPTIONS, Component
from sb3_pvp.games.osrs.rewards.current_weights import WEIGHT_TAGS, current_weights
from sb3_pvp.games.osrs.rewards.facts import Array, Facts
from sb3_pvp.games.osrs.rewards.weights import RewardWeights, is_finite, reward_weights
from sb3_pvp.schedules import Expression, Linear, Log, Schedule
from sb3_pvp.schedules.expression import names_in

_NAMES, _ROWS = tuple(COMPONENTS), tuple(COMPONENTS.values())
_TARGET_LOST = int(Outcome.TARGET_LOST)  # what is not less ended without a result
#: Schedules that have one value in a rollout; the others may draw random numbers or use variables.
_STEADY = (Linear, Log)


class _Plan(NamedTuple):
    """What has to be done in the ticks of one rollout.

    Attributes:
        weights: how much the terms are worth.
        t: how many rollouts are finished.
        rows: of the components that are computed.
        factors: float32 ``(len(COMPONENTS), 1)``, for each the product of its numbers.
        varying: rows with weights that are evaluated in every tick.
    """

    weights: RewardWeights
    t: int
    rows: tuple[int, ...]
    factors: NDArray[np.float32]
    varying: tuple[tuple[int, tuple[Schedule, ...]], ...]


class OsrsRewards:
    """The rewards of `sb3_pvp.game.Rewards` for these fights."""

    terms: ClassVar[Mapping[str, str]] = DESCRIPTIONS
    tags: ClassVar[Mapping[str, str]] = WEIGHT_TAGS

    def weights(self, changes: Mapping[str, Any] | RewardWeights | None = None) -> RewardWeights:
        """See `reward_weights`."""
        return reward_weights(changes)

    def figures(self, weights: RewardWeights, trained_rollouts: int) -> dict[str, float]:
        """See `current_weights`."""
        return current_weights(weights, trained_rollouts)

    def at(self, weights: RewardWeights, trained_rollouts: int) -> _Plan:
        """The plan of the next rollout."""
        factors = np.ones((len(_ROWS), 1), np.float32)
        rows, varying = [], []
        for row, component in enumerate(_ROWS):
            given = [getattr(weights, name) for name in component.weights]
            schedules = tuple(each for each in given if isinstance(each, Schedule) and not isinstance(each, _STEADY))
            numbers = [each for each in given if each not in schedules]
            factors[row] = np.prod([each(trained_rollouts) if isinstance(each, _STEADY) else each for each in numbers])
            if factors[row]:
                rows.append(row)
                varying.extend([(row, schedules)] if schedules else [])
        return _Plan(weights, trained_rollouts, tuple(rows), factors, tuple(varying))

    def compute(self, transition: Transition, weights: _Plan) -> NDArray[np.float32]:
        """The terms of a tick, float32 ``(len(COMPONENTS), N)``.

        A fight that broke (`Outcome.TARGET_LOST`, `Outcome.DESYNC`) is worth nothing, whatever happened in that tick
        (rewards.md §5). Raises `ValueError` if a schedule has no finite number as its value.
        """
        facts = Facts(transition, weights.weights.reward_on_damage_generated)
        parts = np.zeros((len(_ROWS), len(transition.outcome)), np.float32)
        for row in weights.rows:
            parts[row] = _ROWS[row].amount(facts)
        parts *= weights.factors
        broken = transition.outcome >= _TARGET_LOST
        if broken.any():
            parts[:, broken] = 0.0
        for row, schedules in weights.varying:
            _multiply(parts[row], row, schedules, facts, weights.t)
        parts += 0.0  # -0.0 becomes 0.0
        return parts


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
    used = component.variables.keys() & names_in(schedule.expression)
    variables = {name: component.variables[name].values(facts, schedule.defaults.get(name))[fights] for name in used}
    # The formula does not use this one: its shape tells `random` and `normal` to draw anew for each fight.
    return {**variables, "": fights}
