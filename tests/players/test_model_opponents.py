"""Models in the other seat: they decide as the model does, and leave everybody else's random numbers alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from numpy.typing import NDArray
from sb3_contrib import TRPO, MaskablePPO
from stable_baselines3.common.vec_env import SubprocVecEnv

from sb3_pvp import PvpPPO
from sb3_pvp.common.random_words import uniforms, words_from_seeds
from sb3_pvp.envs import NhEnv, NhVecEnv
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.players.opponents import opponent_name
from sb3_pvp.policies.files import model_files as loading
from sb3_pvp.policies.files.model_files import load_opponent, model_opponent
from tests.envs.test_env_state import play
from tests.games.osrs.remote.served import logged_in, world_server
from tests.players.opponent_models import plain_model, random_model, saved

CONTRACT = load_contract("NhEnv")
MAKERS: list[Callable[[], MaskablePPO]] = [
    lambda: random_model(0),
    lambda: random_model(1, head_arch=[8], features_arch=[12], activation="tanh"),
    lambda: random_model(2, autoregressive=False, future_masks=True, normalize_observations=False),
    lambda: random_model(3, frame_ages=(0, 3)),
    lambda: plain_model(4),
]


def situations(model: MaskablePPO, count: int = 40) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Frames and masks from the middle of fights."""
    frames = model.observation_space["observation"].shape[0]  # type: ignore[index]
    env = NhVecEnv(count, frame_ages=frames, opponent="scripted")
    env.reset()
    play(env, 9)
    masks = env.fights.action_masks()
    starts = CONTRACT.head_offsets[:-1]  # stock MaskablePPO has wrong log-probabilities for heads without any choice
    masks[:, starts] |= ~np.logical_or.reduceat(masks, starts, axis=1)
    return env.fights.observation()["observation"], masks


@pytest.mark.parametrize("make", MAKERS)
def test_greedy_actions_are_those_of_the_model(make: Callable[[], MaskablePPO]) -> None:
    model = make()
    frames, masks = situations(model)
    seen = {"observation": frames, "action_mask": masks.astype(np.int8)}
    seen["privileged"] = np.zeros((len(frames), *model.observation_space["privileged"].shape), np.float32)  # type: ignore[index]
    expected, _ = model.predict(seen, deterministic=True, action_masks=masks)
    opponent, starts = model_opponent(model), np.zeros(len(frames), bool)
    actions, _ = opponent.predict(frames, opponent.initial_state(range(len(frames))), starts, True, masks)
    assert np.array_equal(actions, expected)
    assert len(np.unique(actions, axis=0)) > 3


@pytest.mark.parametrize("make", [MAKERS[0], MAKERS[1], MAKERS[4]])
def test_samples_have_the_distribution_of_the_model(make: Callable[[], MaskablePPO]) -> None:
    model, count = make(), 6000
    frames, masks = (part[:1] for part in situations(model))
    repeated = np.repeat(frames, count, 0), np.repeat(masks, count, 0)
    states, starts = words_from_seeds(range(count), 3), np.zeros(count, bool)
    actions, _ = model_opponent(model).predict(repeated[0], states, starts, False, repeated[1])
    shown = {"observation": th.as_tensor(frames), "action_mask": th.as_tensor(masks)}
    shown["privileged"] = th.zeros(1, *model.observation_space["privileged"].shape)  # type: ignore[index]
    kinds, counts = np.unique(actions, axis=0, return_counts=True)
    with th.no_grad():
        together = {key: part.expand(len(kinds), *part.shape[1:]) for key, part in shown.items()}
        _, log_probs, _ = model.policy.evaluate_actions(together, th.as_tensor(kinds), np.repeat(masks, len(kinds), 0))  # type: ignore[arg-type]
    expected = log_probs.exp().numpy()
    spread = np.sqrt(expected * (1 - expected) / count)
    assert (np.abs(counts / count - expected) < 5 * spread + 2 / count).all()
    assert counts.max() < count


def test_numbers_for_heads_are_uniform() -> None:
    numbers, following = uniforms(words_from_seeds(range(2000), 1), 12)
    assert numbers.dtype == np.float32 and (numbers >= 0).all() and (numbers < 1).all()
    assert abs(numbers.mean() - 1 / 2) < 0.01 and abs(numbers.var() - 1 / 12) < 0.005
    assert abs(np.corrcoef(numbers[:, 0], numbers[:, 1])[0, 1]) < 0.1
    again, _ = uniforms(following, 12)
    assert not np.isin(again[0], numbers[0]).any()


def test_a_file_and_its_model_are_the_same_opponent(tmp_path: Path) -> None:
    model = random_model(0)
    path = saved(model, tmp_path, "main_640_steps")
    model.learn(2)  # statistics only
    copied = shutil.copy(path, tmp_path / "other.zip")
    first = load_opponent(path)
    assert load_opponent(copied) is first and load_opponent(Path(path).with_suffix("")) is first
    assert model_opponent(PvpPPO.load(path)) is first
    assert opponent_name(path) == "main_640_steps"
    env = NhVecEnv(2, opponent=path)
    env.reset()
    assert env.reset_infos[0]["opponent"] == "main_640_steps"


def test_a_file_is_read_again_only_if_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(random_model(0), tmp_path, "model")
    first = load_opponent(path)
    with monkeypatch.context() as patch:
        patch.setattr("sb3_pvp.policies.files.model_files.read", None)
        assert load_opponent(path) is first
    saved(random_model(1), tmp_path, "model")
    assert load_opponent(path) is not first


