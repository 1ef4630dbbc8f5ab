"""Gradient accumulation, the first rollout, greedy batches and schedules (training.md §5, §6.1, §7)."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from ppo_games import GuessingGame, mean_reward
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.ppo.update import PpoUpdate, read_buffer
from sb3_pvp.common.schedules import Jump, Linear
from sb3_pvp.policies import AutoregressivePolicy


def learned(
    steps: int = 64, policy: Any = "MultiInputPolicy", env: Any = None, callback: Any = None, **kwargs: Any
) -> PvpPPO:
    settings = {"n_steps": 16, "n_epochs": 1, "seed": 3, "device": "cpu"} | kwargs
    return PvpPPO(policy, env or GuessingGame(), **settings).learn(steps, callback)


def parameters(model: PvpPPO) -> th.Tensor:
    return th.cat([part.detach().flatten() for part in model.policy.parameters()])


@pytest.mark.parametrize(("width", "expected"), [(256, 1), (257, 3)])
def test_small_networks_learn_with_one_thread(width: int, expected: int) -> None:
    before, seen = th.get_num_threads(), []

    def watch(*_: Any) -> bool:
        seen.append(th.get_num_threads())
        if len(seen) == 64 // 4 + 1:
            raise EOFError
        return True

    th.set_num_threads(3)
    try:
        model = PvpPPO(AutoregressivePolicy, GuessingGame(), n_steps=16, policy_kwargs={"net_arch": [width, 8]})
        model.learn(64, watch)
        assert (set(seen), th.get_num_threads()) == ({expected}, 3)
        with pytest.raises(EOFError):
            model.learn(64, watch)
        assert (set(seen), th.get_num_threads()) == ({expected}, 3)
    finally:
        th.set_num_threads(before)


class Picture(gymnasium.Env[Any, Any]):
    """A game that is seen as pixels."""

    observation_space, action_space = spaces.Box(0, 255, (36, 36, 1), np.uint8), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}

    def action_masks(self) -> Any:
        return np.ones(2, bool)


@pytest.mark.parametrize("given", [1, 3])  # by --num-threads or OMP_NUM_THREADS
def test_convolutions_learn_with_all_threads_and_act_with_one(given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before, acting, learning, run = th.get_num_threads(), [], [], PpoUpdate.run

    def watch(*args: Any, **kwargs: Any) -> Any:
        learning.append(th.get_num_threads())
        return run(*args, **kwargs)

    monkeypatch.setattr(PpoUpdate, "run", watch)
    th.set_num_threads(given)
    try:
        small = {"features_extractor_kwargs": {"features_dim": 8}}
        model = PvpPPO("CnnPolicy", Picture(), n_steps=8, batch_size=8, n_epochs=1, policy_kwargs=small, device="cpu")
        model.policy.register_forward_hook(lambda *_: acting.append(th.get_num_threads()))
        model.learn(16)
        assert (acting, learning, th.get_num_threads()) == ([1] * 16, [given] * 2, given)
    finally:
        th.set_num_threads(before)


def test_accumulated_gradients_are_those_of_one_large_batch() -> None:
    one = learned(batch_size=64, normalize_advantage=False)
    four = learned(batch_size=16, normalize_advantage=False, gradient_accumulation_steps=4)
    assert one.num_updates == four.num_updates == 1
    th.testing.assert_close(parameters(one), parameters(four), rtol=1e-4, atol=1e-6)
    assert not th.allclose(parameters(one), parameters(learned(batch_size=16, normalize_advantage=False)), atol=1e-6)


def test_accumulation_goes_across_epochs_and_drops_the_rest() -> None:
    # Batches of 24, 24 and 16 steps in 3 epochs: 9, of which 4 pairs.
    model = learned(batch_size=24, n_epochs=3, gradient_accumulation_steps=2)
    assert model.num_updates == 4
    assert all(part.grad is None for part in model.policy.parameters())
    model.learn(64, reset_num_timesteps=False)
    assert model.num_updates == 8


def test_the_last_batch_may_be_a_single_step() -> None:
    assert th.isfinite(parameters(learned(batch_size=63))).all()


def test_numbers_of_a_short_run() -> None:
    """The acceptance numbers of the original (training.md §15)."""
    env = GuessingGame(num_envs=10)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=128, batch_size=64, n_epochs=1, device="cpu")
    before = parameters(model).clone()
    model.learn(1280)
    assert th.equal(parameters(model), before), "the first rollout only collects statistics"
    assert (model.trained_rollouts, model.num_updates) == (1, 0)
    assert model.policy.has_statistics
    model.learn(1280, reset_num_timesteps=False)
    assert (model.num_timesteps, model.trained_rollouts, model.num_updates) == (2560, 2, 20)
    assert not th.equal(parameters(model), before)


class Watch(BaseCallback):
    """Records whether each step's actions were greedy, and attributes at the start of each rollout."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names, self.greedy, self.seen = names, [], []

    def _on_rollout_start(self) -> None:
        self.seen.append(tuple(getattr(self.model, name) for name in self.names))

    def _on_step(self) -> bool:
        policy, now = self.model.policy, self.locals
        likely = policy._predict(now["obs_tensor"], deterministic=True, action_masks=now["action_masks"])
        self.greedy.append(bool((likely.numpy() == now["actions"]).all()))
        return True


