"""Training that ends when its metrics say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chosen_duel import chosen_duels
from logged import remember
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import EarlyStoppingCallback
from sb3_pvp.callbacks.early_stopping import PHASES

ROLLOUT = 4 * 16


def new_model() -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    model = PvpPPO("MultiInputPolicy", chosen_duels(4), device="cpu", seed=1, **settings)
    remember(model)
    return model


class Wins(BaseCallback):
    """Logs a win rate that grows by a tenth with every rollout, under a tag with all that names cannot have."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.logger.record("eval/main-1 best/win rate", self.num_timesteps / ROLLOUT / 10)


@pytest.mark.parametrize(
    ("condition", "rollouts"),
    [
        ("t == 2", 2),
        ("t >= 1", 1),
        ("0", 5),
        ("eval_main_1_best_win_rate >= 0.3", 3),
        ("(t > 1) * (phase == 'on_rollout_start')", 2),
        ("(t > 1) * (phase == 'on_learn_end')", 2),
        ("(t > 1) * (phase == 'on_rollout_sampling_end')", 3),
        ("(t > 1) * (phase == 'on_training_end')", 5),
        ("time_total_timesteps >= 128", 2),
        ("limit < t", 5),
        ({"type": "expression", "expression": "limit < t", "defaults": {"limit": 3}}, 4),
        ({"type": "linear", "initial_value": 0, "final_value": 1, "change_over_time_steps": 1}, 1),
    ],
)
def test_ends_when_the_condition_holds(condition: Any, rollouts: int) -> None:
    model = new_model()
    model.learn(5 * ROLLOUT, callback=[Wins(), EarlyStoppingCallback(condition)])
    assert (model.trained_rollouts, model.num_timesteps) == (rollouts, rollouts * ROLLOUT)


def test_asks_in_the_order_of_the_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    callback, asked = EarlyStoppingCallback("0"), list[str]()
    monkeypatch.setattr(callback, "_condition", lambda rollouts, **variables: asked.append(variables["phase"]))
    new_model().learn(2 * ROLLOUT, callback=callback)
    assert asked == [PHASES[0], *PHASES[1:5], *PHASES[1:5], PHASES[5]]


def test_warns_once_of_missing_metrics() -> None:
    with pytest.warns(UserWarning, match="is false until eval_nobody_win_rate is logged") as warned:
        new_model().learn(3 * ROLLOUT, callback=EarlyStoppingCallback("eval_nobody_win_rate > 0"))
    assert len([each for each in warned if "is false until" in str(each.message)]) == 1


def test_a_resumed_run_stops_again(tmp_path: Path) -> None:
    model = new_model()
    condition = "eval_main_1_best_win_rate >= 0.3"
    model.learn(5 * ROLLOUT, callback=[Wins(), EarlyStoppingCallback(condition)])
    model.save(tmp_path / "model.zip")
    resumed = PvpPPO.load(tmp_path / "model.zip", env=chosen_duels(4))
    remember(resumed)
    resumed.learn(5 * ROLLOUT, callback=[EarlyStoppingCallback(condition)], reset_num_timesteps=False)
    assert (resumed.trained_rollouts, resumed.num_timesteps) == (3, 3 * ROLLOUT)


def test_of_two_conditions_each_has_its_values_when_a_run_is_resumed(tmp_path: Path) -> None:
    model = new_model()
    condition = "eval_main_1_best_win_rate >= 0.3"
    model.learn(5 * ROLLOUT, callback=[EarlyStoppingCallback("t > 9"), Wins(), EarlyStoppingCallback(condition)])
    model.save(tmp_path / "model.zip")
    resumed = PvpPPO.load(tmp_path / "model.zip", env=chosen_duels(4))
    remember(resumed)
    callbacks: list[BaseCallback] = [EarlyStoppingCallback("t > 9"), EarlyStoppingCallback(condition)]
    resumed.learn(5 * ROLLOUT, callback=callbacks, reset_num_timesteps=False)
    assert resumed.trained_rollouts == 3 and len(resumed.resumable_parts) == 2


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("win rate > 3", "not a formula"),
        (None, "condition must be a formula or a schedule, got None"),
        (3, "condition must be a formula or a schedule, got 3"),
        ({"type": "expresion"}, "did you mean 'expression'"),
    ],
)
def test_refuses_what_is_no_condition(condition: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EarlyStoppingCallback(condition)