def test_a_file_without_optimiser_is_the_same_opponent(tmp_path: Path) -> None:
    model = random_model(0)
    whole = saved(model, tmp_path, "whole")
    model.save(tmp_path / "light", exclude=["training_state", "policy.optimizer"])
    assert load_opponent(tmp_path / "light.zip") is load_opponent(whole)


def test_a_model_object_is_taken_as_it_is() -> None:
    model = random_model(0)
    env = NhVecEnv(3, opponent=model)
    same = NhVecEnv(3, opponent=model)
    with th.no_grad():
        for parameter in model.policy.parameters():
            parameter.zero_()
    env.reset()
    same.reset()
    assert play(env, 60) == play(same, 60)
    changed = NhVecEnv(3, opponent=model)
    changed.reset()
    assert play(changed, 60) != play(same, 60)


def test_models_that_somebody_uses_are_there_once(tmp_path: Path) -> None:
    path = saved(random_model(0), tmp_path, "model")
    used = load_opponent(path)
    loading._read_opponent.cache_clear()  # as if many others had been read since
    assert load_opponent(path) is used


@pytest.mark.parametrize("opponent", ["path", "object"])
def test_a_fight_alone_goes_like_the_same_fight_among_others(tmp_path: Path, opponent: str) -> None:
    model = random_model(5, frame_ages=(0, 2))
    given: Any = saved(model, tmp_path, "model") if opponent == "path" else model
    together, rng = NhVecEnv(4, opponent=given, seed=7), np.random.default_rng(0)
    alone = [NhEnv(opponent=given) for _ in range(4)]
    together.reset()
    for i, env in enumerate(alone):
        env.reset(seed=7 + i)
    for _ in range(80):
        actions = CONTRACT.random_action(together.action_masks(), rng)
        _, rewards, dones, _ = together.step(actions)
        for i, env in enumerate(alone):
            _, reward, terminated, truncated, _ = env.step(actions[i])
            assert (reward, terminated or truncated) == (rewards[i], dones[i])
            if dones[i]:
                env.reset()


def test_nobody_else_s_random_numbers_are_drawn(tmp_path: Path) -> None:
    path = saved(random_model(0), tmp_path, "model")
    before = th.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    env = NhVecEnv(2, opponent=path)
    env.reset()
    play(env, 20)
    assert th.equal(th.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # type: ignore[index]  # noqa: NPY002


def test_a_restored_environment_goes_on_bit_for_bit(tmp_path: Path) -> None:
    path = saved(random_model(0, frame_ages=(0, 2)), tmp_path, "model")
    env, other = (NhVecEnv(3, opponent=path, max_episode_ticks=25, seed=seed) for seed in (0, 9))
    env.reset()
    play(env, 30)
    state = env.get_state()
    expected = play(env, 60)
    other.set_state(state)
    assert play(other, 60) == expected


def test_models_fight_on_a_server(tmp_path: Path) -> None:
    path = saved(random_model(0), tmp_path, "model")
    with world_server(SimWorld) as port:
        env = NhVecEnv(3, opponent=path, world=f"rsps://127.0.0.1:{port}")
        env.reset()
        acted = [play(env, 3) and env.fights.actions[:, 1].any() for _ in range(8)]
        assert any(acted)
        env.close()
        assert logged_in(port) == []


def test_workers_are_told_by_path(tmp_path: Path) -> None:
    path = saved(random_model(0), tmp_path, "model")
    workers = SubprocVecEnv([lambda: NhEnv(opponent=path)] * 2)
    workers.seed(3)
    workers.reset()
    here = NhVecEnv(2, opponent=path, seed=3)
    here.reset()
    rng = np.random.default_rng(0)
    for _ in range(15):
        actions = CONTRACT.random_action(here.action_masks(), rng)
        assert np.array_equal(here.step(actions)[1], workers.step(actions)[1])
    workers.close()


class Renamed(gym.ObservationWrapper[Any, Any, Any]):
    def __init__(self, env: NhEnv) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Dict({"other": env.observation_space["observation"]})

    def observation(self, observation: Any) -> Any:
        return {"other": observation["observation"]}


class TestRefusals:
    def refused(self, opponent: Any, contract: str = "NhEnv", error: type[Exception] = ValueError) -> str:
        with pytest.raises(error) as caught:
            NhVecEnv(2, opponent=opponent, contract=contract)
        return str(caught.value)

    def test_no_model(self, tmp_path: Path) -> None:
        assert "no model file" in self.refused(str(tmp_path / "none.zip"), error=FileNotFoundError)
        (tmp_path / "text.zip").write_text("hello")
        assert "is not a model" in self.refused(tmp_path / "text.zip")
        assert "must be a name, a path" in self.refused(3)

    def test_another_algorithm(self) -> None:
        env = gym.make("NhEnv")
        assert "no attribute 'algorithm'" in self.refused(TRPO("MultiInputPolicy", env, n_steps=2, batch_size=2))

    def test_another_game(self, tmp_path: Path) -> None:
        path = saved(random_model(0), tmp_path, "nh")
        message = self.refused(path, contract="DharokEnv")
        assert "another game" in message and "DharokEnv" in message

    def test_other_observations(self) -> None:
        model = MaskablePPO("MultiInputPolicy", Renamed(NhEnv()), n_steps=2, batch_size=2)
        assert "not frames of features" in self.refused(model)