@pytest.mark.parametrize(("eps_greedy", "low", "high"), [(0.0, 0.0, 0.05), (0.5, 0.35, 0.65), (1.0, 1.0, 1.0)])
def test_greedy_batches(eps_greedy: float, low: float, high: float) -> None:
    watch = Watch()
    model = PvpPPO("MultiInputPolicy", GuessingGame(num_envs=8), n_steps=200, n_epochs=0, eps_greedy=eps_greedy, seed=0)
    model.learn(1600, callback=watch)
    assert low <= np.mean(watch.greedy) <= high


LINEAR = {"type": "linear", "initial-value": 0.1, "final-value": 0.0, "change-over-time-steps": 4}


def test_schedules_follow_the_number_of_roll_outs(tmp_path: Path) -> None:
    env, watch = GuessingGame(), Watch("ent_coef", "batch_size", "gamma", "learning_rate", "max_grad_norm", "n_epochs")
    model = PvpPPO(
        "MultiInputPolicy",
        env,
        n_steps=16,
        ent_coef=LINEAR,
        batch_size={"type": "linear", "initial_value": 8, "final_value": 15, "change_over_time_steps": 3},
        gamma=Jump({0: 0.5, 2: 0.75}),
        learning_rate={"type": "log", "initial_value": 1e-2, "final_value": 1e-4, "change_over_time_steps": 2},
        max_grad_norm={"type": "expression", "expression": "1 + t"},
        clip_range=Linear(0.4, 0.2, 2),
        n_epochs={"type": "constant", "value": 2},
        device="cpu",
    )
    model.learn(3 * 64, callback=watch)
    np.testing.assert_allclose(
        watch.seen, [(0.1, 8, 0.5, 1e-2, 1, 2), (0.075, 10, 0.5, 1e-3, 2, 2), (0.05, 13, 0.75, 1e-4, 3, 2)]
    )
    assert isinstance(watch.seen[1][1], int)
    assert model.rollout_buffer.gamma == 0.75
    assert model.policy.optimizer.param_groups[0]["lr"] == pytest.approx(1e-4)
    assert model.clip_range(1.0) == pytest.approx(0.2)
    assert env.trained_rollouts == [0, 1, 2]
    model.save(tmp_path / "model")
    loaded = PvpPPO.load(tmp_path / "model", env=GuessingGame(), ent_coef=0.5, gae_lambda=LINEAR, device="cpu")
    assert loaded.schedules == {name: model.schedules[name] for name in model.schedules if name != "ent_coef"} | {
        "gae_lambda": Linear(0.1, 0.0, 4)
    }
    watch = Watch("ent_coef", "gae_lambda", "max_grad_norm")
    loaded.learn(64, callback=watch, reset_num_timesteps=False)
    np.testing.assert_allclose(watch.seen, [(0.5, 0.025, 4)])


