"""Callbacks that look at a whole rollout do so also of algorithms that learn from replay, without a rollout buffer."""

from typing import Any

import numpy as np
import pytest
from duel import HEADS, duels
from logged import remember
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import DreamerV3
from sb3_pvp.algorithms.dreamer.sizes import ModelSize
from sb3_pvp.callbacks import ActionLimitCallback, ObservationMetricsCallback, OutcomePredictorCallback

TINY = ModelSize(deter=16, hidden=8, units=8, classes=4, depth=2, stoch=4, blocks=4, layers=1, image_blocks=4, bins=41)
STEPS, ENVS = 40, 4


def learned(callback: BaseCallback) -> tuple[dict[str, Any], Any]:
    """What was logged of the last of two rollouts, and the model."""
    model = DreamerV3(
        "MultiInputPolicy", duels(), policy_kwargs={"size": TINY}, batch_size=2, batch_length=4, train_ratio=0.1,
        rollout_steps=STEPS, buffer_size=1000, device="cpu", seed=0,
    )  # fmt: skip
    memory = remember(model)
    model.learn(2 * STEPS * ENVS, callback=callback, log_interval=1)
    return memory.dumps[-1] | dict(model.logger.name_to_value), model


def records_of(model: Any, env: int) -> Any:
    """The records of the last rollout in which an environment acted."""
    records = model.replay_buffer.records[env::ENVS][: model.replay_buffer.counts[env]]
    return records[~records["is_last"]][-STEPS:]


def test_observations_and_choices_are_those_of_the_rollout() -> None:
    logged, model = learned(ObservationMetricsCallback(histograms=True))
    # The policy does not see what is hidden, and a record has all frames, the newest one first.
    records = np.stack([records_of(model, env) for env in range(ENVS)], 1)
    newest = records["observation/observation"].reshape(STEPS, ENVS, 2, 3)[:, :, 0]
    assert np.array_equal(logged["observations/1"], newest[:, :, 1].ravel())
    for statistic in ("mean", "std", "min", "max"):
        expected = getattr(newest[:, :, 0].astype(float), statistic)()
        assert logged[f"observations/0_rollout_{statistic}"] == pytest.approx(expected)
    for head in range(len(HEADS)):
        chosen = records[f"action/action_{head:04}"][:, :, 0]
        assert np.array_equal(logged[f"actions/action/{head}"], chosen.ravel())
    legal = records["observation/action_mask"][:, :, HEADS[0] :].reshape(-1, HEADS[1])
    assert np.array_equal(np.bincount(logged["actions/mask/1"], minlength=HEADS[1]), legal.sum(0))
    assert logged["observations/opponent_0_rollout_max"] > 0.5


def test_actions_over_a_limit_are_counted_and_cost() -> None:
    logged, model = learned(ActionLimitCallback(1, penalty=100.0))
    records = [model.replay_buffer.records[env::ENVS][: model.replay_buffer.counts[env]] for env in range(ENVS)]
    both = [(part["action/action_0000"] > 0) & (part["action/action_0001"] > 0) for part in records]
    penalised = np.concatenate([part["reward"][1:] < -50 for part in records])
    assert np.array_equal(penalised, np.concatenate([part[:-1, 0] for part in both])) and penalised.any()
    last = np.concatenate([part[~each["is_last"]][-STEPS:] for part, each in zip(both, records, strict=True)])
    assert logged["rollout/actions_over_limit"] == pytest.approx(last.mean())


@pytest.mark.slow
def test_outcomes_are_predicted_from_what_was_seen_on_the_way_to_them() -> None:
    logged, model = learned(OutcomePredictorCallback(max_steps_per_episode=None, n_epochs=100, learning_rate=1e-2))
    assert 0 < logged["train/ext/win_rate_data_length"] <= STEPS * ENVS
    assert logged["train/ext/win_rate_test_accuracy"] > 0.9
    seen = np.zeros((2, 2, 3), np.float32)
    seen[0, 0, 0], seen[1, 0, 0] = 1.0, -1.0
    won, lost = model.outcome_predictor.predict(seen)["WIN"]
    assert won > 0.6 > 0.4 > lost


def test_rollouts_of_stock_algorithms_are_kept_too() -> None:
    model = DQN("MlpPolicy", "CartPole-v1", train_freq=(8, "step"), learning_starts=100, seed=0, device="cpu")
    model.learn(16, callback=ObservationMetricsCallback(histograms=True), log_interval=1000)
    logged, buffer = model.logger.name_to_value, model.replay_buffer
    assert buffer is not None
    assert np.array_equal(logged["observations/3"], buffer.observations[8:16, 0, 3])
    assert np.array_equal(logged["actions/action/0"], buffer.actions[8:16, 0, 0])
    assert "actions/mask/0" not in logged
