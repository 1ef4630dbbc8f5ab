"""The average of the weights over the training: training stays the same, and the average is saved and plays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from ppo_games import GuessingGame
from sb3_contrib import MaskablePPO
from typer.testing import CliRunner

from sb3_pvp import MAPOCA, PvpPPO, load
from sb3_pvp.cli.app import app
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.model_files import is_stripped, save_weights, strip

ROLLOUT = 4 * 16
DECAY = 0.8


def new_model(policy: Any = AutoregressivePolicy, env: Any = None, **kwargs: Any) -> PvpPPO:
    settings: dict[str, Any] = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "seed": 3, "device": "cpu"}
    return PvpPPO(policy, env or GuessingGame(), **settings | kwargs)


def weights(model: PvpPPO) -> dict[str, th.Tensor]:
    return {name: part.detach().clone() for name, part in model.policy.named_parameters()}


def assert_equal(one: dict[str, th.Tensor], other: dict[str, th.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(th.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("policy", ["MultiInputPolicy", AutoregressivePolicy])
def test_training_is_the_same_to_the_bit(policy: Any) -> None:
    plain, averaged = (new_model(policy, **given).learn(5 * ROLLOUT) for given in ({}, {"ema_decay": DECAY}))
    assert_equal(dict(plain.policy.state_dict()), dict(averaged.policy.state_dict()))
    assert plain.average is None and averaged.average is not None


def test_it_is_the_average_of_the_weights_after_each_step_of_the_optimiser() -> None:
    model = new_model(ema_decay=DECAY)
    expected, seen = weights(model), []

    def follow(*_: object) -> None:
        seen.append(True)
        for name, part in weights(model).items():
            expected[name] = DECAY * expected[name] + (1 - DECAY) * part

    model.policy.optimizer.register_step_post_hook(follow)
    model.learn(4 * ROLLOUT)
    assert len(seen) == model.num_updates == 3 * 4
    assert model.average is not None
    th.testing.assert_close(model.average.weights(), expected)


def test_steps_that_a_callback_makes_count_too() -> None:
    """As those of `ExpertIterationCallback`, beside which nothing else may train."""
    model = new_model(ema_decay=DECAY, n_epochs=0)
    before = weights(model)
    model.policy.value_net.weight.grad = th.ones_like(model.policy.value_net.weight)  # type: ignore[union-attr]
    model.policy.optimizer.step()
    assert model.average is not None
    name, after = "value_net.weight", weights(model)
    expected = DECAY * before[name] + (1 - DECAY) * after[name]
    th.testing.assert_close(model.average.weights()[name], expected)
    assert not th.equal(before[name], after[name])


def test_a_run_that_was_saved_goes_on_with_the_same_average(tmp_path: Path) -> None:
    whole = new_model(ema_decay=DECAY).learn(4 * ROLLOUT)
    new_model(ema_decay=DECAY).learn(2 * ROLLOUT).save(tmp_path / "half")
    resumed = PvpPPO.load(tmp_path / "half", env=GuessingGame(seed=9))
    resumed.learn(2 * ROLLOUT, reset_num_timesteps=False)
    assert whole.average is not None and resumed.average is not None
    assert_equal(weights(whole), weights(resumed))
    assert_equal(whole.average.weights(), resumed.average.weights())


def test_the_averaged_policy_is_loaded_as_the_policy(tmp_path: Path) -> None:
    model = new_model(ema_decay=DECAY).learn(4 * ROLLOUT)
    assert model.average is not None
    model.save(tmp_path / "model")
    random_before = th.get_rng_state()
    loaded = PvpPPO.load(tmp_path / "model", average=True)
    assert th.equal(th.get_rng_state(), random_before)
    assert_equal(weights(loaded), model.average.weights())
    assert loaded.average is not None
    assert_equal(loaded.average.weights(), model.average.weights())
    for safe in (False, True):
        assert_equal(weights(load(tmp_path / "model.zip", safe=safe, average=True)), model.average.weights())
        assert_equal(weights(load(tmp_path / "model.zip", safe=safe)), weights(model))
    assert_equal(weights(PvpPPO.load(tmp_path / "model")), weights(model))
    assert_equal(dict(MaskablePPO.load(tmp_path / "model").policy.named_parameters()), weights(model))


def test_training_goes_on_from_the_averaged_policy_and_begins_an_average(tmp_path: Path) -> None:
    new_model(ema_decay=DECAY).learn(3 * ROLLOUT).save(tmp_path / "averaged")
    new_model().learn(3 * ROLLOUT).save(tmp_path / "plain")
    loaded = PvpPPO.load(tmp_path / "plain", env=GuessingGame(), ema_decay=0.5)
    assert loaded.average is not None
    assert_equal(loaded.average.weights(), weights(loaded))
    for model in (loaded, PvpPPO.load(tmp_path / "averaged", env=GuessingGame(), average=True)):
        before = weights(model)
        model.learn(2 * ROLLOUT, reset_num_timesteps=False)
        assert not th.equal(before["value_net.weight"], weights(model)["value_net.weight"])


def test_files_without_an_average_say_so(tmp_path: Path) -> None:
    model = new_model(ema_decay=DECAY).learn(2 * ROLLOUT)
    new_model().save(tmp_path / "plain")
    save_weights(model, tmp_path / "light.zip")
    model.save(tmp_path / "stripped")
    assert not is_stripped(tmp_path / "stripped.zip")
    strip(tmp_path / "stripped.zip")
    assert is_stripped(tmp_path / "stripped.zip")
    for name in ("plain", "light", "stripped"):
        for read in (PvpPPO.load, load):
            with pytest.raises(ValueError, match=rf"{name}.zip has no averaged policy: train with ema_decay"):
                read(tmp_path / f"{name}.zip", average=True)


def test_weights_are_exchanged_for_a_while() -> None:
    model = new_model(ema_decay=DECAY).learn(4 * ROLLOUT)
    assert model.average is not None
    seen = {"observation": np.random.default_rng(0).normal(size=(512, 4)).astype(np.float32)}
    masks = np.ones((512, 5), bool)
    before, own = model.policy.predict_values(model.policy.obs_to_tensor(seen)[0]), weights(model)
    chosen = model.predict(seen, action_masks=masks, deterministic=True)[0]
    with pytest.raises(EOFError), model.average.in_place():
        assert_equal(weights(model), model.average.weights())
        assert not th.equal(model.policy.predict_values(model.policy.obs_to_tensor(seen)[0]), before)
        model.predict(seen, action_masks=masks, deterministic=True)
        raise EOFError
    assert_equal(weights(model), own)
    assert (model.predict(seen, action_masks=masks, deterministic=True)[0] == chosen).all()


@pytest.mark.parametrize("decay", [1.0, -0.1, "0.9", True])
def test_wrong_decays(decay: Any) -> None:
    with pytest.raises(ValueError, match=r"^ema_decay must be a number from 0 to below 1, or None, got "):
        new_model(ema_decay=decay)


def test_teams_have_none() -> None:
    with pytest.raises(ValueError, match=r"^MAPOCA has no ema_decay: leave it out$"):
        MAPOCA("MAPOCAPolicy", GuessingGame(), ema_decay=0.9)  # type: ignore[arg-type]


def test_commands_take_the_averaged_policy(tmp_path: Path) -> None:
    env = NhVecEnv(8, seed=0)
    model = new_model(env=env, ema_decay=DECAY, policy_kwargs={"net_arch": [8]}).learn(3 * 8 * 16)
    assert model.average is not None
    model.save(path := tmp_path / "model.zip")
    out = tmp_path / "averaged.fighter"
    assert CliRunner().invoke(app, ["export", str(path), "--average", "--no-onnx", "-o", str(out)]).exit_code == 0
    assert_equal(weights(load(out)), model.average.weights())
    told = CliRunner().invoke(app, ["evaluate", str(path), "--average", "--episodes", "4", "--json", "--jobs", "1"])
    same = CliRunner().invoke(app, ["evaluate", str(out), "--episodes", "4", "--json", "--jobs", "1"])
    figures, expected = json.loads(told.stdout), json.loads(same.stdout)
    assert figures.pop("average") is True
    assert {**figures, "model": ""} == {**expected, "model": ""}
