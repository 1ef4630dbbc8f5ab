"""Models whose training used modules that are not on this machine: they play, and training says what is missing."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.torch_layers import FlattenExtractor

from sb3_pvp import MAPOCA, DreamerV3, PvpPPO, load
from sb3_pvp.algorithms.dreamer.sizes import ModelSize
from sb3_pvp.algorithms.mapoca import MAPOCAPolicy
from sb3_pvp.common.schedules import Function
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.model_files import load_opponent
from tests.policies.files.numbers_game import GAME, Flat

LACKS = r"cannot be trained on here.*No module named 'my_training'"
TINY = ModelSize(deter=16, hidden=8, units=8, classes=4, depth=2, stoch=4, blocks=4, layers=1, bins=41)
SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "seed": 0, "device": "cpu"}
NET: dict[str, Any] = {"net_arch": [8]}


def fall(t: float) -> float:
    return 0.1 / (1 + t)


class Sgd(th.optim.SGD):
    def __init__(self, params: Any, lr: float = 0.1, factor: Any = None) -> None:
        super().__init__(params, lr)


class Rows(MaskableDictRolloutBuffer):
    pass


class Seen(FlattenExtractor):
    pass


class Note(dict):  # type: ignore[type-arg]
    pass


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module of the user's with all of the above; ``del sys.modules`` of it, and nobody can import it."""
    module = types.ModuleType("my_training")
    for each in (fall, Sgd, Rows, Seen, Note):
        named: Any = each
        monkeypatch.setattr(named, "__module__", module.__name__)
        setattr(module, named.__name__, named)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    yield module


def forgotten(module: types.ModuleType) -> None:
    del sys.modules[module.__name__]


def fights(**settings: Any) -> PvpVecEnv:
    return PvpVecEnv(2, game=GAME, opponent="any", seed=0, **settings)


def actions(model: Any) -> Any:
    seen = {"observation": np.ones((1, 1, 3), np.float32), "action_mask": np.ones((1, 4), np.int8)}
    space = model.observation_space
    given = {key: seen[key] for key in space.spaces} if isinstance(space, spaces.Dict) else np.ones((1, 3), np.float32)
    return model.predict(given, deterministic=True)[0]


def masked(mine: types.ModuleType) -> PvpPPO:
    kwargs = {**NET, "optimizer_class": mine.Sgd, "optimizer_kwargs": {"factor": mine.fall}}
    schedules = {"learning_rate": Function(mine.fall), "ent_coef": Function(mine.fall)}
    model = PvpPPO(AutoregressivePolicy, fights(), policy_kwargs=kwargs, **schedules, **SMALL)  # type: ignore[arg-type]
    model.rollout_buffer_class = mine.Rows
    model.learn(16)
    model.ep_info_buffer.append(mine.Note())  # type: ignore[union-attr]
    model._last_obs = mine.Note(model._last_obs)
    return model


def stock(mine: types.ModuleType) -> PPO:
    """Its learning rate is a function that SB3 calls with the remaining progress."""
    return PPO("MlpPolicy", Flat(), learning_rate=mine.fall, clip_range=mine.fall, policy_kwargs=NET, **SMALL).learn(16)


def by_value(mine: types.ModuleType) -> DQN:
    model = DQN("MlpPolicy", Flat(), learning_rate=mine.fall, buffer_size=20, policy_kwargs=NET, device="cpu")
    model.replay_buffer_kwargs = {"note": mine.Note(sizes=np.ones(1))}
    return model


@pytest.mark.parametrize("make", [masked, stock, by_value])
def test_nothing_of_training_has_to_be_importable_to_play(make: Any, mine: types.ModuleType, tmp_path: Path) -> None:
    model, path = make(mine), tmp_path / "model.zip"
    model.save(path)
    expected = actions(load(path))
    forgotten(mine)
    assert np.array_equal(actions(load(path)), expected)
    assert load_opponent(path).head_sizes == (4,)


