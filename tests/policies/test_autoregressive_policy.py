from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

import sb3_pvp
from sb3_pvp.policies import AutoregressivePolicy
from tests.policies.guessing_game import NH, SPACE, GuessingGame


@pytest.fixture(scope="module")
def model() -> MaskablePPO:
    """Returns a briefly trained model; its environment raises on illegal actions."""
    env = DummyVecEnv([GuessingGame] * 8)
    model = MaskablePPO(AutoregressivePolicy, env, n_steps=128, batch_size=256, n_epochs=4, learning_rate=1e-3, seed=0)
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
        assert model.predict(batch, deterministic=True, action_masks=mask)[0].tolist() == actions.tolist()
    assert model.predict(raw, deterministic=np.bool_(True), action_masks=mask)[0].tolist() == expected.tolist()
    without = {"observation": raw, "action_mask": observation["action_mask"]}
    assert model.predict(without, deterministic=True)[0].tolist() == expected.tolist()


def test_a_head_without_any_choice_takes_its_first_entry(model: MaskablePPO, observation: dict[str, Any]) -> None:
    observation["action_mask"] = np.eye(NH.num_flat_actions, dtype=np.int8)[0]
    assert not model.predict(observation)[0].any()


def test_the_actor_ignores_the_privileged_part_and_the_critic_does_not(
    model: MaskablePPO, observation: dict[str, Any]
) -> None:
    other = observation | {"privileged": observation["privileged"] + 1}
    one, two = (model.policy.obs_to_tensor(each)[0] for each in (observation, other))
    actions = model.policy.get_distribution(one).mode()
    log_probs = [model.policy.get_distribution(seen).log_prob(actions) for seen in (one, two)]
    assert log_probs[0].equal(log_probs[1])
    assert not model.policy.predict_values(one).equal(model.policy.predict_values(two))


