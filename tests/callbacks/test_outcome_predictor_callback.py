"""What the outcome predictor is taught, and that it goes where its model goes (training.md §12)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from duel import Duel, ResumableDuels, duels
from logged import remember
from sb3_contrib import MaskablePPO

import sb3_pvp
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import OutcomePredictorCallback
from sb3_pvp.callbacks.outcome_predictor_callback import DecidedFight, balanced, sampled_steps
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.outcome_predictor import OutcomePredictor

SMALL = {"n_steps": 32, "batch_size": 64, "n_epochs": 1, "seed": 0, "device": "cpu"}
ROLLOUT = 32 * 4


def make_model(algorithm: Any = PvpPPO, **duel: Any) -> Any:
    return algorithm(AutoregressivePolicy, duels(**duel), **SMALL)


class Recorded(OutcomePredictorCallback):
    """Writes down what the predictor would be given."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.given: list[tuple[Any, Any]] = []

    def _sample(self, fights: Any, observations: Any) -> Any:
        data = super()._sample(fights, observations)
        self.given.append(data)
        return data


def state_of(predictor: OutcomePredictor) -> Any:
    state = predictor.__getstate__()
    numbers = [value.ravel() for value in state["contents"]["network"].values()]
    return np.concatenate([*numbers, state["statistics"]["mean"], [state["rng"].bit_generator.state["state"]["state"]]])


def test_it_learns_and_logs() -> None:
    model = make_model()
    memory = remember(model)
    model.learn(20 * ROLLOUT, callback=OutcomePredictorCallback(learning_rate=3e-3))
    names = ("data_length", "train_loss", "test_loss", "test_accuracy")
    assert not [tag for tag in memory.dumps[0] if tag.startswith("train/ext")]  # the policy had no statistics
    figures = [[dump[f"train/ext/win_rate_{name}"] for name in names] for dump in memory.dumps[1:]]
    assert all(dump["train/ext/winrate_duration"] > 0 for dump in memory.dumps[1:])
    assert figures[-1][1] < 0.2 < figures[0][1] and figures[-1][3] > 0.9
    env = Duel()
    for seed in range(10):
        observation, _ = env.reset(seed=seed)
        observation, *_ = env.step([0, 0])
        assert (model.outcome_predictor.predict(observation)["WIN"] > 0.5) == (env.sign > 0)


def test_every_state_is_of_a_fight_that_ended_so() -> None:
    model, callback = make_model(tied=0.4), Recorded(max_steps_per_episode=None)
    model.learn(3 * ROLLOUT, callback=callback)
    states = np.concatenate([observations for observations, _ in callback.given])
    won = np.concatenate([labels for _, labels in callback.given])
    assert len(states) > 50
    known = states[:, 0, 2] > 0  # the observation after a reset has no information
    np.testing.assert_array_equal(states[known, 0, 0] > 0, won[known])


def test_fights_without_a_winner_are_left_out() -> None:
    model, callback = make_model(tied=1.0), Recorded()
    memory = remember(model)
    model.learn(2 * ROLLOUT, callback=callback)
    assert not callback.given and not [tag for tag in memory.dumps[1] if "win_rate" in tag]


def test_few_states_of_each_fight_and_none_twice() -> None:
    model, callback = make_model(), Recorded(max_steps_per_episode=2)
    model.learn(2 * ROLLOUT, callback=callback)
    (test, test_labels), (train, train_labels) = callback.given
    number = (len(test) + len(train)) / 2
    assert number == int(number) and len(test) == 2 * np.ceil(0.1 * number)  # nine in ten are to learn from
    assert len(test) == len(test_labels) and len(train) == len(train_labels)
    noise = np.concatenate([test, train])[:, 0, 1]
    assert len(set(noise[noise != 0].tolist())) == (noise != 0).sum()


def test_chosen_steps() -> None:
    rng = np.random.default_rng(0)
    fight = DecidedFight(env=0, start=3, stop=9, won=True)
    for _ in range(20):
        steps = sampled_steps(fight, 5, rng)
        assert len(set(steps.tolist())) == 5 and steps.min() >= 3 and steps.max() <= 8
    assert sampled_steps(fight, 6, rng).tolist() == sampled_steps(fight, None, rng).tolist() == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("outcomes", ["WWLWLLWWW", "WWW", ""])