def test_functions_for_sb3_get_the_remaining_progress() -> None:
    model = learned(2 * 64, learning_rate=lambda progress: 1e-3 * progress + 1e-5, clip_range=lambda progress: progress)
    assert model.policy.optimizer.param_groups[0]["lr"] == pytest.approx(1e-5)
    assert not model.schedules


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({"gamma": 1.5}, "gamma must be a number from 0 to 1, .* got 1.5"),
        ({"gamma": {"type": "constant", "value": 2}}, "gamma must be a number from 0 to 1, .* got 2"),
        ({"ent_coef": "0.1"}, "ent_coef must be a number of at least 0, .* got '0.1'"),
        ({"ent_coef": lambda progress: 0.1}, "ent_coef must be a number"),
        ({"batch_size": 64.5}, "batch_size must be an integer of at least 1"),
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps must be an integer of at least 1"),
        ({"eps_greedy": True}, "eps_greedy must be a number from 0 to 1"),
        ({"learning_rate": float("nan")}, "learning_rate must be"),
        ({"vf_coef": {"type": "linaer"}}, "did you mean 'linear'"),
        ({"n_stps": 8}, "unknown argument of PvpPPO 'n_stps' .did you mean 'n_steps'"),
        ({"n_steps": 0}, "n_steps must be a positive integer, got 0"),
        ({"n_epochs": -1}, "n_epochs must be an integer of at least 0"),
        ({"policy_kwargs": {"net_arc": [8]}}, "ActorCriticPolicy 'net_arc' .did you mean 'net_arch'"),
    ],
)
def test_wrong_hyperparameters(hyperparameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PvpPPO("MultiInputPolicy", GuessingGame(), **hyperparameters)


def test_wrong_steps() -> None:
    model = learned(n_epochs=0)
    assert model.learn(0).num_timesteps == 0
    with pytest.raises(ValueError, match=r"^total_timesteps must be a number of at least 0, got -1$"):
        model.learn(-1)


def test_a_schedule_that_leaves_the_range_ends_the_run() -> None:
    growing = {"type": "expression", "expression": "0.5 + t"}
    with pytest.raises(ValueError, match="gae_lambda must be a number from 0 to 1, .* got 1.5"):
        learned(3 * 64, gae_lambda=growing)


def test_numpy_numbers_will_do() -> None:
    model = learned(batch_size=np.int64(16), gamma=np.float32(0.5), learning_rate=np.float32(1e-3))
    assert (model.batch_size, model.gamma) == (16, 0.5)


def test_learns_the_game() -> None:
    model = PvpPPO(
        AutoregressivePolicy,
        GuessingGame(num_envs=16, reward_scale=50.0),
        n_steps=64,
        batch_size=256,
        n_epochs=4,
        learning_rate=3e-3,
        normalize_reward=True,
        gamma=0.5,
        seed=0,
        device="cpu",
    )
    model.learn(12 * 1024)
    assert mean_reward(model) > 1.3  # by chance 0.6, at best 1.5


def test_values_of_a_rollout_are_those_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sb3_pvp.algorithms.actors.fleet.ROWS_AT_ONCE", 48)  # 64 rows: a full part and a rest
    raw = {"normalize_observations": False}  # otherwise what was collected in the rollout has been applied since
    model = learned(policy=AutoregressivePolicy, n_epochs=0, policy_kwargs=raw)
    buffer: Any = model.rollout_buffer
    for observations, values in zip(buffer.observations["observation"], buffer.values, strict=True):
        expected = model.policy.predict_values({"observation": th.as_tensor(observations)})
        th.testing.assert_close(th.as_tensor(values), expected.flatten().detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("policy", ["MultiInputPolicy", AutoregressivePolicy])
def test_values_that_come_later_are_none_until_then(policy: Any) -> None:
    class Sees(BaseCallback):
        def _on_step(self) -> bool:
            assert (self.locals["values"] is None) == (policy is AutoregressivePolicy)
            return True

        def _on_rollout_end(self) -> None:
            assert np.count_nonzero(self.model.rollout_buffer.values) > 0  # type: ignore[attr-defined]

    learned(policy=policy, callback=Sees())


@pytest.mark.parametrize(
    ("policy", "accumulated", "batch_size"),
    [
        ("MultiInputPolicy", 1, 8),
        ("MultiInputPolicy", 1, None),
        (AutoregressivePolicy, 1, 8),
        (AutoregressivePolicy, 3, 8),
        (AutoregressivePolicy, 1, None),
    ],
)
def test_stale_log_probabilities_are_replaced_by_those_of_the_present_weights(
    policy: Any, accumulated: int, batch_size: int | None
) -> None:
    model = learned(policy=policy, n_epochs=1)
    fields = {each.name: getattr(model, each.name) for each in dataclasses.fields(PpoUpdate)}
    update = {**fields, "batch_size": batch_size, "clip_range": 0.01, "gradient_accumulation_steps": accumulated}
    samples = read_buffer(model.rollout_buffer)
    present = model.policy.evaluate_actions(samples.observations, samples.actions, samples.action_masks)[1].detach()
    before, found = copy.deepcopy((model.policy.state_dict(), model.policy.optimizer.state_dict())), []
    for renew, given in ((True, present - 1.0), (False, present), (False, present - 1.0)):
        model.policy.load_state_dict(copy.deepcopy(before[0]))
        model.policy.optimizer.load_state_dict(copy.deepcopy(before[1]))
        np.random.seed(0)  # noqa: NPY002  # the generator that shuffles
        PpoUpdate(**update).run(dataclasses.replace(samples, old_log_probs=given), 3, renew)
        found.append(parameters(model))
    th.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)
    assert not th.allclose(found[0], found[2], rtol=1e-3, atol=1e-4)
