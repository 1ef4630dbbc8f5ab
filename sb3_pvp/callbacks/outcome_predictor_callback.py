"""Trains a model's outcome predictor, which estimates the chance to win from an observation (training.md §12)."""

from __future__ import annotations

import math
import time
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sb3_pvp.callbacks.base import RolloutCallback
from sb3_pvp.callbacks.observations_callback import current_statistics, normalizer_of, own_part, own_shape
from sb3_pvp.common.arguments import Flag, NonNegativeInt, Positive, PositiveInt, checked
from sb3_pvp.policies.outcome_predictor import OutcomePredictor

METRICS = {
    "train/ext/win_rate_data_length": "Observations that the outcome predictor was trained and tested on.",
    "train/ext/win_rate_train_loss": "Mean cross-entropy of the outcome predictor in its last epoch.",
    "train/ext/win_rate_test_loss": "Cross-entropy of the outcome predictor on the test fights.",
    "train/ext/win_rate_test_accuracy": "Share of the observations of test fights with a correct prediction.",
    "train/ext/winrate_duration": "Seconds for training and testing the outcome predictor.",
}


class DecidedFight(NamedTuple):
    """Steps ``start`` to ``stop - 1`` of a rollout in environment ``env``, the last of which decided a fight."""

    env: int
    start: int
    stop: int
    won: bool


class OutcomePredictorCallback(RolloutCallback):
    """Trains ``model.outcome_predictor`` on every rollout; it is saved and loaded with the model.

    The training data are a few random observations of each fight that was won or lost in the rollout; a share of the
    fights is held out for testing. The environment must report ``info["outcome"]`` at the end of an episode, as
    `PvpEnv` does. If the policy keeps observation statistics, the first rollout, which has none yet, is skipped.

    Args:
        max_steps_per_episode: number of random observations per fight; ``None``: all.
        balance_outcomes: use as many won as lost fights.
        batch_size: of the predictor's mini-batches.
        n_epochs: passes over the data of a rollout.
        test_size: share of the fights to hold out for testing.
        learning_rate: of the predictor's optimiser.
        seed: of a new predictor; an existing one of the model keeps its random state.
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
                f"the model's outcome predictor is for observations of shape {self.predictor.shape}, not {shape}: "
                "delete model.outcome_predictor to train a new one"
            )

    def _on_rollout_start(self) -> None:
        super()._on_rollout_start()
        # Of a fight that began in an earlier rollout, only the steps in this one are used.
        self._steps, self._starts = 0, np.zeros(self.training_env.num_envs, np.int64)
        self._fights: list[DecidedFight] = []

    def _on_step(self) -> bool:
        """Counts the steps of the rollout."""
        self._steps += 1
        return super()._on_step()

    def _on_episode(self, row: int, info: dict[str, Any]) -> None:
        if (outcome := self._required_info(info, "outcome")) in ("won", "lost"):
            self._fights.append(DecidedFight(row, int(self._starts[row]), self._steps, outcome == "won"))
        self._starts[row] = self._steps

    def _on_rollout_end(self) -> None:
        started = time.perf_counter()
        statistics = current_statistics(self.model)
        if statistics is None and normalizer_of(self.model) is not None:
            return  # the first rollout of a policy only collects statistics
        if statistics is not None:
            self.predictor.statistics = statistics  # those of this policy, saved with the predictor
        # With all rows, as the fights are numbered: the model's own buffer is without those of lost actors.
        self._train_and_test(own_part(self._rollout(whole=True).observations))
        self.logger.record("train/ext/winrate_duration", time.perf_counter() - started)

    def _train_and_test(self, observations: NDArray[Any]) -> None:
        """Trains and tests the predictor on a rollout's observations ``(steps, envs, *shape)``."""
        rng = self.predictor.rng
        fights = [self._fights[i] for i in rng.permutation(len(self._fights))]
        fights = balanced(fights) if self._balance else fights
        num_test = math.ceil(self._test_size * len(fights))
        if num_test == len(fights):
            return  # none left to train on
        # Split by fights: observations of one fight are alike, so that a split by steps would leak into the test.
        test, train = (self._sample(part, observations) for part in (fights[:num_test], fights[num_test:]))
        for _ in range(self._n_epochs):
            train_loss = self.predictor.fit(*train, self._batch_size)
        test_loss, accuracy = self.predictor.evaluate(*test)
        for tag, value in zip(METRICS, (len(train[1]) + len(test[1]), train_loss, test_loss, accuracy), strict=False):
            self.logger.record(tag, value)

    def _sample(self, fights: list[DecidedFight], observations: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Returns random observations ``(n, *shape)`` of these fights, and whether each was of a won fight ``(n,)``."""
        steps = [sampled_steps(fight, self._max_steps, self.predictor.rng) for fight in fights]
        seen = [observations[chosen, fight.env] for fight, chosen in zip(fights, steps, strict=True)]
        return np.concatenate(seen), np.repeat([fight.won for fight in fights], [len(chosen) for chosen in steps])


def balanced(fights: list[DecidedFight]) -> list[DecidedFight]:
    """Returns the fights without the last ones of the more frequent outcome, so that both are equally frequent."""
    won = np.array([fight.won for fight in fights], bool)
    fewest, rank = min(won.sum(), (~won).sum()), np.where(won, won.cumsum(), (~won).cumsum())
    return [fights[index] for index in np.flatnonzero(rank <= fewest).tolist()]


def sampled_steps(fight: DecidedFight, at_most: int | None, rng: np.random.Generator) -> NDArray[np.int64]:
    """Returns up to ``at_most`` distinct random steps of the fight; ``None``: all of them."""
    steps = np.arange(fight.start, fight.stop)
    return steps if at_most is None or len(steps) <= at_most else rng.choice(steps, at_most, replace=False)