def test_teams_and_world_models_play_without_it_too(mine: types.ModuleType, tmp_path: Path) -> None:
    env = PvpVecEnv(2, game="SoccerTwos-v0", opponent="self", seed=0)
    team = MAPOCA(MAPOCAPolicy, env, n_steps=8, batch_size=8, learning_rate=Function(mine.fall), policy_kwargs=NET)  # type: ignore[arg-type]
    team.save(tmp_path / "team.zip")
    world_model = DreamerV3("MultiInputPolicy", fights(), policy_kwargs={"size": TINY}, buffer_size=2000, device="cpu")
    world_model.ep_info_buffer = mine.Note(lengths=np.ones(1))
    world_model.save(tmp_path / "dreamer.zip")
    forgotten(mine)
    assert load(tmp_path / "team.zip").num_timesteps == 0 and load(tmp_path / "dreamer.zip").num_timesteps == 0
    for kind, file, own in ((MAPOCA, "team.zip", env), (DreamerV3, "dreamer.zip", fights())):
        with pytest.raises(ValueError, match=LACKS) as error:
            kind.load(tmp_path / file, own)
        assert "\n" not in str(error.value)
        model = kind.load(tmp_path / file)  # to play
        model.set_env(own)
        with pytest.raises(ValueError, match=LACKS):
            model.learn(8)


def test_a_model_that_lacks_parts_plays_and_is_not_trained(mine: types.ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    masked(mine).save(path)
    expected = actions(PvpPPO.load(path))
    forgotten(mine)
    model = PvpPPO.load(path)  # as rl-zoo3's enjoy does
    assert np.array_equal(actions(model), expected) and "my_training" in str(model.missing)
    model.set_env(fights())
    with pytest.raises(ValueError, match=LACKS):
        model.learn(16)
    model.save(tmp_path / "again.zip")  # nor is a copy of it
    with pytest.raises(ValueError, match=LACKS):
        PvpPPO.load(tmp_path / "again.zip", fights()).learn(16)
    replaced = dict.fromkeys(("_last_obs", "ep_info_buffer", "rollout_buffer_class"))
    whole = replaced | {"schedules": {}, "policy_kwargs": NET | {"optimizer_class": th.optim.SGD}}
    assert PvpPPO.load(path, fights(), custom_objects=whole).learn(16).num_timesteps == 16


def test_what_a_policy_consists_of_is_named_if_it_is_missing(mine: types.ModuleType, tmp_path: Path) -> None:
    PPO("MlpPolicy", Flat(), policy_kwargs={**NET, "features_extractor_class": mine.Seen}, **SMALL).save(
        tmp_path / "model.zip"
    )
    forgotten(mine)
    with pytest.raises(ValueError, match="model.zip is not a model of PPO: its policy_kwargs cannot be read") as error:
        load(tmp_path / "model.zip")
    assert "No module named 'my_training'" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("gone", ["module", "function"])
def test_training_on_names_in_one_line_what_is_missing(gone: str, mine: types.ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    masked(mine).save(path)
    if gone == "module":
        forgotten(mine)
    else:  # SB3 would go on without the schedule, after a warning
        del mine.fall
    with pytest.raises(ValueError, match=r"model.zip cannot be trained on here.*schedules \(.*my_training") as error:
        PvpPPO.load(path, fights())
    assert "\n" not in str(error.value)


class _Part:
    """What a callback of the user's keeps between two rollouts."""

    def __init__(self, note: Any) -> None:
        self.note = note

    def get_state(self) -> Any:
        return self.note


def test_a_training_state_that_cannot_be_read_is_one_line(mine: types.ModuleType, tmp_path: Path) -> None:
    model = PvpPPO(AutoregressivePolicy, fights(), policy_kwargs=NET, **SMALL).learn(16)
    model.resumable_parts = {"mine": _Part(mine.Note())}
    model.save(tmp_path / "model.zip")
    forgotten(mine)
    loaded = PvpPPO.load(tmp_path / "model.zip", fights())
    with pytest.raises(ValueError, match="training state .* cannot be read here: No module named 'my_training'"):
        loaded.learn(16, reset_num_timesteps=False)
    again = PvpPPO.load(tmp_path / "model.zip", fights(), custom_objects={"training_state": None})
    assert again.learn(16, reset_num_timesteps=False).num_timesteps == 32