def test_balanced_fights(outcomes: str) -> None:
    fights = [DecidedFight(i, 0, 1, outcome == "W") for i, outcome in enumerate(outcomes)]
    kept = balanced(fights)
    fewest = min(outcomes.count("W"), outcomes.count("L"))
    assert [sum(fight.won == won for fight in kept) for won in (True, False)] == [fewest, fewest]
    assert kept == [fight for fight in fights if fight in kept]


def test_balance_reaches_the_data() -> None:
    model, callback = make_model(), Recorded(balance_outcomes=True, max_steps_per_episode=1)
    model.learn(2 * ROLLOUT, callback=callback)
    labels = np.concatenate([labels for _, labels in callback.given])
    assert labels.sum() == (~labels).sum() > 0


@pytest.mark.parametrize("algorithm", [PvpPPO, MaskablePPO])
def test_it_is_saved_with_the_model(algorithm: Any, tmp_path: Path) -> None:
    model = make_model(algorithm)
    model.learn(2 * ROLLOUT, callback=OutcomePredictorCallback())
    model.save(tmp_path / "fighter.zip")
    observation = duels().reset()
    expected = model.outcome_predictor.predict(observation)["WIN"]
    for loaded in (MaskablePPO.load(tmp_path / "fighter.zip"), sb3_pvp.load(tmp_path / "fighter.zip")):
        np.testing.assert_array_equal(loaded.outcome_predictor.predict(observation)["WIN"], expected)  # type: ignore[attr-defined]


def test_a_loaded_model_keeps_its_predictor(tmp_path: Path) -> None:
    model = make_model()
    model.learn(2 * ROLLOUT, callback=OutcomePredictorCallback(seed=5))
    model.save(tmp_path / "fighter.zip")
    states = []
    for loaded in (
        PvpPPO.load(tmp_path / "fighter.zip", env=duels()),
        PvpPPO.load(tmp_path / "fighter.zip", env=duels()),
    ):
        before = state_of(loaded.outcome_predictor)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(before, state_of(model.outcome_predictor))
        loaded.set_random_seed(0)
        loaded.learn(2 * ROLLOUT, callback=OutcomePredictorCallback(seed=9))
        states.append(state_of(loaded.outcome_predictor))  # type: ignore[attr-defined]
        assert (states[-1] != before).any()
    np.testing.assert_array_equal(*states)


def test_a_resumed_run_teaches_the_same(tmp_path: Path) -> None:
    straight = PvpPPO(AutoregressivePolicy, ResumableDuels([Duel] * 4), **SMALL)  # type: ignore[arg-type]
    straight.learn(5 * ROLLOUT, callback=OutcomePredictorCallback())
    stopped = PvpPPO(AutoregressivePolicy, ResumableDuels([Duel] * 4), **SMALL)  # type: ignore[arg-type]
    stopped.learn(3 * ROLLOUT, callback=OutcomePredictorCallback())
    stopped.save(tmp_path / "fighter.zip")
    resumed = PvpPPO.load(tmp_path / "fighter.zip", env=ResumableDuels([Duel] * 4))
    resumed.learn(2 * ROLLOUT, reset_num_timesteps=False, callback=OutcomePredictorCallback(seed=9))
    ours, theirs = (state_of(model.outcome_predictor) for model in (straight, resumed))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(ours, theirs)


def test_learning_is_not_disturbed() -> None:
    ours, theirs = (
        make_model().learn(3 * ROLLOUT, callback=callback).policy.state_dict()
        for callback in (None, OutcomePredictorCallback())
    )
    assert all(bool((ours[name] == theirs[name]).all()) for name in ours)


def test_what_does_not_fit_is_refused() -> None:
    for wrong in ({"batch_size": 0}, {"n_epochs": True}, {"max_steps_per_episode": -1}, {"test_size": 1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            OutcomePredictorCallback(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"info\['outcome'\]"):
        make_model(outcomes=False).learn(ROLLOUT, callback=OutcomePredictorCallback())
    model = make_model()
    model.outcome_predictor = OutcomePredictor((7,))
    with pytest.raises(ValueError, match=r"\(7,\), not \(2, 3\)"):
        model.learn(ROLLOUT, callback=OutcomePredictorCallback())
