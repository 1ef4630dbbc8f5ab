"""Noise on the learner's own observations (training.md §10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sb3_pvp.common.random_words import RandomWords, words_from_seeds
from sb3_pvp.envs import NhEnv, NhVecEnv, OpponentChoice, PvpVecEnv
from sb3_pvp.game.contract import load_contract
from sb3_pvp.players.seats import ObservationNoise
from tests.envs.fake_world import FakeWorld
from tests.envs.planes_game import PICTURE, PICTURE_GAME

CONTRACT = load_contract("NhEnv")
NOTHING = np.zeros((3, CONTRACT.num_heads), np.int64)
GAUSSIAN = {"type": "expression", "expression": "normal(0, 0.1)"}


def adders(*pairs: tuple[list[Any], Any]) -> dict[str, Any]:
    return {"adders": [{"indices": indices, "value": value} for indices, value in pairs]}


def added(noise: ObservationNoise, words: NDArray[np.uint64] | None = None) -> NDArray[np.float32]:
    """What is added in two fights; ``words`` are overwritten by those that come next."""
    zeros, given = np.zeros((2, CONTRACT.num_observations), np.float32), words_from_seeds(range(2), 2)
    words = given if words is None else words
    result, words[:] = noise.add(zeros, words)
    assert not zeros.any()
    return result


def test_positions_ranges_and_ids_get_the_number_once() -> None:
    noise = ObservationNoise(adders(([3, "2:5", "player_health_percent"], 0.5), ([4], 1)), CONTRACT)
    expected = np.zeros(CONTRACT.num_observations)
    expected[[2, 3, 4, CONTRACT.observation_index("player_health_percent")]] = [0.5, 0.5, 1.5, 0.5]
    assert np.array_equal(added(noise), [expected, expected])


def test_schedules_follow_the_trained_rollouts() -> None:
    linear = {"type": "linear", "initial-value": 0.0, "final-value": 1.0, "change-over-time-steps": 10}
    noise = ObservationNoise(adders(([0], linear)), CONTRACT)
    assert added(noise)[:, 0].tolist() == [0, 0]
    noise.set_trained_rollouts(5)
    assert added(noise)[:, 0].tolist() == [0.5, 0.5]


def test_an_adder_draws_one_number_per_tick_and_fight() -> None:
    noise = ObservationNoise(adders((["0:10"], GAUSSIAN), ([20], GAUSSIAN)), CONTRACT)
    words = words_from_seeds(range(2), 2)
    first, second = added(noise, words), added(noise, words)
    assert (first[:, :10] == first[:, :1]).all()
    assert len({*first[:, 0], *first[:, 20], *second[:, 0], *second[:, 20]}) == 8
    assert not first[:, 10:20].any()
    assert not first[:, 21:].any()


def test_chance_may_come_and_go_with_time() -> None:
    noise = ObservationNoise(adders(([0], {"type": "jump", "jumps": {0: 0.5, 10: GAUSSIAN, 20: 1}})), CONTRACT)
    words = words_from_seeds(range(2), 2)
    assert added(noise, words)[:, 0].tolist() == [0.5, 0.5]
    assert np.array_equal(words, words_from_seeds(range(2), 2))  # what does not draw leaves the random numbers alone
    noise.set_trained_rollouts(10)
    assert len(set(added(noise)[:, 0])) == 2
    noise.set_trained_rollouts(20)
    assert added(noise)[:, 0].tolist() == [1, 1]


def test_random_words_draw_the_distributions_that_they_are_named_after() -> None:
    draws = RandomWords(words_from_seeds(range(20_000), 2))
    flat, gaussian = draws.random(), draws.normal(2.0, 3.0)
    assert (flat.min() >= 0, flat.max() < 1) == (True, True)
    assert np.isfinite(gaussian).all()
    assert flat.mean() == pytest.approx(0.5, abs=0.02)
    assert np.corrcoef(flat, gaussian)[0, 1] == pytest.approx(0, abs=0.03)
    assert gaussian.mean() == pytest.approx(2, abs=0.1)
    assert gaussian.std() == pytest.approx(3, abs=0.1)
    assert (np.abs(gaussian - 2) < 3).mean() == pytest.approx(0.6827, abs=0.02)


EXPRESSIONS = ["normal(0, 1)", "random() - 0.5", "1 if random() < 0.5 else normal(0, min(random(), t + 0.1))"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("frame_ages", [(0,), (0, 2)])
def test_fight_i_gets_the_noise_of_a_single_env_with_seed_plus_i(expression: str, frame_ages: tuple[int, ...]) -> None:
    noise = adders((["0:176"], {"type": "expression", "expression": expression}), ([5], GAUSSIAN))
    settings: dict[str, Any] = {"noise": noise, "frame_ages": frame_ages, "max_episode_ticks": 9, "world": FakeWorld}
    vec, singles = NhVecEnv(3, seed=40, **settings), [NhEnv(**settings) for _ in range(3)]
    together, alone = vec.reset(), [env.reset(seed=40 + i)[0] for i, env in enumerate(singles)]
    for tick in range(30):
        for i in range(3):
            assert np.array_equal(together["observation"][i], alone[i]["observation"]), (tick, i)
        together, _, dones, infos = vec.step(NOTHING)
        alone = [env.step(NOTHING[0])[0] for env in singles]
        for i in np.flatnonzero(dones):
            assert np.array_equal(infos[i]["terminal_observation"]["observation"], alone[i]["observation"])
            alone[i] = singles[i].reset()[0]
    assert len(np.unique(together["observation"][:, 0, 0])) > 1


@pytest.mark.parametrize("opponent", ["baseline", "scripted"])
def test_noise_touches_the_own_frames_and_nothing_else(opponent: str) -> None:
    plain = NhVecEnv(3, opponent, seed=1, frame_ages=(0, 1))
    noisy = NhVecEnv(3, opponent, seed=1, frame_ages=(0, 1), noise=adders((["0:176"], GAUSSIAN)))
    clear, blurred = plain.reset(), noisy.reset()
    for _ in range(20):
        fresh = blurred["observation"][:, 0] - clear["observation"][:, 0]
        assert (np.ptp(fresh, axis=1) < 1e-4).all()  # one number for all
        assert (np.abs(fresh[:, 0]) > 0).all()
        for key in ("privileged", "action_mask"):
            assert np.array_equal(clear[key], blurred[key])
        (clear, *_), (blurred, *_) = plain.step(NOTHING), noisy.step(NOTHING)
        assert np.allclose(blurred["observation"][:, 1] - clear["observation"][:, 1], fresh, atol=1e-4)
        assert np.array_equal(plain.fights.actions, noisy.fights.actions)  # the opponent sees clearly


def test_frames_before_the_start_stay_zero() -> None:
    env = NhEnv(world=FakeWorld, frame_ages=(0, 1), noise=adders((["0:176"], 1)))
    observation, _ = env.reset(seed=0)
    assert observation["observation"][0].all()
    assert not observation["observation"][1].any()


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ([], "noise must be"),
        ({}, "noise must be"),
        ({"adders": 3}, "noise must be"),
        ({"adders": [], "more": 1}, "noise must be"),
        ({"adders": [{"indices": [1]}]}, "noise must be"),
        (adders(([], 1)), "noise must be"),
        (adders(("0:3", 1)), "noise must be"),  # type: ignore[arg-type]
        (adders(([176], 1)), "observations 0 to 175, got 176"),
        (adders(([-1], 1)), "observations 0 to 175, got -1"),
        (adders((["3:3"], 1)), "observations 0 to 175, got '3:3'"),
        (adders((["170:177"], 1)), "observations 0 to 175"),
        (adders(([True], 1)), "noise must be"),
        (adders((["player_health"], 1)), "did you mean 'player_health_percent'"),
        (adders(([1], "much")), "must be a finite number, got 'much'"),
        (adders(([1], True)), "must be a finite number"),
        (adders(([1], float("inf"))), "must be a finite number"),
        (adders(([1], {"type": "line"})), "unknown schedule type 'line'"),
    ],
)
def test_bad_noise_is_refused(noise: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NhEnv(world=FakeWorld, noise=noise)


@pytest.mark.parametrize(("value", "ends"), [(10, {10, 255}), (-10, {0, 245})])
def test_pixels_stay_within_their_range(value: int, ends: set[int]) -> None:
    seen: list[Any] = []

    class Seer:
        def initial_state(self, seeds: Any) -> Any:
            return np.zeros(len(seeds))

        def predict(self, observation: Any, state: Any, start: Any, deterministic: bool, masks: Any) -> Any:
            seen.append(observation)
            return masks.argmax(1)[:, np.newaxis], state

    noise = adders(([f"0:{np.prod(PICTURE)}"], value))
    env = PvpVecEnv(2, OpponentChoice(Seer(), noise=noise), game=PICTURE_GAME, noise=noise)
    looks = [env.reset()["observation"]]
    for _ in range(3):
        looks.append(env.step(env.action_masks().argmax(1)[:, np.newaxis])[0]["observation"])
    assert {*np.unique(looks).tolist()} == {*np.unique(seen).tolist()} == ends
