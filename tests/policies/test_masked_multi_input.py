from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_pvp.contract import load_contract
from sb3_pvp.policies import MaskedMultiInputPolicy

NH = load_contract("NhEnv")
NUM_PRIVILEGED = len(NH.partial_indices)
SPACE = spaces.Dict(
    {
        "observation": spaces.Box(-np.inf, np.inf, (1, NH.num_observations), np.float32),
        "privileged": spaces.Box(-np.inf, np.inf, (1, NUM_PRIVILEGED), np.float32),
        "action_mask": spaces.Box(0, 1, (NH.num_flat_actions,), np.int8),
    }
)


class GuessingGame(gym.Env[dict[str, Any], np.ndarray]):
    """Rewards eating when observation 0 is high; refuses every action that mask and rules do not allow."""

    observation_space, action_space = SPACE, NH.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.ticks = 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        for head in range(NH.num_heads):
            assert NH.conditional_mask(self.mask, action[:head])[action[head]], f"head {head} chose {action[head]}"
        food = NH.head_index("food")
        reward = float(action[food] == (self.value > 50))
        self.ticks += 1
        return self._observe(), reward, self.ticks == 20, False, {}

    def action_masks(self) -> np.ndarray:
        return self.mask

    def _observe(self) -> dict[str, Any]:
        self.value = self.np_random.uniform(0, 100)
        self.mask = self.np_random.random(NH.num_flat_actions) < 0.7
        food = NH.flat_offset("food")
        self.mask[food : food + 2] = True
        observation = np.full((1, NH.num_observations), self.value, np.float32)
        privileged = np.zeros((1, NUM_PRIVILEGED), np.float32)
        return {"observation": observation, "privileged": privileged, "action_mask": self.mask.astype(np.int8)}


@pytest.fixture(scope="module")
def model() -> MaskablePPO:
    """A model that has learnt a little on an environment that raises on illegal actions."""
    env = DummyVecEnv([GuessingGame] * 8)
    model = MaskablePPO(
        MaskedMultiInputPolicy, env, n_steps=128, batch_size=256, n_epochs=4, learning_rate=1e-3, seed=0
    )
    return model.learn(8192)


@pytest.fixture
def observation() -> dict[str, Any]:
    env = GuessingGame()
    return env.reset(seed=7)[0]


def test_it_learns_and_acts_legally(model: MaskablePPO) -> None:
    env, total = GuessingGame(), 0.0
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        done = False
        while not done:
            action, _ = model.predict(observation, deterministic=True)  # no masks passed
            observation, reward, done, _, _ = env.step(action)
            total += reward
    assert total / 20 > 15  # guessing brings 10 of 20


def test_roll_out_and_learning_agree_on_log_probabilities() -> None:
    env = DummyVecEnv([GuessingGame] * 4)
    model = MaskablePPO(MaskedMultiInputPolicy, env, n_steps=16, batch_size=64, n_epochs=1, learning_rate=0.0, seed=1)
    model.learn(192)  # several roll-outs, so the statistics have changed in between
    data = next(model.rollout_buffer.get(64))
    _, log_probs, _ = model.policy.evaluate_actions(data.observations, data.actions, data.action_masks)
    th.testing.assert_close(log_probs, data.old_log_prob, atol=1e-5, rtol=1e-5)


def test_masks_come_from_the_observation_unless_passed(model: MaskablePPO, observation: dict[str, Any]) -> None:
    heads = [NH.head_index(name) for name in ("food", "karambwan", "potion")]
    everything = np.ones(NH.num_flat_actions, np.int8)
    nothing = everything.copy()
    for head in heads:
        nothing[NH.flat_offset(head) + 1 : NH.flat_offset(head) + NH.head_sizes[head]] = 0
    for observed, passed, restricted in (
        (nothing, None, True),
        (everything, nothing, True),
        (nothing, everything, False),
    ):
        observation["action_mask"] = observed
        actions = np.array([model.predict(observation, action_masks=passed)[0] for _ in range(30)])
        assert (not actions[:, heads].any()) == restricted


def test_bare_arrays_work(model: MaskablePPO, observation: dict[str, Any]) -> None:
    mask = observation["action_mask"].astype(bool)
    expected, _ = model.predict(observation, deterministic=True)
    raw = observation["observation"][0]
    for bare in (raw, observation["observation"]):
        assert model.predict(bare, deterministic=True, action_masks=mask)[0].tolist() == expected.tolist()
    for batch in (np.stack([raw] * 3), np.stack([observation["observation"]] * 3)):
        actions, _ = model.predict(batch, deterministic=True, action_masks=np.stack([mask] * 3))
        assert actions.tolist() == [expected.tolist()] * 3
    without = {"observation": raw, "action_mask": observation["action_mask"]}
    assert model.predict(without, deterministic=True)[0].tolist() == expected.tolist()


def test_the_actor_ignores_the_privileged_part_and_the_critic_does_not(
    model: MaskablePPO, observation: dict[str, Any]
) -> None:
    other = observation | {"privileged": observation["privileged"] + 1}
    one, two = (model.policy.obs_to_tensor(each)[0] for each in (observation, other))
    assert model.policy.get_distribution(one).logits.equal(model.policy.get_distribution(two).logits)
    assert not model.policy.predict_values(one).equal(model.policy.predict_values(two))


@pytest.mark.parametrize(
    ("observation", "masks", "message"),
    [
        (np.zeros(NH.num_observations, np.float32), None, "action_masks"),
        (np.zeros(5, np.float32), np.ones(NH.num_flat_actions, bool), "does not fit"),
        (GuessingGame().reset(), None, "pass the first"),
    ],
)
def test_bad_input_is_refused(model: MaskablePPO, observation: Any, masks: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.predict(observation, action_masks=masks)


def test_wrong_spaces_are_refused() -> None:
    with pytest.raises(ValueError, match="Dict observation space"):
        MaskedMultiInputPolicy(SPACE["observation"], NH.action_space, lambda _: 0.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="contract NhEnv"):
        MaskedMultiInputPolicy(SPACE, spaces.MultiDiscrete([2, 2]), lambda _: 0.0)


def test_a_saved_model_acts_alike_where_sb3_pvp_was_not_imported(
    model: MaskablePPO, observation: dict[str, Any], tmp_path: Path
) -> None:
    model.save(tmp_path / "fighter")
    np.savez(tmp_path / "observation", **observation)
    program = (
        "import sys, numpy as np\n"
        "from sb3_contrib import MaskablePPO\n"
        "model = MaskablePPO.load(sys.argv[1] + '/fighter.zip', device='cpu')\n"
        "print(model.predict(dict(np.load(sys.argv[1] + '/observation.npz')), deterministic=True)[0].tolist())\n"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(model.predict(observation, deterministic=True)[0].tolist())


def test_saved_models_name_the_public_import_path() -> None:
    assert pickle.dumps(MaskedMultiInputPolicy).count(b"sb3_pvp.policies\x94") == 1


def test_the_policy_alone_can_be_saved(model: MaskablePPO, observation: dict[str, Any], tmp_path: Path) -> None:
    model.policy.save(str(tmp_path / "policy.pt"))
    policy = MaskedMultiInputPolicy.load(str(tmp_path / "policy.pt"))
    expected = model.predict(observation, deterministic=True)[0]
    assert policy.predict(observation, deterministic=True)[0].tolist() == expected.tolist()
