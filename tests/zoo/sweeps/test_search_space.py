"""What is varied, and that everything that can be drawn can be trained."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp import zoo
from sb3_pvp.algorithms.hyperparameters import check_hyperparams
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.callbacks.self_play import Shares
from sb3_pvp.common.schedules import parse_schedule
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.zoo.sweeps.space import (
    DEFAULT_SPACE,
    Space,
    applicable,
    as_dict,
    callback_options,
    chosen_space,
    hyperparameters,
    own_values,
    read_space,
)
from tests.paths import ROOT

UNITS = {
    "value": "as it is",
    "complement": "1 minus the hyperparameter",
    "layers": "sizes joined by x, or none",
    "minibatches": "mini-batches in a rollout",
    "of_initial": "share of the initial value",
    "of_run": "share of the rollouts of a run",
    "rows": "share of the environments, in pairs",
    "rows_left": "share of the environments left",
}
ARGUMENTS = ("n_steps", "batch_size", "n_epochs", "learning_rate", "ent_coef", "gamma", "gae_lambda", "clip_range")


def drawn(seed: int, space: Space = DEFAULT_SPACE) -> dict[str, Any]:
    """A random sample of the space."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    return study.ask({name: each.distribution() for name, each in space.items()}).params


def preset(name: str) -> dict[str, Any]:
    return zoo.find_preset(name).hyperparams()


SEEDS = st.integers(0, 2**32 - 1)
PRESETS = ["NhEnv", "DharokEnv", "PastSelfPlay", "PureSelfPlay", "HumanLike", "DharokPastSelfPlay", "Core"]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(PRESETS), SEEDS, st.integers(2, 33), st.integers(1, 10**7))
def test_everything_that_is_drawn_is_allowed(name: str, seed: int, n_envs: int, n_timesteps: int) -> None:
    base = {**preset(name), "n_envs": n_envs}
    space = applicable(DEFAULT_SPACE, base, is_ours=True)
    sample = drawn(seed, space)
    block = hyperparameters(sample, space, base, n_timesteps)
    assert yaml.safe_load(yaml.safe_dump(block)) == block
    check_hyperparams(block, PvpPPO, zoo.find_preset(name).env_id, {*block.get("env_kwargs", {})})
    assert_rollouts_divide(block, sample, n_timesteps)
    assert_shares_are_possible(block)


@settings(max_examples=4, deadline=None)  # large networks take seconds to be initialised
@given(st.sampled_from(PRESETS), SEEDS)
def test_everything_that_is_drawn_makes_a_model(name: str, seed: int) -> None:
    base = {**preset(name), "n_envs": 3}
    space = applicable(DEFAULT_SPACE, base, is_ours=True)
    sample = drawn(seed, space)
    block = hyperparameters(sample, space, base, 10**5)
    env = NhVecEnv(3, contract=zoo.find_preset(name).env_id, **{**block["env_kwargs"], "opponent": "baseline"})
    arguments = {key: block[key] for key in (*ARGUMENTS, "policy_kwargs")}
    model = PvpPPO(AutoregressivePolicy, env, **arguments, device="cpu")
    assert model.rollout_buffer.buffer_size == sample["n_steps"]
    assert model.learning_rate == pytest.approx(sample["learning_rate"])
    env.close()


