"""Evaluation against fixed opponents."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chosen_duel import ChosenDuel, chosen_duels
from logged import remember
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from docs.metrics_page import is_documented
from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import LeagueCallback, SelfPlayCallback, WinRateEvalCallback
from sb3_pvp.callbacks.base import shared_league
from sb3_pvp.callbacks.evaluations import strongest
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.players.league import MatchRecord, Player

ROLLOUT = 8 * 16


def evaluation_env() -> DummyVecEnv:
    return DummyVecEnv([lambda: Monitor(ChosenDuel())] * 3)


def new_model(folder: Path, env: Any = None) -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    model = PvpPPO("MultiInputPolicy", env or chosen_duels(8), device="cpu", seed=1, **settings)
    model.run_folder = folder
    return model


def rows_of(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "win_rates.csv").read_text().splitlines()))


def test_each_opponent_gets_its_number_of_fights(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    memory = remember(model)
    opponents = ["noop", "stayalive", "main@0", "main@99", "best"]
    evaluation = WinRateEvalCallback(opponents, eval_freq=2, n_eval_episodes=10, env=evaluation_env())
    model.learn(3 * ROLLOUT, callback=[LeagueCallback(), SelfPlayCallback(past=0.5), evaluation])
    rows = rows_of(tmp_path)
    assert [int(row["rollouts"]) for row in rows if row["opponent"] == "noop"] == [0, 2, 3]
    assert {row["opponent"] for row in rows} == {"noop", "stayalive", "main_0", "best"}
    for row in rows:
        rates = [float(row[name]) for name in ("win_rate_low", "win_rate", "win_rate_high")]
        assert row["fights"] == "10" and 0 <= rates[0] <= rates[1] <= rates[2] + 1e-9
        assert float(row["win_rate"]) + float(row["lose_rate"]) == pytest.approx(1)
        assert 5 <= float(row["mean_episode_length"]) <= 8
    tags = {tag for dump in memory.dumps for tag in dump if tag.startswith("eval/")}
    assert {"eval/noop/win_rate", "eval/main_0/win_rate_low", "eval/best/mean_episode_reward"} <= tags
    assert all(map(is_documented, tags))
    assert memory.dumps[-1]["eval/noop/win_rate"] == float(rows[-4]["win_rate"])


def test_the_learner_is_rated_by_opponents_of_known_strength(tmp_path: Path) -> None:
    model = new_model(tmp_path)
    memory = remember(model)
    ratings, env = {"noop": 1400, "stayalive": 1700}, evaluation_env()
    opponents = ["noop", "stayalive", "scripted"]
    model.learn(ROLLOUT, callback=WinRateEvalCallback(opponents, 1, 40, env=env, ratings=ratings))
    found = next(dump for dump in memory.dumps if "eval/elo" in dump)
    won = {name: found[f"eval/{name}/win_rate"] for name in ratings}
    assert 0 < sum(won.values()) < 2, "or the rating says only how strong the prior is"
    # The most likely rating is expected to score what it has; the prior is worth much less than 80 fights.
    expected = sum(1 / (1 + 10 ** ((rating - found["eval/elo"]) / 400)) for rating in ratings.values())
    assert expected == pytest.approx(sum(won.values()), abs=0.02)
    assert found["eval/elo_low"] < found["eval/elo"] < found["eval/elo_high"]
    assert all(map(is_documented, ("eval/elo", "eval/elo_low", "eval/elo_high")))


def test_fights_that_take_too_long_are_ties_in_a_rating_too(tmp_path: Path) -> None:
    model = new_model(tmp_path, NhVecEnv(8, max_episode_ticks=3))
    memory = remember(model)
    model.learn(ROLLOUT, callback=WinRateEvalCallback("noop", n_eval_episodes=4, n_envs=4, ratings={"noop": 1400}))
    assert {row["tie_rate"] for row in rows_of(tmp_path)} == {"1.0"}
    assert memory.dumps[0]["eval/elo"] == pytest.approx(1400, abs=10)


def test_a_checkpoint_may_have_a_rating(tmp_path: Path) -> None:
    model = new_model(tmp_path, NhVecEnv(8, max_episode_ticks=3))
    memory = remember(model)
    model.save(file := tmp_path / "main_1024_steps.zip")
    evaluation = WinRateEvalCallback(file, n_eval_episodes=1, n_envs=1, ratings={str(file): 1400})
    model.learn(ROLLOUT, callback=evaluation)
    assert "eval/elo" in memory.dumps[0]


@pytest.mark.parametrize(
    ("ratings", "message"),
    [({"nop": 1400}, "did you mean 'noop'"), ({"noop": "strong"}, "the rating of noop must be")],
)
def test_refuses_ratings_that_say_nothing(ratings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WinRateEvalCallback("noop", ratings=ratings)


@pytest.mark.slow
def test_the_training_is_the_same_with_it(tmp_path: Path) -> None:
    weights = []
    for folder, evaluations in (("with", [WinRateEvalCallback("noop", 1, 5, env=evaluation_env())]), ("without", [])):
        model = new_model(tmp_path / folder)
        model.learn(3 * ROLLOUT, callback=[LeagueCallback(), SelfPlayCallback(past=0.5), *evaluations])
        weights.append([tensor.numpy() for tensor in model.policy.state_dict().values()])
    assert all(map(np.array_equal, *weights))


def test_a_repeated_evaluation_replaces_the_earlier_one(tmp_path: Path) -> None:
    def train(model: Any) -> None:
        callback = WinRateEvalCallback(["noop"], eval_freq=1, n_eval_episodes=2, env=evaluation_env())
        model.learn(ROLLOUT, callback=callback, reset_num_timesteps=False)

    model = new_model(tmp_path)
    train(model)
    model.save(tmp_path / "model.zip")
    train(model)
    again = type(model).load(tmp_path / "model.zip", env=model.get_env())
    again.run_folder = tmp_path
    train(again)
    assert [int(row["rollouts"]) for row in rows_of(tmp_path)] == [0, 1, 2]


def test_two_of_them_have_one_table(tmp_path: Path) -> None:
    def train(model: Any, rollouts: int) -> None:
        noop, walker = (
            WinRateEvalCallback(name, eval_freq=freq, n_eval_episodes=2, env=evaluation_env())
            for name, freq in (("noop", 1), ("stayalive", 2))
        )
        model.learn(rollouts * ROLLOUT, callback=[noop, walker], reset_num_timesteps=False)

    model = new_model(tmp_path)
    train(model, 2)
    model.save(tmp_path / "model.zip")
    train(model, 2)
    again = type(model).load(tmp_path / "model.zip", env=model.get_env())
    again.run_folder = tmp_path
    train(again, 1)
    found = [(int(row["rollouts"]), row["opponent"]) for row in rows_of(tmp_path)]
    noops, walkers = [(number, "noop") for number in (0, 1, 2, 3)], [(number, "stayalive") for number in (0, 2, 3)]
    assert sorted(found) == sorted(noops + walkers) and [each[0] for each in found] == sorted(each[0] for each in found)


def test_so_does_one_of_a_run_that_resumes_from_the_middle_of_a_rollout(tmp_path: Path) -> None:
    def evaluation() -> WinRateEvalCallback:
        return WinRateEvalCallback(["noop"], eval_freq=1, n_eval_episodes=2, env=evaluation_env())

    model = new_model(tmp_path)
    model.learn(2 * ROLLOUT, callback=[evaluation(), CheckpointCallback(20, str(tmp_path))])
    again = PvpPPO.load(tmp_path / f"rl_model_{20 * 8}_steps.zip", env=chosen_duels(8), device="cpu")
    again.run_folder = tmp_path
    again.learn(2 * ROLLOUT - 20 * 8, callback=evaluation(), reset_num_timesteps=False)
    assert [(row["rollouts"], int(row["steps"])) for row in rows_of(tmp_path)] == [
        (str(rollout), rollout * ROLLOUT) for rollout in range(3)
    ]


class StopInRollout(BaseCallback):
    """Ends the training in the fourth rollout."""

    def _on_step(self) -> bool:
        return self.n_calls <= 3 * 16


def test_a_training_that_ends_in_a_rollout_has_its_last_evaluation(tmp_path: Path) -> None:
    evaluation = WinRateEvalCallback(["noop"], eval_freq=2, n_eval_episodes=2, env=evaluation_env())
    new_model(tmp_path).learn(9 * ROLLOUT, callback=[evaluation, StopInRollout()])
    assert [int(row["rollouts"]) for row in rows_of(tmp_path)] == [0, 2, 3]


def test_an_environment_like_that_of_training_is_made(tmp_path: Path) -> None:
    env = NhVecEnv(4, opponent="noop", max_episode_ticks=40, frame_ages=2)
    model = PvpPPO("MultiInputPolicy", env, n_steps=8, batch_size=32, policy_kwargs={"net_arch": [8]})
    model.run_folder = tmp_path
    callback = WinRateEvalCallback(["baseline", "noop"], n_eval_episodes=3, n_envs=2)
    model.learn(8 * 4, callback=callback)
    assert [row["opponent"] for row in rows_of(tmp_path)] == ["baseline", "noop"] * 2
    assert all(float(row["mean_episode_length"]) <= 40 for row in rows_of(tmp_path))


def test_the_best_of_the_league_is_best_for_certain(tmp_path: Path) -> None:
    league = shared_league(new_model(tmp_path), None)
    assert strongest(league) is None
    old, lucky, bot = Player("main", 1), Player("main", 2), Player("baseline")
    for player in (old, lucky):
        league.add(player, lambda path: path.write_bytes(b"model"))
    won = [(old, n < 45) for n in range(50)] + [(lucky, True)]
    records = [
        MatchRecord(player, bot, "won" if is_won else "lost", None, None, 9, True, 0.0, f"key/{number}")
        for number, (player, is_won) in enumerate(won)
    ]
    league.log.append(records)
    assert strongest(league) == old


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opponents": []}, "opponents must be names of bots, paths of models, or 'best'"),
        ({"opponents": 3}, "opponents must be names of bots, paths of models, or 'best'"),
        ({"opponents": ["noop", None]}, "opponents must be names of bots, paths of models, or 'best'"),
        ({"deterministic": "a"}, "deterministic must be true or false, got 'a'"),
        ({"eval_freq": 0}, "eval_freq must be a positive integer"),
        ({"n_eval_episodes": True}, "n_eval_episodes must be a positive integer"),
    ],
)
def test_refuses_impossible_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WinRateEvalCallback(**arguments)


def test_other_games_need_an_environment(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pass an env to the callback"):
        new_model(tmp_path).learn(ROLLOUT, callback=WinRateEvalCallback())


def test_the_nearest_opponent_is_named(tmp_path: Path) -> None:
    model = new_model(tmp_path, NhVecEnv(8, max_episode_ticks=20))
    with pytest.raises(ValueError, match="unknown opponent 'basline'.*did you mean 'baseline'"):
        model.learn(ROLLOUT, callback=WinRateEvalCallback("basline"))


@pytest.mark.parametrize("background", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_averaged_policy_is_evaluated_beside_the_policy(tmp_path: Path, background: bool) -> None:
    """A policy that learns to hit is compared with an average that has hardly moved from the first weights."""
    env = chosen_duels(8) if not background else NhVecEnv(8, seed=0)
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    model = PvpPPO("MultiInputPolicy", env, device="cpu", seed=1, ema_decay=0.999, **settings)
    model.run_folder, memory = tmp_path, remember(model)
    given: dict[str, Any] = {"eval_freq": 2, "n_eval_episodes": 10, "background": background}
    given |= {"opponents": "baseline"} if background else {"opponents": "noop", "env": evaluation_env()}
    own, averaged = WinRateEvalCallback(**given), WinRateEvalCallback(**given, average=True)
    model.learn(2 * ROLLOUT, callback=[own, averaged])
    name = str(given["opponents"])
    assert {row["opponent"] for row in rows_of(tmp_path)} == {name}
    average_rows = [*csv.DictReader((tmp_path / "average_win_rates.csv").read_text().splitlines())]
    assert {row["opponent"] for row in average_rows} == {f"average_{name}"}
    tags = {tag for dump in memory.dumps for tag in dump if tag.startswith("eval/")}
    assert {f"eval/{name}/win_rate", f"eval/average_{name}/win_rate"} <= tags
    assert all(map(is_documented, [*tags, "eval/average_elo"]))


def test_without_an_average_there_is_none_to_evaluate(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no averaged policy to evaluate: train a PvpPPO with ema_decay"):
        new_model(tmp_path).learn(ROLLOUT, callback=WinRateEvalCallback(env=evaluation_env(), average=True))
