"""Learning with bfloat16: what is rounded and what is not, the automatic choice, and exact resume."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch as th
from ppo_games import GuessingGame, mean_reward

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.ppo.update import read_buffer
from sb3_pvp.policies import AutoregressivePolicy, networks
from sb3_pvp.policies.networks import MIN_SPEEDUP, MIN_WIDTH, bf16_speedup, learning_in, resolve_precision

CPU = th.device("cpu")
NETWORK = {"net_arch": [32], "head_arch": [[16], []]}
SETTINGS: dict[str, Any] = {"n_steps": 16, "batch_size": 32, "seed": 3, "device": "cpu", "policy_kwargs": NETWORK}


def new_model(env: Any = None, policy: Any = AutoregressivePolicy, **kwargs: Any) -> PvpPPO:
    return PvpPPO(policy, env or GuessingGame(), **(SETTINGS | kwargs))


def wide_policy(width: int) -> Any:
    return new_model(policy_kwargs={"net_arch": [width, width]}).policy


def test_results_and_gradients_are_close_to_those_of_float32_and_float32_themselves() -> None:
    model = new_model().learn(3 * 64)
    samples, policy = read_buffer(model.rollout_buffer), model.policy
    policy.set_training_mode(True)

    def evaluate(name: str) -> tuple[th.Tensor, ...]:
        with learning_in(name, CPU):
            results = policy.evaluate_heads(samples.observations, samples.actions, samples.action_masks)
        loss = sum(part.square().mean() for part in results)
        gradients = th.autograd.grad(loss, list(policy.parameters()))
        assert all(part.dtype == th.float32 for part in gradients)
        return *(part.detach() for part in results), th.cat([part.flatten() for part in gradients])

    exact, rounded = evaluate("fp32"), evaluate("bf16")
    assert all(part.dtype == th.float32 for part in rounded)
    for one, other in zip(rounded, exact, strict=True):
        assert 0 < float((one - other).norm()) <= 0.02 * float(other.norm())


def test_hidden_layers_are_rounded_while_learning_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[str, bool, th.dtype]] = set()

    def record(name: str) -> None:
        method = getattr(AutoregressivePolicy, name)

        def recorded(policy: AutoregressivePolicy, features: th.Tensor) -> th.Tensor:
            result: th.Tensor = method(policy, features)
            seen.add((name, policy.training, result.dtype))
            return result

        monkeypatch.setattr(AutoregressivePolicy, name, recorded)

    record("_actor_latent")
    record("values_of")
    model = new_model(precision="bf16")
    policy = model.policy
    model.learn(3 * 64)
    assert seen == {
        ("_actor_latent", True, th.bfloat16),
        ("_actor_latent", False, th.float32),
        ("values_of", True, th.float32),
        ("values_of", False, th.float32),
    }
    states = model.policy.optimizer.state.values()
    stored = [*policy.state_dict().values(), *(part for state in states for part in state.values())]
    assert {part.dtype for part in stored if part.is_floating_point()} <= {th.float32, th.float64}


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_continues_exactly(tmp_path: Path, name: str) -> None:
    new_model(precision=name).learn(2 * 64).save(tmp_path / "half")
    whole = new_model(precision=name).learn(4 * 64)
    continued = PvpPPO.load(tmp_path / "half", env=GuessingGame(seed=99), device="cpu")
    continued.learn(2 * 64, reset_num_timesteps=False)
    assert continued.precision == name
    mine, yours = whole.policy.state_dict(), continued.policy.state_dict()
    assert all(mine[key].equal(yours[key]) for key in mine)


@pytest.mark.parametrize(("speedup", "expected"), [(MIN_SPEEDUP + 0.01, "bf16"), (MIN_SPEEDUP - 0.01, "fp32")])
def test_the_choice_is_saved_with_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speedup: float, expected: str
) -> None:
    wide = {"policy_kwargs": {"net_arch": [MIN_WIDTH, MIN_WIDTH]}}
    monkeypatch.setattr(networks, "bf16_speedup", lambda *_: speedup)
    model = new_model(**wide)
    assert model.precision == "auto"
    model.learn(2 * 64).save(tmp_path / "half")
    assert model.precision == expected
    whole = new_model(precision=expected, **wide).learn(4 * 64)
    monkeypatch.setattr(networks, "bf16_speedup", lambda *_: pytest.fail("it was measured again"))
    continued = PvpPPO.load(tmp_path / "half", env=GuessingGame(seed=99), device="cpu")
    continued.learn(2 * 64, reset_num_timesteps=False)
    mine, yours = whole.policy.state_dict(), continued.policy.state_dict()
    assert continued.precision == expected and all(mine[key].equal(yours[key]) for key in mine)


def test_narrow_layers_and_other_policies_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "bf16_speedup", lambda *_: 10.0)
    assert resolve_precision("auto", wide_policy(MIN_WIDTH - 1)) == "fp32"
    assert resolve_precision("auto", wide_policy(MIN_WIDTH)) == "bf16"
    wide = {"policy_kwargs": {"net_arch": [MIN_WIDTH, MIN_WIDTH]}}
    assert resolve_precision("auto", new_model(policy="MultiInputPolicy", **wide).policy) == "fp32"


def test_the_measurement_is_done_once_and_leaves_the_random_generators_alone() -> None:
    state = th.get_rng_state()
    speedup = bf16_speedup(64, 64, CPU)
    assert 0 < speedup < 100 and bf16_speedup(64, 64, CPU) == speedup
    assert th.get_rng_state().equal(state)
    assert not th.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: new_model(precision="bf61"),
            "unknown precision 'bf61' .did you mean 'bf16'... Known: auto, bf16, fp32",
        ),
        (
            lambda: new_model(policy="MultiInputPolicy", precision="bf16", policy_kwargs={}),
            "precision='bf16' needs an AutoregressivePolicy, not MaskableMulti.*; use 'fp32'",
        ),
    ],
)
def test_a_wrong_precision_is_one_clear_error(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.slow
def test_learns_the_game_with_bfloat16() -> None:
    model = new_model(
        GuessingGame(num_envs=16),
        precision="bf16",
        policy_kwargs={"net_arch": [64, 64], "head_arch": [[16], []]},
        n_steps=64,
        batch_size=256,
        n_epochs=4,
        learning_rate=3e-3,
        gamma=0.5,
    )
    model.learn(12 * 1024)
    assert mean_reward(model) > 1.3  # by chance 0.6, at best 1.5
