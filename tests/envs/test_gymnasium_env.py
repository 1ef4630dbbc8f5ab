"""`NhEnv`: what Gymnasium and SB3 expect, ends of fights, and wrong input."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from stable_baselines3.common.env_checker import check_env as sb3_check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import sb3_pvp  # noqa: F401  (registers NhEnv)
from sb3_pvp.envs import NhEnv
from sb3_pvp.game import Outcome
from tests.envs.env_checks import check_pvp_env
from tests.envs.fake_world import FakeWorld, ending

NOTHING = np.zeros(12, np.int64)
STAB = np.array([3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])


def play(env: gym.Env[Any, Any], seed: int, ticks: int) -> list[Any]:
    """Observations and rewards of random legal actions."""
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    seen: list[Any] = [observation["observation"].tobytes(), info]
    for _ in range(ticks):
        mask = env.get_wrapper_attr("action_masks")()
        observation, reward, terminated, truncated, info = env.step(
            env.get_wrapper_attr("contract").random_action(mask, rng)
        )
        seen += [observation["observation"].tobytes(), observation["privileged"].tobytes(), reward, info]
        if terminated or truncated:
            seen.append(env.reset()[0]["observation"].tobytes())
    return seen


@pytest.mark.parametrize("opponent", ["baseline", "noop", "stayalive", "scripted"])
def test_it_passes_our_checker_with_every_opponent(opponent: str) -> None:
    check_pvp_env(NhEnv(opponent=opponent), ticks=150)


def test_it_passes_the_checker_of_sb3() -> None:
    sb3_check_env(NhEnv())


def test_it_is_registered_and_survives_gymnasium_s_wrappers() -> None:
    env = gym.make("NhEnv", opponent="scripted", reset_params={"accountBuild": "MED"})
    check_pvp_env(env, ticks=20)
    assert env.reset(seed=1)[1] == {"opponent": "scripted", "seed": 1, "build": "MED"}


@pytest.mark.parametrize("opponent", ["baseline", "scripted"])
def test_the_same_seed_gives_the_same_fights(opponent: str) -> None:
    params = {"randomizeGear": True, "randomizeBuild": True, "randomizeFightType": True}
    first, second = (NhEnv(opponent=opponent, reset_params=params) for _ in range(2))
    assert play(first, 5, 300) == play(second, 5, 300)
    assert play(first, 5, 20) != play(first, 6, 20)


def test_without_a_seed_fights_differ() -> None:
    assert play(NhEnv(), 5, 0) == play(NhEnv(), 5, 0)
    first, *others = (NhEnv(reset_params={"randomizeGear": True}).reset()[0]["observation"] for _ in range(5))
    # Two alone draw the same gear and place once in 75 times.
    assert not all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize(
    ("ends", "outcome", "terminated", "is_success", "reward"),
    [
        ((Outcome.WON, Outcome.LOST), "won", True, True, 1.0),
        ((Outcome.LOST, Outcome.WON), "lost", True, False, -1.0),
        ((Outcome.TIED, Outcome.TIED), "tied", True, False, -0.2),
        ((Outcome.TARGET_LOST, Outcome.DESYNC), "target_lost", False, None, 0.0),
        ((Outcome.DESYNC, Outcome.DESYNC), "desync", False, None, 0.0),
    ],
)
def test_every_end_is_reported(
    ends: tuple[Outcome, Outcome], outcome: str, terminated: bool, is_success: bool | None, reward: float
) -> None:
    env = NhEnv(opponent="noop", world=ending(ends, tick=2))
    env.reset(seed=0)
    _, _, ended, cut, info = env.step(NOTHING)
    assert (ended, cut, info["outcome"], "is_success" in info) == (False, False, "running", False)
    _, last, ended, cut, info = env.step(NOTHING)
    assert (ended, cut) == (terminated, not terminated)
    assert info["outcome"] == outcome
    assert info.get("is_success") is is_success
    assert last == pytest.approx(reward)
    assert info["episode_ticks"] == 2


def test_a_long_fight_is_truncated() -> None:
    env = NhEnv(opponent="noop", world=FakeWorld, max_episode_ticks=3)
    env.reset(seed=0)
    ends = [env.step(NOTHING)[2:] for _ in range(3)]
    assert [(terminated, truncated) for terminated, truncated, _ in ends] == [(False, False)] * 2 + [(False, True)]
    assert (ends[-1][2]["outcome"], ends[-1][2]["is_success"]) == ("timeout", False)


def test_rewards_are_the_sum_of_their_components() -> None:
    env = NhEnv(opponent="noop", world=FakeWorld, rewards={"damage_dealt": 1.0, "win": 2.0})
    env.reset(seed=0)
    total, ended = dict.fromkeys(["damage_dealt", "win"], 0.0), False
    while not ended:
        _, reward, ended, _, info = env.step(STAB)
        assert reward == pytest.approx(sum(info["rewards"].values()))
        total = {name: value + info["rewards"].get(name, 0.0) for name, value in total.items()}
    assert total["win"] == 2.0
    assert total["damage_dealt"] >= 1.0
    assert {name: info["episode_rewards"][name] for name in total} == pytest.approx(total)


def test_death_match_and_options_reach_the_world() -> None:
    env = NhEnv(opponent="baseline", world=FakeWorld, death_match=False)
    env.reset(seed=3, options={"training": False})
    expected = {"bots": (None, "baseline"), "death_match": False, "training": False, "seed": 3}
    assert env.fights.world.options[0] == expected
    env.reset()
    assert "seed" not in env.fights.world.options[0]
    assert env.fights.world.options[0]["bots"] == (None, "baseline")


def test_an_option_counts_for_one_fight_only() -> None:
    env = NhEnv(reset_params={"accountBuild": "ZERKER"})
    assert env.reset(seed=1, options={"reset_params": {"accountBuild": "MAXED"}})[1]["build"] == "MAXED"
    assert env.reset()[1]["build"] == "ZERKER"


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(11, np.int64), r"shape \(1, 12\)"),
        (np.zeros((1, 12), np.int64), "shape"),
        (3, "shape"),
        (np.zeros(12), "integers"),
        (np.full(12, np.nan), "integers"),
        (np.array([4] + [0] * 11), "head 'attack' has the actions 0 to 3, got 4"),
        (np.array([0] * 11 + [-1]), "head 'prayer' has the actions 0 to 5, got -1"),
        (None, "shape"),
        (["attack"] * 12, "integers"),
    ],
)
def test_wrong_actions_are_refused_and_change_nothing(action: Any, message: str) -> None:
    env, twin = NhEnv(opponent="scripted"), NhEnv(opponent="scripted")
    env.reset(seed=4)
    twin.reset(seed=4)
    with pytest.raises(ValueError, match=message):
        env.step(action)
    for ours, theirs in zip(env.step(STAB)[0].values(), twin.step(STAB)[0].values(), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("seed", [float("nan"), -1, 1.0, True, "1"])
def test_wrong_seeds_are_refused(seed: Any) -> None:
    with pytest.raises(ValueError, match="a seed must be a non-negative integer"):
        NhEnv(world=FakeWorld).reset(seed=seed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opponent": "basline"}, "unknown opponent 'basline' .*did you mean 'baseline'"),
        ({"opponent": 3}, "an opponent must be a name"),
        ({"world": "simm"}, "unknown world 'simm' .*did you mean 'sim'"),
        ({"world": "http://localhost:7070"}, "unknown world 'http://localhost:7070'.*rsps://host:port, sim"),
        ({"reset_params": {"accountBuild": "MEDD"}}, "MEDD.*MED"),
        ({"reset_params": {"accountBild": "MED"}}, "accountBild.*accountBuild"),
        ({"reset_params": 3}, "reset_params must be a mapping"),
        ({"rewards": {"wins": 1.0}}, "unknown reward 'wins'"),
        ({"max_episode_ticks": 0}, "max_episode_ticks"),
        ({"max_episode_ticks": 1.5}, "max_episode_ticks"),
        ({"death_match": "yes"}, "death_match"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NhEnv(**arguments)


@pytest.mark.parametrize("option", ["seed", "bots", "nonsense"])
def test_wrong_reset_options_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"unknown reset option '{option}'"):
        NhEnv().reset(seed=0, options={option: 1})


def test_steps_need_a_running_fight() -> None:
    env = NhEnv(opponent="noop", world=ending((Outcome.WON, Outcome.LOST), tick=1))
    with pytest.raises(ResetNeeded):
        env.step(NOTHING)
    env.reset(seed=0)
    env.step(NOTHING)
    with pytest.raises(ResetNeeded):
        env.step(NOTHING)


def test_sb3_s_monitor_and_evaluation_work() -> None:
    class Stabber:
        """Stabs, as an SB3 model would."""

        def predict(self, observation: Any, **_: Any) -> tuple[Any, None]:
            return np.tile(STAB, (len(observation["observation"]), 1)), None

    env = Monitor(NhEnv(opponent="noop", world=FakeWorld), info_keywords=("outcome",))
    rewards, lengths = evaluate_policy(Stabber(), env, n_eval_episodes=2, return_episode_rewards=True)
    assert len(rewards) == len(lengths) == 2
    assert min(rewards) >= 1.0


def test_closing_closes_the_world() -> None:
    env = NhEnv(world=FakeWorld)
    env.close()
    assert env.fights.world.closed
