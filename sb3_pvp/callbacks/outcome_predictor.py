"""Teaches a model's outcome predictor who wins from where (training.md §12)."""

from __future__ import annotations

import math
import time
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sb3_pvp.callbacks.base import PvpCallback
from sb3_pvp.callbacks.observations import current_statistics, normalizer_of, own_part, own_shape
from sb3_pvp.common.arguments import Flag, NonNegativeInt, Positive, PositiveInt, checked
from sb3_pvp.policies.outcome_predictor import OutcomePredictor

METRICS = {
    "train/ext/win_rate_data_length": "States of decided fights that the outcome predictor was given.",
    "train/ext/win_rate_train_loss": "Mean cross-entropy of the outcome predictor while it learned.",
    "train/ext/win_rate_test_loss": "Its cross-entropy on fights that it has not learned from.",
    "train/ext/win_rate_test_accuracy": "Share of the states of such fights whose outcome it predicted.",
    "train/ext/winrate_duration": "Seconds that the outcome predictor took.",
}


class DecidedFight(NamedTuple):
    """The steps ``start`` to ``stop - 1`` of a rollout in environment ``env``, at whose end a fight was decided."""

    env: int
    start: int
    stop: int
    won: bool


class OutcomePredictorCallback(PvpCallback):
    """Trains ``model.outcome_predictor``, which is saved and loaded with the model, on every rollout.

    It learns from a few states of each fight that was won or lost in the rollout; one in ten of these fights is kept
    for a test. The first rollout of a policy that keeps statistics is left out, because there are none yet. The
    environment must report ``info["outcome"]`` at the end of an episode, as `PvpEnv` does.

    Args:
        max_steps_per_episode: so many random states of each fight; ``None``: all.
        balance_outcomes: learn from as many won as lost fights.
        batch_size: of its mini-batches.
        n_epochs: passes over the data of a rollout.
        test_size: share of the fights that are kept for the test.
        learning_rate: of its optimiser.
        seed: of its random numbers; a model that has a predictor already goes on with its own.
    """

    @checked
    def __init__(
        self,
        max_steps_per_episode: PositiveInt | None = 5,
        balance_outcomes: Flag = False,
        batch_size: PositiveInt = 64,
        n_epochs: PositiveInt = 1,
        test_size: Annotated[float, Field(gt=0, lt=1)] = 0.1,
        learning_rate: Positive = 1e-3,
        seed: NonNegativeInt = 0,
        verbose: bool | int = 0,
    ) -> None:
        super().__init__(verbose)
        self._max_steps, self._balance = max_steps_per_episode, balance_outcomes
        self._batch_size, self._n_epochs, self._test_size = batch_size, n_epochs, test_size
        self._new = {"learning_rate": learning_rate, "seed": seed}

    def _on_training_start(self) -> None:
        shape = own_shape(self.model)
        if not hasattr(self.model, "outcome_predictor"):
            self.model.outcome_predictor = OutcomePredictor(shape, **self._new)  # type: ignore[attr-defined, arg-type]
        self.predictor: OutcomePredictor = self.model.outcome_predictor  # type: ignore[attr-defined]
        if self.predictor.shape != shape:
            raise ValueError(
                f"the model's outcome predictor is for observations of shape {self.predictor.shape}, not {shape}; "
                "delete model.outcome_predictor to begin a new one"
            )

    def _on_rollout_start(self) -> None:
        self._step = 0
        self._starts = np.zeros(self.training_env.num_envs, np.int64)
        self._fights: list[DecidedFight] = []

    def _on_step(self) -> bool:
        self._step += 1
        return super()._on_step()

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        if (outcome := self._told(info, "outcome")) in ("won", "lost"):
            self._fights.append(DecidedFight(row, int(self._starts[row]), self._step, outcome == "won"))
        self._starts[row] = self._step

    def _on_rollout_end(self) -> None:
        started = time.perf_counter()
        statistics = current_statistics(self.model)
        if statistics is None and normalizer_of(self.model) is not None:
            return
        if statistics is not None:
            self.predictor.statistics = statistics
        self._learn(own_part(self.model.rollout_buffer.observations))  # type: ignore[attr-defined]
        self.logger.record("train/ext/winrate_duration", time.perf_counter() - started)

    def _learn(self, observations: NDArray[Any]) -> None:
        """Trains and tests on a rollout's observations ``(steps, envs, *shape)``."""
        rng = self.predictor.rng
        fights = [self._fights[i] for i in rng.permutation(len(self._fights))]
        fights = balanced(fights) if self._balance else fights
        number = math.ceil(self._test_size * len(fights))
        if number == len(fights):
            return
        # By fights, not by states: states of one fight tell on one another.
        test, train = (self._data(part, observations) for part in (fights[:number], fights[number:]))
        for _ in range(self._n_epochs):
            train_loss = self.predictor.fit(*train, self._batch_size)
        test_loss, accuracy = self.predictor.evaluate(*test)
        for tag, value in zip(METRICS, (len(train[1]) + len(test[1]), train_loss, test_loss, accuracy), strict=False):
            self.logger.record(tag, value)

    def _data(self, fights: list[DecidedFight], observations: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        steps = [sampled_steps(fight, self._max_steps, self.predictor.rng) for fight in fights]
        seen = [observations[chosen, fight.env] for fight, chosen in zip(fights, steps, strict=True)]
        return np.concatenate(seen), np.repeat([fight.won for fight in fights], [len(chosen) for chosen in steps])


def balanced(fights: list[DecidedFight]) -> list[DecidedFight]:
    """The fights without the last ones of the more frequent outcome, so that there are as many of both."""
    won = np.array([fight.won for fight in fights], bool)
    fewest, rank = min(won.sum(), (~won).sum()), np.where(won, won.cumsum(), (~won).cumsum())
    return [fights[index] for index in np.flatnonzero(rank <= fewest).tolist()]


def sampled_steps(fight: DecidedFight, at_most: int | None, rng: np.random.Generator) -> NDArray[np.int64]:
    """Different random steps of the fight, or all if there are not as many."""
    steps = np.arange(fight.start, fight.stop)
    return steps if at_most is None or len(steps) <= at_most else rng.choice(steps, at_most, replace=False)
