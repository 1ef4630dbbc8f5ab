"""Each row has an opponent of its own: chosen one episode ahead, asked together, acting as alone."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sb3_pvp.envs import NhEnv, NhVecEnv, OpponentChoice, PvpVecEnv
from sb3_pvp.game import Outcome
from sb3_pvp.game.contract import load_contract
from sb3_pvp.policies.files.model_files import load_opponent
from tests.envs.fake_world import FakeWorld, ending
from tests.envs.test_env_state import assert_plain, play
from tests.game.team_game import CoinsForTwo
from tests.players.opponent_models import plain_model, random_model, saved

CONTRACT = load_contract("NhEnv")
NOTHING = np.zeros((1, CONTRACT.num_heads), np.int64)
VENG = CONTRACT.flat_index("use_veng")


class Witness:
    """Writes down what it is asked; its state counts the ticks since its seed."""

    name = "witness"

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def initial_state(self, seeds: Sequence[int]) -> NDArray[np.int64]:
        return np.array([[seed, 0] for seed in seeds], np.int64)

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: Any, action_masks: Any) -> Any:
        ticks = observation[:, CONTRACT.observation_index("special_energy_percent")].astype(int)
        call = {"state": state.copy(), "start": episode_start.copy(), "deterministic": deterministic}
        self.calls.append({**call, "ticks": ticks.tolist(), "masks": action_masks.copy(), "seen": observation.copy()})
        actions = np.zeros((len(observation), CONTRACT.num_heads), np.int64)
        actions[:, 1] = 1
        return actions, state + np.array([0, 1])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    made = {
        "a": random_model(0),
        "b": random_model(1),
        "stacking": random_model(2, frame_ages=(0, 2)),
        "deep": random_model(3, head_arch=[8]),
        "plain": plain_model(4),
    }
    return {name: saved(model, folder, name) for name, model in made.items()}


def mixed(models: dict[str, str]) -> list[OpponentChoice]:
    noise = {"adders": [{"indices": ["0:20"], "value": {"type": "expression", "expression": "normal(0, 0.5)"}}]}
    return [
        OpponentChoice("baseline"),
        OpponentChoice(models["a"], name="first"),
        OpponentChoice("scripted", delay_chance=0.3),
        OpponentChoice(models["b"], delay_chance=0.5),
        OpponentChoice(models["a"], deterministic=True),
        OpponentChoice(models["stacking"], delay_chance=0.2, noise=noise),
        OpponentChoice(models["deep"], action_mask_override={"forbid": ["use_veng"]}),
        OpponentChoice(models["plain"], reset_params={"accountBuild": "MAXED"}),
    ]


def test_mixed_opponents_act_as_they_do_alone(models: dict[str, str]) -> None:
    choices = mixed(models)
    together = NhVecEnv(len(choices), seed=5, max_episode_ticks=40)
    for row, choice in enumerate(choices):
        together.env_method("set_opponent", choice, indices=[row])
    alone = [NhEnv(opponent=choice, max_episode_ticks=40) for choice in choices]
    together.reset()
    names = [info["opponent"] for info in together.reset_infos]
    assert names == ["baseline", "first", "scripted", "b", "a", "stacking", "deep", "plain"]
    for row, env in enumerate(alone):
        assert env.reset(seed=5 + row)[1] == together.reset_infos[row]
    rng = np.random.default_rng(0)
    for _ in range(100):
        actions = CONTRACT.random_action(together.action_masks(), rng)
        _, rewards, dones, infos = together.step(actions)
        for row, env in enumerate(alone):
            _, reward, terminated, truncated, info = env.step(actions[row])
            assert dones[row] or np.array_equal(env.fights.actions[0, 1], together.fights.actions[row, 1])
            assert (reward, terminated or truncated) == (rewards[row], dones[row])
            if dones[row]:
                assert info.items() <= infos[row].items()
                env.reset()


def test_few_calls_are_made() -> None:
    witness, other = Witness(), Witness()
    env = NhVecEnv(6, world=FakeWorld, opponent=witness)
    env.env_method("set_opponent", OpponentChoice(other, deterministic=True), indices=[1, 4])
    env.env_method("set_opponent", OpponentChoice(other), indices=[2])
    env.env_method("set_opponent", "noop", indices=[5])
    env.reset()
    env.step(np.zeros((6, CONTRACT.num_heads), np.int64))
    assert [len(call["state"]) for call in witness.calls] == [2]
    assert [(call["deterministic"], call["state"][:, 0].tolist()) for call in other.calls] == [
        (False, [2]),
        (True, [1, 4]),
    ]
    assert env.fights.actions[:, 1, 1].tolist() == [1] * 5 + [0]


def test_an_opponent_comes_with_the_next_episode() -> None:
    env = NhVecEnv(2, world=ending((Outcome.WON, Outcome.LOST), tick=3), opponent="noop")
    env.reset()
    env.step(np.zeros((2, CONTRACT.num_heads), np.int64))
    env.env_method("set_opponent", OpponentChoice(Witness(), name="him"), indices=[1])
    told = []
    for _ in range(5):
        told += [info["opponent"] for info in env.step(np.zeros((2, CONTRACT.num_heads), np.int64))[3] if info]
    assert told == ["noop", "noop", "noop", "him"]
    assert [info["opponent"] for info in env.reset_infos] == ["noop", "him"]
    assert not any("seed" in info for info in env.reset_infos)


def test_a_newcomer_has_random_numbers_that_follow_from_the_seed() -> None:
    def first_states(seed: int) -> list[Any]:
        env, witness = (
            NhVecEnv(3, world=ending((Outcome.WON, Outcome.LOST), tick=2), opponent="noop", seed=seed),
            Witness(),
        )
        env.reset()
        env.env_method("set_opponent", witness)
        for _ in range(5):
            env.step(np.zeros((3, CONTRACT.num_heads), np.int64))
        assert [call["start"].any() for call in witness.calls] == [True, False, True]
        assert [call["state"][0, 1] for call in witness.calls] == [0, 1, 2]
        return witness.calls[0]["state"][:, 0].tolist()

    assert first_states(0) == first_states(0) != first_states(1)
    assert len(set(first_states(0))) == 3


def test_whoever_is_late_does_nothing_and_decides_by_what_was_seen_then() -> None:
    witness = Witness()
    env = NhVecEnv(4, world=FakeWorld, opponent=OpponentChoice(witness, delay_chance=0.5), seed=3)
    env.reset()
    late: list[list[bool]] = []
    for _ in range(200):
        env.step(np.zeros((4, CONTRACT.num_heads), np.int64))
        late.append((env.fights.actions[:, 1, 1] == 0).tolist())
    assert 0.4 < np.mean(late) < 0.6
    waiting = [0] * 4  # for how many ticks
    calls = iter(witness.calls)
    for tick, now in enumerate(late):
        acting = [row for row in range(4) if not now[row]]
        if acting:
            call = next(calls)
            assert call["ticks"] == [tick - waiting[row] for row in acting]
            # Masks are of this tick: the first attack can be made in even ones.
            assert (call["masks"][:, CONTRACT.flat_index("no_op_attack")] == (tick % 2 == 0)).all()
        waiting = [waiting[row] + 1 if now[row] else 0 for row in range(4)]
    assert next(calls, None) is None
    assert len({tuple(row) for row in np.transpose(late).tolist()}) == 4  # everybody has delays of his own


def test_a_delay_ends_with_the_episode() -> None:
    witness = Witness()
    world = ending((Outcome.WON, Outcome.LOST), tick=2)
    env = NhVecEnv(1, world=world, opponent=OpponentChoice(witness, delay_chance=0.7), seed=1)
    env.reset()
    for _ in range(60):
        env.step(NOTHING)
    # What was seen before an episode's start is never decided by, nor is the start told twice.
    assert {(call["ticks"][0], bool(call["start"][0])) for call in witness.calls} == {(0, True), (1, False)}


def test_deterministic_opponents_take_the_most_likely_choice(models: dict[str, str]) -> None:
    env = NhVecEnv(2, opponent=OpponentChoice(models["a"], deterministic=True))
    env.reset()
    play(env, 5)
    for _ in range(20):
        frames, masks = env.fights.world.obs[:, 1, np.newaxis].copy(), env.fights.world.masks[:, 1].copy()
        play(env, 1)
        states, starts = np.zeros(2, np.uint64), np.zeros(2, bool)
        expected, _ = load_opponent(models["a"]).predict(frames, states, starts, True, masks)
        if (env.fights.length > 0).all():
            assert np.array_equal(env.fights.actions[:, 1], expected)


def test_overrides_concern_the_opponent_s_seat_only() -> None:
    witness = Witness()
    noise = {"adders": [{"indices": [0], "value": 5.0}]}
    override = {"forbid": ["use_veng"]}
    choice = OpponentChoice(witness, noise=noise, action_mask_override=override, reset_params={"accountBuild": "MAXED"})
    env = NhVecEnv(2, world=FakeWorld, opponent=witness, reset_params={"accountBuild": "MED", "randomizeGear": True})
    env.env_method("set_opponent", choice, indices=[1])
    env.reset()
    observation, *_ = env.step(np.zeros((2, CONTRACT.num_heads), np.int64))
    (call,) = witness.calls
    assert (call["seen"][1] - call["seen"][0])[0] == 5.0
    assert call["masks"][:, VENG].tolist() == [True, False]
    assert observation["action_mask"][:, VENG].all() and not observation["observation"][:, 0, 0].any()
    world: Any = env.fights.world
    assert "seat_reset_params" not in world.options[0]
    own = {"accountBuild": "MED", "randomizeGear": True}
    assert world.options[1]["seat_reset_params"] == (own, {**own, "accountBuild": "MAXED"})


def test_reset_params_of_a_seat_are_refused_by_worlds_that_know_none() -> None:
    choice = OpponentChoice("noop", reset_params={"strength": 2})
    with pytest.raises(ValueError, match="CoinsForTwoWorld has no seat_reset_params"):
        PvpVecEnv(2, choice, game=CoinsForTwo)
    env = PvpVecEnv(2, game=CoinsForTwo)
    with pytest.raises(ValueError, match="CoinsForTwoWorld has no seat_reset_params"):
        env.env_method("set_opponent", choice)
    env.reset()


def test_fight_params_concern_both_seats() -> None:
    witness, params = Witness(), {"accountBuild": "PURE"}
    env = NhVecEnv(3, world=FakeWorld, opponent=witness, reset_params={"accountBuild": "MED", "randomizeGear": True})
    for row, own in ((1, {}), (2, {"reset_params": {"accountBuild": "MAXED"}})):
        env.env_method("set_opponent", OpponentChoice(witness, fight_params=params, **own), indices=[row])
    env.reset()
    world: Any = env.fights.world
    assert "reset_params" not in world.options[0] and world.options[1]["reset_params"] == params
    assert world.options[2]["seat_reset_params"] == (params, {"accountBuild": "MAXED"})


def test_restored_rows_go_on_bit_for_bit(models: dict[str, str]) -> None:
    def make(seed: int) -> NhVecEnv:
        return NhVecEnv(8, seed=seed, max_episode_ticks=15)

    env, other = make(0), make(9)
    for row, choice in enumerate(mixed(models)):
        env.env_method("set_opponent", choice, indices=[row])
    env.reset()
    play(env, 20)
    env.env_method("set_opponent", OpponentChoice(models["b"], delay_chance=0.2), indices=[0, 2, 5])
    state = pickle.loads(pickle.dumps(env.get_state()))
    assert_plain(state)
    expected = play(env, 50)
    other.set_state(state)
    assert play(other, 50) == expected
    play(other, 30)
    other.set_state(state)
    assert play(other, 50) == expected


def test_objects_are_put_back_where_they_are_known() -> None:
    env, other, third = (NhVecEnv(2, opponent="noop") for _ in range(3))
    env.env_method("set_opponent", Witness(), indices=[1])
    env.reset()
    state = env.get_state()
    with pytest.raises(ValueError, match="has the opponent 'witness', an object that is not here"):
        other.set_state(state)
    third.env_method("set_opponent", Witness(), indices=[0])
    third.set_state(state)
    assert [third.fights.opponents.current[row].name for row in range(2)] == ["noop", "witness"]


def test_a_model_that_is_gone_or_another_one_is_refused(tmp_path: Path) -> None:
    path = saved(random_model(0), tmp_path, "model")
    env = NhVecEnv(1)
    env.env_method("set_opponent", path)
    env.reset()
    state = env.get_state()
    saved(random_model(1), tmp_path, "model")
    with pytest.raises(ValueError, match="'model' has changed since"):
        env.set_state(state)
    Path(path).unlink()
    with pytest.raises(ValueError, match="gone: There is no model file"):
        env.set_state(state)


@pytest.mark.parametrize("vec_env", [DummyVecEnv, SubprocVecEnv])
def test_other_vectorised_environments_have_the_same_face(models: dict[str, str], vec_env: Any) -> None:
    envs = [vec_env([NhEnv] * 2), NhVecEnv(2)]
    for env in envs:
        env.env_method("set_opponent", OpponentChoice(models["a"], name="main@5"), indices=[1])
        env.seed(4)
        env.reset()
    rng = np.random.default_rng(0)
    for _ in range(12):
        actions = CONTRACT.random_action(envs[1].action_masks(), rng)
        results = [env.step(actions) for env in envs]
        assert np.array_equal(results[0][1], results[1][1])
    assert [env.reset_infos[1]["opponent"] for env in envs] == ["main@5"] * 2
    for env in envs:
        env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opponent": "noop", "delay_chance": 1.5}, "delay_chance must be a number from 0 to 1"),
        ({"opponent": "noop", "deterministic": 1}, "deterministic must be true or false"),
        ({"opponent": "noop", "name": ""}, "name must be a text or None, got ''"),
        ({"opponent": "noop", "reset_params": 3}, "reset_params must be a mapping"),
        ({"opponent": "noop", "fight_params": 3}, "fight_params must be a mapping"),
        ({"opponent": "baseline", "delay_chance": 0.5}, "delay_chance is for opponents that act"),
        ({"opponent": "self", "deterministic": True}, "deterministic is for opponents that act"),
        ({"opponent": "self", "reset_params": {}}, "both seats have the reset_params of the environment"),
        ({"opponent": "self", "fight_params": {}}, "both seats have the reset_params of the environment"),
        ({"opponent": "nobody"}, "unknown opponent 'nobody'"),
        ({"opponent": "noop", "noise": {"wrong": 1}}, "noise must be"),
        ({"opponent": "noop", "action_mask_override": {"forbid": ["fly"]}}, "fly"),
    ],
)
def test_bad_choices_are_refused_and_change_nothing(arguments: dict[str, Any], message: str) -> None:
    env = NhVecEnv(2, opponent="noop")
    with pytest.raises(ValueError, match=message):
        env.env_method("set_opponent", OpponentChoice(**arguments))
    env.reset()
    assert [info["opponent"] for info in env.reset_infos] == ["noop", "noop"]


def test_actions_that_are_no_integers_are_refused() -> None:
    class Vague(Witness):
        def predict(self, *given: Any) -> Any:
            actions, state = super().predict(*given)
            return actions + 0.7, state

    env = NhVecEnv(2, opponent=Vague(), world=FakeWorld)
    env.reset()
    with pytest.raises(ValueError, match="actions of an opponent must be integers, got array"):
        env.step(np.zeros((2, CONTRACT.num_heads), np.int64))