@pytest.mark.parametrize(
    ("observation", "masks", "message"),
    [
        (np.zeros(NH.num_observations, np.float32), None, "action_masks"),
        (np.zeros(5, np.float32), np.ones(NH.num_flat_actions, bool), "does not fit"),
        (np.zeros(NH.num_observations, np.float32), np.ones(44), r"shape \(1, 45\) or \(45,\), got \(44,\)"),
        (np.zeros(NH.num_observations, np.float32), np.ones((2, 45)), r"shape \(1, 45\) or \(45,\), got \(2, 45\)"),
        (np.zeros(NH.num_observations, np.float32), np.zeros(NH.num_flat_actions), "allows nothing: at least one"),
        (
            np.zeros(NH.num_observations, np.float32),
            np.full(NH.num_flat_actions, -2.9),
            "is 0 or 1, but this one has -2.9",
        ),
        (
            {"observation": np.zeros((1, NH.num_observations)), "action_mask": np.full(NH.num_flat_actions, 0.5)},
            None,
            "is 0 or 1, but this one has 0.5",
        ),
        (np.eye(NH.num_observations)[0] * np.nan, np.ones(NH.num_flat_actions), "is NaN"),
        (GuessingGame().reset(), None, "pass the first"),
    ],
)
def test_bad_input_is_refused(model: MaskablePPO, observation: Any, masks: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.predict(observation, action_masks=masks)


def test_wrong_spaces_are_refused() -> None:
    box = spaces.Box(-1.0, 1.0, (3,))
    for observation_space, action_space, arguments, message in (
        (SPACE, spaces.MultiDiscrete([2, 2]), {"contract": "NhEnv"}, "contract NhEnv"),
        (box, spaces.Box(-1.0, 1.0, (2,)), {}, "action space"),
        (spaces.Discrete(3), spaces.Discrete(2), {}, "Box"),
        (spaces.Dict({"privileged": box}), spaces.Discrete(2), {}, "no public part"),
    ):
        with pytest.raises(ValueError, match=message):
            AutoregressivePolicy(observation_space, action_space, lambda _: 0.0, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"activation": "rellu"}, "relu"),
        ({"net_arch": {"pi": [8]}}, "vf"),
        ({"net_arch": [8, 0]}, "positive integer"),
        ({"net_arch": {"layers": [{"size": 8, "dropout": 0.1}]}}, "either a size or a dropout"),
        ({"net_arch": {"layers": [{"dropout": 1.5}]}}, "dropout"),
        ({"net_arch": {"layers": [{"size": 8, "activation": "sigmoid"}]}}, "activation"),
        ({"head_arch": {"layers": [{"size": 8, "repat": 2}]}}, "repeat"),
        ({"net_arch": 8}, "a list of sizes"),
        ({"net_arch": {"layers": [{"repeat": 2}]}}, "either a size or a dropout"),
        ({"head_arch": {"layer": [8]}}, "did you mean 'layers'"),
        ({"head_arch": [[8], [8]]}, "2 architectures for 12 heads"),
        ({"share_features_extractor": True}, "privileged"),
        ({"contract": "NhEnvv"}, "NhEnv"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AutoregressivePolicy(SPACE, NH.action_space, lambda _: 0.0, **arguments)


def test_the_contract_is_found_by_the_spaces_or_as_a_file() -> None:
    policy = AutoregressivePolicy(SPACE, NH.action_space, lambda _: 0.0)
    assert policy.contract == NH
    assert policy.head_ids == [head.id for head in NH.heads]
    file = Path(sb3_pvp.__file__).parent / "games" / "osrs" / "contracts" / "NhEnv.json"
    assert AutoregressivePolicy(SPACE, NH.action_space, lambda _: 0.0, contract=str(file)).contract == NH
    free = AutoregressivePolicy(SPACE, NH.action_space, lambda _: 0.0, contract=None)
    assert free.contract is None and free.head_ids == [str(head) for head in range(NH.num_heads)]


def test_networks_have_the_shapes_of_the_reference_network() -> None:
    """The parameter counts of training.md §3.12."""
    core = {"net_arch": [512, 512], "head_arch": [128, 128]}
    policy = AutoregressivePolicy(SPACE, NH.action_space, lambda _: 0.0, **core)  # type: ignore[arg-type]
    widths = [policy.heads.layers(head)[0][0].shape[1] for head in range(NH.num_heads)]
    assert widths == [512, 516, 519, 522, 526, 531, 533, 535, 537, 539, 544, 551]
    own = [weight.numel() + bias.numel() for head in range(NH.num_heads) for weight, bias in policy.heads.layers(head)]
    others = [p.numel() for part in (policy.actor, policy.critic, policy.value_net) for p in part.parameters()]
    assert sum(own) + sum(others) == 1_774_894


def test_weights_start_orthogonal_with_the_gains_of_the_reference() -> None:
    """training.md §3.9: sqrt(2) for hidden layers, 0.01 for logits, 1 for values, and no biases."""
    policy = AutoregressivePolicy(SPACE, NH.action_space, lambda _: 0.0, net_arch=[32], head_arch=[16, 8])
    gains = [(policy.actor[0].weight, 2**0.5), (policy.critic[0].weight, 2**0.5), (policy.value_net.weight, 1.0)]
    for head in range(NH.num_heads):
        *hidden, (logits, _) = policy.heads.layers(head)
        gains += [(weight, 2**0.5) for weight, _ in hidden] + [(logits, 0.01)]
    for weight, gain in gains:
        expected = gain * th.ones(min(weight.shape))
        th.testing.assert_close(th.linalg.svdvals(weight), expected, atol=1e-4 * gain, rtol=1e-4)
    assert not any(parameter.any() for name, parameter in policy.named_parameters() if "bias" in name)


@pytest.mark.slow
def test_a_saved_model_acts_alike_where_sb3_pvp_was_not_imported(
    model: MaskablePPO, observation: dict[str, Any], tmp_path: Path
) -> None:
    model.save(tmp_path / "fighter")
    np.savez(tmp_path / "observation", **observation)
    program = """
import sys
import numpy as np
from sb3_contrib import MaskablePPO

assert not [name for name in sys.modules if name.startswith("sb3_pvp")]
model = MaskablePPO.load(sys.argv[1] + "/fighter.zip", device="cpu")
seen = dict(np.load(sys.argv[1] + "/observation.npz"))
print(model.predict(seen, deterministic=True)[0].tolist())
print(model.predict(seen["observation"][0], deterministic=True, action_masks=seen["action_mask"])[0].tolist())
"""
    # Run elsewhere, so that the package is an installed one and no folder beside the program.
    command = [sys.executable, "-c", program, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    expected = model.predict(observation, deterministic=True)[0].tolist()
    assert run.stdout.splitlines() == [str(expected)] * 2


def test_a_contract_of_ones_own_travels_with_the_model(observation: dict[str, Any], tmp_path: Path) -> None:
    arguments = {"contract": replace(NH, name="Mine")}
    env = DummyVecEnv([GuessingGame])
    model = MaskablePPO(AutoregressivePolicy, env, n_steps=8, batch_size=8, policy_kwargs=arguments, seed=0).learn(16)
    model.save(tmp_path / "fighter")
    loaded = MaskablePPO.load(tmp_path / "fighter")
    assert loaded.policy.contract == arguments["contract"]
    expected = model.predict(observation, deterministic=True)[0]
    assert loaded.predict(observation, deterministic=True)[0].tolist() == expected.tolist()


def test_saved_models_name_the_public_import_path() -> None:
    assert pickle.dumps(AutoregressivePolicy).count(b"sb3_pvp.policies\x94") == 1


def test_the_policy_alone_can_be_saved(model: MaskablePPO, observation: dict[str, Any], tmp_path: Path) -> None:
    model.policy.save(str(tmp_path / "policy.pt"))
    policy = AutoregressivePolicy.load(str(tmp_path / "policy.pt"))
    expected = model.predict(observation, deterministic=True)[0]
    assert policy.predict(observation, deterministic=True)[0].tolist() == expected.tolist()