def assert_rollouts_divide(block: Mapping[str, Any], sample: Mapping[str, Any], n_timesteps: int) -> None:
    rollout = block["n_envs"] * block["n_steps"]
    assert rollout % block["batch_size"] == 0
    assert block["batch_size"] >= 2
    assert rollout // block["batch_size"] <= sample["minibatches"]
    entropy = parse_schedule(block["ent_coef"])
    rollouts = -(-n_timesteps // rollout)
    assert entropy(0) == pytest.approx(sample["ent_coef"])
    assert entropy(rollouts) == pytest.approx(sample["ent_coef"] * sample["ent_coef_final"])
    assert 1 <= block["ent_coef"]["change_over_time_steps"] <= rollouts


def assert_shares_are_possible(block: Mapping[str, Any]) -> None:
    options = callback_options(block, "SelfPlayCallback")
    if options is not None:
        shares = {kind: options.get(kind, 0.0) for kind in ("past", "target", "latest")}
        rows = Shares({"self": options["self_play"], **shares}).divide(block["n_envs"], 0)
        assert rows.count("self") == round(options["self_play"] * block["n_envs"])


def test_a_sample_replaces_only_what_it_speaks_of() -> None:
    base = {**preset("PastSelfPlay"), "policy_kwargs": {"net_arch": [1], "normalize_actions": False}}
    before = copy.deepcopy(base)
    sample = {"net_arch": "64x64", "damage_dealt": 0.3, "self_play": 0.5, "past": 0.5, "one_minus_gamma": 0.01}
    block = hyperparameters(sample, DEFAULT_SPACE, base, 10**6)
    assert base == before
    assert block["policy_kwargs"] == {"net_arch": [64, 64], "normalize_actions": False}
    assert block["env_kwargs"] == {**base["env_kwargs"], "rewards": {"damage_dealt": 0.3}}
    options = callback_options(block, "SelfPlayCallback")
    assert options is not None
    assert (options["self_play"], options["past"], options["match_maker"]) == (0.5, 0.25, "prioritised")
    assert block["gamma"] == 0.99
    assert {each for each in block if block[each] != base.get(each)} == {"callback", "env_kwargs", "policy_kwargs"}


def test_values_become_schedules_over_the_run() -> None:
    base = {"n_envs": 10, "n_steps": 10, "learning_rate": "lin_1e-3", "ent_coef": 0.02}
    block = hyperparameters({"learning_rate": 2e-4, "ent_coef_fall": 0.5}, DEFAULT_SPACE, base, 1000)
    over = {"type": "linear", "change_over_time_steps": 10}
    assert block["learning_rate"] == {**over, "initial_value": 2e-4, "final_value": 0.0}
    assert block["ent_coef"] == {**over, "initial_value": 0.02, "final_value": 0.02, "change_over_time_steps": 5}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PRESETS), SEEDS, st.integers(2, 200), st.integers(10**4, 10**7))
