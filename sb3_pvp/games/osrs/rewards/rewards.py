"""The reward of a tick: the amounts of all components times their weights, for all fights at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.schedules import Expression, Linear, Log, Schedule
from sb3_pvp.common.schedules.expression import names_in
from sb3_pvp.game import Transition
from sb3_pvp.games.osrs.rewards.components import COMPONENTS, DESCRIPTIONS, Array, Component, Facts, facts_of
from sb3_pvp.games.osrs.rewards.weights import WEIGHT_TAGS, RewardWeights, current_weights, is_finite, reward_weights

_NAMES, _ROWS = tuple(COMPONENTS), tuple(COMPONENTS.values())
#: Schedules with one value per rollout; all others may draw random numbers or use variables, so every tick counts.
_STEADY = (Linear, Log)


class _Plan(NamedTuple):
    """The part of the computation that is the same in all ticks of a rollout.

    Attributes:
        weights: the weights of the terms.
        t: number of finished rollouts.
        factors: float32 ``(len(COMPONENTS),)``, the product of the constant weights of each component.
        varying: (index of a component, its weights that are evaluated in every tick).
    """

    weights: RewardWeights
    t: int
    factors: NDArray[np.float32]
    varying: tuple[tuple[int, tuple[Schedule, ...]], ...]


class OsrsRewards:
    """The rewards of these fights, see `sb3_pvp.game.Rewards`."""

    terms: ClassVar[Mapping[str, str]] = DESCRIPTIONS
    tags: ClassVar[Mapping[str, str]] = WEIGHT_TAGS

    def weights(self, changes: Mapping[str, Any] | RewardWeights | None = None) -> RewardWeights:
        """Returns the default weights with these changes, see `reward_weights`."""
        return reward_weights(changes)

    def figures(self, weights: RewardWeights, trained_rollouts: int) -> dict[str, float]:
        """Returns the current weights by their tags, see `current_weights`."""
        return current_weights(weights, trained_rollouts)

    def at(self, weights: RewardWeights, trained_rollouts: int) -> _Plan:
        """Returns the plan of the next rollout, with which `compute` is called."""
        factors = np.ones(len(_ROWS), np.float32)
        varying = []
        for row, component in enumerate(_ROWS):
            given = [getattr(weights, name) for name in component.weights]
            schedules = tuple(each for each in given if isinstance(each, Schedule) and not isinstance(each, _STEADY))
            numbers = [each for each in given if each not in schedules]
            factors[row] = np.prod([each(trained_rollouts) if isinstance(each, _STEADY) else each for each in numbers])
            if factors[row] and schedules:
                varying.append((row, schedules))
        return _Plan(weights, trained_rollouts, factors, tuple(varying))

    def compute(self, transition: Transition, weights: _Plan) -> NDArray[np.float32]:
        """Returns the terms of a tick, float32 ``(len(COMPONENTS), N)``.

        In a fight that broke off (`Outcome.TARGET_LOST`, `Outcome.DESYNC`) all terms of the tick are 0 (rewards.md §5).
        Raises `ValueError` if the value of a schedule is not a finite number.
        """
        from sb3_pvp.games.osrs.rewards.amounts import weighted  # Numba takes long to import

        facts = facts_of(transition, weights.weights.reward_on_damage_generated)
        amounts = facts.amounts.view(np.float32).reshape(-1, len(_ROWS))
        # Of fights that broke off before the schedules, which are only evaluated where a term is not 0.
        terms: NDArray[np.float32] = weighted(amounts, weights.factors, transition.outcome)
        for row, schedules in weights.varying:
            _multiply(terms[row], row, schedules, facts, weights.t)
        if weights.varying:
            terms += 0.0  # -0.0 becomes 0.0
        return terms


def _multiply(part: NDArray[np.float32], row: int, schedules: tuple[Schedule, ...], facts: Facts, t: int) -> None:
    """Multiplies one row by its schedules, only where it is not 0: elsewhere the event did not happen."""
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
    # Not used by the formula: from its shape, `random` and `normal` know to draw a number for each fight.
    return {**variables, "": fights}
