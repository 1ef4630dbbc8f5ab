"""Statistics of whole fights, against the same sums over every tick as it was seen."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fight_metrics import random_records

from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.envs.measures import STATISTICS, EpisodeStatistics
from sb3_pvp.game import Outcome, Transition
from sb3_pvp.games.osrs import NH
from sb3_pvp.games.osrs.meta_fields import OPTIONAL_FIELDS

N = 5
VALUES = EpisodeStatistics(N, NH.metrics).names
FLAGS = {name: flag for flag, names in OPTIONAL_FIELDS.items() for name in names}


def random_actions(env: NhVecEnv, rng: np.random.Generator) -> Any:
    return np.stack([env.fights.contract.random_action(mask, rng) for mask in env.action_masks()])


def summary(values: list[float]) -> dict[str, float]:
    functions = (len, np.sum, np.mean, np.min, np.max, np.std)
    return {name: float(of(values)) for name, of in zip(STATISTICS, functions, strict=True)}


class Notes:
    """The values of each fight's ticks, as lists."""

    def __init__(self) -> None:
        self.values: list[dict[str, list[float]]] = [defaultdict(list) for _ in range(N)]

    def write(self, tick: Transition, reward: Any) -> None:
        for fight in range(N):
            if tick.outcome[fight] >= Outcome.TARGET_LOST:
                continue
            for name in VALUES[:-1]:
                if name not in FLAGS or tick.report[FLAGS[name]][fight]:
                    self.values[fight][name].append(float(tick.report[name][fight]))
            self.values[fight]["reward"].append(float(reward[fight]))

    def of(self, fight: int) -> dict[str, dict[str, float]]:
        each = {name: summary(values) for name, values in self.values[fight].items()}
        return {statistic: {name: each[name][statistic] for name in each} for statistic in STATISTICS}


def assert_same(found: dict[str, dict[str, float]], expected: dict[str, dict[str, float]]) -> None:
    assert found.keys() == expected.keys()
    for statistic, values in expected.items():
        assert found[statistic] == pytest.approx(values, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_they_are_those_of_all_ticks_of_an_episode(seed: int, ticks: int) -> None:
    rng = np.random.default_rng(seed)
    statistics, notes = EpisodeStatistics(N, NH.metrics), Notes()
    for left in reversed(range(ticks)):
        over = rng.random(N) < 0.2
        outcome = np.where(over, rng.integers(0, 6, N), 0).astype(np.uint8)
        tick = Transition(random_records(rng), np.zeros(0), np.ones(N, bool), outcome)
        reward = rng.normal(size=N).astype(np.float32)
        statistics.end_tick(tick, reward)
        notes.write(tick, reward)
        for fight in np.flatnonzero(over) if left else range(N):
            assert_same(statistics.of_episode(fight), notes.of(fight))
        statistics.begin(np.flatnonzero(over))
        for fight in np.flatnonzero(over):
            notes.values[fight].clear()


def test_the_info_of_an_end_has_them() -> None:
    env, rng = NhVecEnv(N, max_episode_ticks=40, episode_statistics=True), np.random.default_rng(0)
    env.reset()
    notes, ended = Notes(), 0
    for _ in range(120):
        _, _, dones, infos = env.step(random_actions(env, rng))
        notes.write(env.fights.tick, env.fights.tick.outcome * 0)
        for fight in range(N):
            assert ("episode_statistics" in infos[fight]) == dones[fight]
            if dones[fight]:
                ended += 1
                found, expected = infos[fight]["episode_statistics"], notes.of(fight)
                assert found["count"]["reward"] == infos[fight]["episode"]["l"]
                assert found["sum"]["reward"] == pytest.approx(infos[fight]["episode"]["r"], abs=1e-5)
                for values in (*found.values(), *expected.values()):
                    values.pop("reward")
                assert_same(found, expected)
                notes.values[fight].clear()
    assert ended >= 10


def test_a_single_environment_has_them_too() -> None:
    env = NhEnv(max_episode_ticks=3, episode_statistics=True)
    env.reset(seed=1)
    infos = [env.step(env.contract.random_action(env.action_masks(), env.np_random))[4] for _ in range(3)]
    assert ["episode_statistics" in info for info in infos] == [False, False, True]
    assert infos[2]["episode_statistics"]["count"]["distance"] == 3


def test_they_continue_in_a_restored_environment() -> None:
    def last_statistics(env: NhVecEnv, rng: np.random.Generator) -> dict[str, Any]:
        infos: list[dict[str, Any]] = [{}]
        while not infos[0]:
            infos = env.step(random_actions(env, rng))[3]
        statistics: dict[str, Any] = infos[0]["episode_statistics"]
        return statistics

    env, rng = NhVecEnv(N, max_episode_ticks=30, episode_statistics=True), np.random.default_rng(3)
    env.reset()
    for _ in range(10):
        env.step(random_actions(env, rng))
    other = NhVecEnv(N, max_episode_ticks=30, episode_statistics=True, seed=7)
    other.reset()
    other.set_state(env.get_state())
    same = np.random.default_rng(4), np.random.default_rng(4)
    assert last_statistics(other, same[0]) == last_statistics(env, same[1])


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="episode_statistics must be true or false, got 'yes'"):
        NhVecEnv(2, episode_statistics="yes")