def test_own_values_give_a_configuration_as_it_is(name: str, seed: int, n_envs: int, n_timesteps: int) -> None:
    base = {**preset(name), "n_envs": n_envs}
    space = applicable(DEFAULT_SPACE, base, is_ours=True)
    block = hyperparameters(drawn(seed, space), space, base, n_timesteps)
    own = own_values(space, block, n_timesteps)
    before = copy.deepcopy(block)
    again = hyperparameters(own, space, block, n_timesteps)
    assert block == before
    batches = [each["n_steps"] * n_envs // each.pop("batch_size") for each in (again, block)]
    # Drawn is an upper bound of the number of batches, of which four values are in the space.
    assert batches[0] == batches[1] or batches[1] not in DEFAULT_SPACE["minibatches"].choices
    assert_alike(again, block)


def assert_alike(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_alike(found[key], expected[key])
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6)
    elif isinstance(expected, list):
        for each in zip(found, expected, strict=True):
            assert_alike(*each)
    else:
        assert found == expected


def test_the_own_values_of_a_preset() -> None:
    base = preset("NhEnv")
    own = own_values(applicable(DEFAULT_SPACE, base, is_ours=True), base, 10**6)
    rollouts = -(-(10**6) // (128 * 64))
    assert own["learning_rate_final"] == pytest.approx((1.5e-3 - 1.4e-3 * rollouts / 2000) / 1.5e-3)
    texts = {"net_arch": "64x64", "head_arch": "none", "activation": "relu"}
    numbers = {"n_steps": 64, "minibatches": 4, "n_epochs": 2, "ent_coef_fall": 1.0, "damage_dealt": 0.2}
    numbers |= {"one_minus_gamma": pytest.approx(0.005), "damage_received": -0.25, "attacked_correct_prayer": 0.01}
    assert own.keys() == DEFAULT_SPACE.keys() - {"self_play", "past"}
    assert {name: own[name] for name in (*texts, *numbers)} == {**texts, **numbers}


def test_values_that_the_space_has_not_are_replaced_or_left_out() -> None:
    base = {"n_envs": 10, "n_steps": 48, "batch_size": 60, "n_epochs": 10, "learning_rate": "lin_1e-2", "ent_coef": 0.0}
    own = own_values(DEFAULT_SPACE, {**base, "policy_kwargs": {"net_arch": [7]}}, 10**5)
    assert (own["n_steps"], own["minibatches"], own["n_epochs"], own["learning_rate"]) == (64, 8, 8, 2e-3)
    assert own["learning_rate_final"] == 0.05
    assert (own["clip_range"], own["one_minus_gamma"]) == (0.2, pytest.approx(0.01))
    assert not own.keys() & {"net_arch", "ent_coef_final", "past"}


def test_only_what_a_configuration_has_is_varied() -> None:
    names = {*applicable(DEFAULT_SPACE, preset("NhEnv"), is_ours=True)}
    assert names == DEFAULT_SPACE.keys() - {"self_play", "past"}
    names = {*applicable(DEFAULT_SPACE, preset("PureSelfPlay"), is_ours=True)}
    assert names == DEFAULT_SPACE.keys() - {"past"}
    names = {*applicable(DEFAULT_SPACE, {"policy": "MlpPolicy"}, is_ours=False)}
    assert "net_arch" in names and not names & {"activation", "head_arch", "damage_dealt"}


def test_only_rewards_of_the_game_are_varied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    block = {"env_kwargs": {"game": "rock_paper_scissors:RockPaperScissors"}}
    names = {*applicable(DEFAULT_SPACE, block, is_ours=True)}
    assert "n_steps" in names and not names & {"damage_dealt", "damage_received"}
    (tmp_path / "space.yml").write_text("win: {kind: uniform, target: env_kwargs.rewards.win, low: 1, high: 2}")
    space = chosen_space(tmp_path / "space.yml", block, is_ours=True)
    assert own_values(space, block, 1000) == {"win": 1.0}


def test_shares_beside_a_schedule_are_refused() -> None:
    base = preset("PastSelfPlay")  # whose share of self-play is a schedule
    with pytest.raises(ValueError, match="cannot be varied while self_play is a schedule"):
        hyperparameters({"past": 0.5}, {"past": DEFAULT_SPACE["past"]}, base, 1000)


def test_a_space_is_the_same_after_a_file(tmp_path: Path) -> None:
    path = tmp_path / "space.yml"
    path.write_text(yaml.safe_dump(as_dict(DEFAULT_SPACE)))
    assert read_space(path) == DEFAULT_SPACE
    path.write_text("n_steps: {choices: [8, 16]}\nn_epochs: {}\nvf: {kind: uniform, low: 0, high: 1, target: vf_coef}")
    space = read_space(path, DEFAULT_SPACE)
    assert as_dict(space)["n_steps"] == {**as_dict(DEFAULT_SPACE)["n_steps"], "choices": [8, 16]}
    assert space["n_epochs"] == DEFAULT_SPACE["n_epochs"]
    assert hyperparameters({"vf": 0.5}, {"vf": space["vf"]}, {}, 1) == {"vf_coef": 0.5}
    path.write_text("n_steps: {kind: uniform, low: 1, high: 2}")
    assert read_space(path, DEFAULT_SPACE)["n_steps"].choices == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_steps: {choise: [8]}", "did you mean 'choices'"),
        ("n_steps: {choices: []}", "n_steps: it needs choices if it is categorical"),
        ("n_steps: {choices: [[8]]}", r"n_steps: choices\[0\]"),
        ("n_step: {low: 1, high: 2, kind: uniform}", "n_step: it lacks 'target'"),
        ("clip_range: {low: 1}", "clip_range: it needs a low that is below its high"),
        ("learning_rate: {low: 0}", "and above 0 if it is log_uniform"),
        ("clip_range: {low: x}", "clip_range: low should be a valid number"),
        ("n_steps: {kind: categoric}", "kind should be 'categorical', 'uniform' or 'log_uniform', got 'categoric'"),
        ("n_steps: {unit: roll}", "unit should be 'value'"),
        ("n_steps: 8", "n_steps: it should be a valid dictionary"),
        ("[]", "maps names"),
        ("{", "space.yml"),
        ("self_play: {}", "self_play varies callback.SelfPlayCallback.self_play, which these"),
    ],
)
def test_wrong_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        chosen_space(path, preset("NhEnv"), is_ours=True)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"n_steps": 65}, "n_steps must be one of 64, 128, 256, 512, got 65"),
        ({"clip_range": 0.5}, "clip_range must be 0.1 to 0.3, got 0.5"),
        ({"clip_range": float("nan")}, "got nan"),
        ({"clip_range": "0.2"}, "got '0.2'"),
        ({"self_play": 0.5}, "needs a SelfPlayCallback"),
    ],
)
def test_values_outside_the_space_are_refused(sample: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hyperparameters(sample, DEFAULT_SPACE, preset("NhEnv"), 1000)


def test_the_page_shows_the_space() -> None:
    page = (ROOT / "docs" / "sweeps.md").read_text()
    for name, each in DEFAULT_SPACE.items():
        assert f"| `{name}` | {each} | {UNITS[each.unit]} | `{each.target}` | {each.meaning} |\n" in page
