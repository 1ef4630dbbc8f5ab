"""Imported policies decide as the original does, whatever their architecture."""

from __future__ import annotations

import re
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sb3_pvp import import_upstream, load
from sb3_pvp.game.contract import load_contract
from tests.zoo.imports.upstream_files import Original, dense, instance, mlp, original_classes, rules_of

NH = load_contract("NhEnv")


def imported(original: Original, folder: Path, **changes: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no such game, or that its rules are others
        return import_upstream(original.save(folder / "checkpoint.zip", **changes))


def check(original: Original, model: Any, batch: int = 12) -> None:
    """Asserts that the model computes what the original does."""
    observations, masks = original.situations(batch)
    space = model.observation_space
    seen = {"observation": observations[:, :, : original.own], "action_mask": masks.astype(np.int8)}
    if "privileged" in space.spaces:
        shape = (batch, *space["privileged"].shape)
        hidden = observations[:, :, original.own :]
        # A critic that does not see the opponent must ignore it.
        noise = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        seen["privileged"] = hidden if hidden.shape == shape else noise
    best = original.decide(observations, masks)
    np.testing.assert_array_equal(model.predict(seen, deterministic=True)[0], best["actions"])
    tensors, _ = model.policy.obs_to_tensor(seen)
    rng = np.random.default_rng(2)
    random = np.stack([rng.integers(size, size=batch) for size in original.sizes], 1)
    with th.no_grad():
        values = model.policy.predict_values(tensors)[:, 0].numpy()
        np.testing.assert_allclose(values, original.values(observations), atol=1e-5, rtol=1e-5)
        for actions in (best["actions"], random):
            expected = original.decide(observations, masks, actions)
            joint = th.as_tensor(actions)
            shares = model.policy.head_probabilities(tensors, joint).numpy()
            np.testing.assert_allclose(shares, expected["probabilities"], atol=1e-5)
            _, log_probs, entropies = model.policy.evaluate_heads(tensors, joint)
            np.testing.assert_allclose(entropies.numpy(), expected["entropies"], atol=1e-5)
            possible = expected["log_probs"] > -8  # the original limits those of impossible actions
            np.testing.assert_allclose(log_probs.sum(1)[possible], expected["log_probs"][possible], atol=2e-5)
    if original.win_rate is not None:
        wins = model.outcome_predictor.predict(seen)["WIN"]
        np.testing.assert_allclose(wins, original.wins(observations), atol=1e-5)


ACTIVATIONS = st.sampled_from(["relu", "tanh", "gelu", None])
LINEAR = st.fixed_dictionaries(
    {"size": st.integers(1, 6), "activation": ACTIVATIONS}, optional={"repeat": st.integers(1, 3)}
)
DROPOUT = st.fixed_dictionaries({"dropout": st.sampled_from([0.0, 0.5])}, optional={"repeat": st.just(2)})
NETWORKS = st.lists(LINEAR | DROPOUT, max_size=3).map(lambda layers: mlp(*layers)) | st.sampled_from([{}, None])


@st.composite
def originals(draw: st.DrawFn) -> Original:
    sizes = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    own, hidden, shared = draw(st.integers(1, 7)), draw(st.integers(0, 4)), draw(st.booleans())
    flags = ("autoregressive", "future_masks", "normalize_actions", "normalized")
    seed = draw(st.integers(0, 99))
    return Original(
        frames=draw(st.integers(1, 3)),
        own=own,
        seen=own if shared else own + hidden,
        sizes=sizes,
        extractor=draw(NETWORKS),
        shared=shared,
        actor=draw(NETWORKS),
        critic=draw(NETWORKS),
        heads=draw(NETWORKS | st.lists(NETWORKS, min_size=len(sizes), max_size=len(sizes))),
        rules=rules_of(sizes, np.random.default_rng(seed)),
        win_rate=draw(NETWORKS),
        seed=seed,
        **{flag: draw(st.booleans()) for flag in flags},
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(originals())
def test_any_architecture_computes_the_same(tmp_path: Path, original: Original) -> None:
    check(original, imported(original, tmp_path))


@pytest.mark.parametrize(
    "original",
    [
        Original(frames=2, heads=dense(6)),
        Original(seen=40, heads=dense(6), actor=dense(7, activation="tanh")),
        Original(seen=40, extractor=dense(9), shared=True, frames=3),
        Original(actor={}, critic={}),
    ],
    ids=["frames", "critic without the opponent", "shared extractor", "no trunks"],
)
def test_fighters_of_our_games_fit_their_environments(original: Original, tmp_path: Path) -> None:
    model = imported(original, tmp_path)
    check(original, model)
    assert model.game == "DharokEnv"
    assert model.observation_space["privileged"].shape == (original.frames, 15)
    model.save(tmp_path / "fighter.zip")
    check(original, load(tmp_path / "fighter.zip"))
    check(original, load(tmp_path / "fighter.zip", safe=True))


def test_gradients_pass_the_last_activation_of_a_trunk(tmp_path: Path) -> None:
    trunk = dense(7, activation="tanh")
    policy = imported(Original(actor=trunk, critic=trunk), tmp_path).policy
    observation = {key: th.ones(4, *part.shape) for key, part in policy.observation_space.spaces.items()}
    values, log_probs, _ = policy.evaluate_actions(observation, th.zeros(4, 6))
    (values.sum() + log_probs.sum()).backward()
    for network in (policy.actor, policy.critic):
        assert (network[0].weight.grad != 0).any()


def test_a_core_fighter_has_as_many_weights_as_the_original(tmp_path: Path) -> None:
    core = Original(own=176, seen=269, sizes=NH.head_sizes, actor=dense(512, 512), critic=dense(512, 512),
                    heads=dense(128, 128), win_rate=dense(64, 64))  # fmt: skip
    trained = sum(each.numel() for name, each in core.weights.items() if "actor.action" not in name)
    assert trained == 1_774_894 and len(core.weights) == 85  # training.md §3.12, cli-config.md §11
    model = imported(core, tmp_path)
    check(core, model)
    assert model.game == "NhEnv"


def test_stripped_and_older_files_can_be_read(tmp_path: Path) -> None:
    original = Original(win_rate=dense(4))
    with original_classes() as classes:
        content = original.content(classes)
        del (
            content["optimizer"],
            content["extensions"][0]["type"],
            content["extensions"][0]["params"]["optimizer_state"],
        )
        defaults = vars(content["policy_params"])
        for name in ("feature_extractor_config", "share_feature_extractor", "action_head_configs"):
            del defaults[name]
        th.save(content, tmp_path / "stripped.zip")
        del content["extensions"]
        th.save(content, tmp_path / "older.zip")
    check(original, import_upstream(tmp_path / "stripped"))
    assert not hasattr(import_upstream(tmp_path / "older.zip"), "outcome_predictor")


def test_other_contracts_are_noticed(tmp_path: Path) -> None:
    original = Original(own=176, seen=269, sizes=NH.head_sizes, rules=nh_rules())
    with original_classes() as classes:
        kinds = {name: partial(instance, classes[name]) for name in ("EnvironmentMeta", "ActionHead", "Action")}
        heads = [
            kinds["ActionHead"](id=head.id, actions=[kinds["Action"](id=each.id) for each in head.actions])
            for head in NH.heads
        ]
        observations = [instance(classes["Observation"], id=each.id) for each in NH.observations]
        meta = kinds["EnvironmentMeta"](actions=heads, observations=observations)
        th.save(original.content(classes, {"env_meta": meta}), tmp_path / "same.zip")
        observations.reverse()
        th.save(original.content(classes, {"env_meta": meta}), tmp_path / "other.zip")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = import_upstream(tmp_path / "same.zip")
    check(original, model)
    with pytest.warns(UserWarning, match="names of its actions or observations"):
        import_upstream(tmp_path / "other.zip")
    original.rules[1] = {}
    with pytest.warns(UserWarning, match="rules between its actions"):
        model = import_upstream(original.save(tmp_path / "free.zip"))
    check(original, model)
    model.save(tmp_path / "fighter.zip")
    check(original, load(tmp_path / "fighter.zip"))
    with pytest.warns(UserWarning, match="no game here"):
        model = import_upstream(Original(own=39, seen=39).save(tmp_path / "foreign.zip"))
    assert model.game is None and model.policy.contract is None


def nh_rules() -> dict[int, Any]:
    """Returns the rules of NhEnv in the original's form (training.md §3.6)."""
    places = [NH.action_index(each.id) for head in NH.heads for each in head.actions]
    rules: dict[int, Any] = {}
    for rule in ("require_all", "require_any", "require_none"):
        for entry, needed in np.argwhere(getattr(NH.dependencies, rule)).tolist():
            head, own = places[entry]
            rules.setdefault(head, {}).setdefault(own, {}).setdefault(rule, []).append(places[needed])
    return rules


def test_settings_of_the_training_are_kept(tmp_path: Path) -> None:
    with original_classes() as classes:
        schedule = instance(classes["LinearSchedule"], _initial_value=np.float64(0.5), _final_value=0)
        kwargs = {"stack_frames": [0, 2], "reset_params": {"accountBuild": "MED"}, "win_reward": schedule}
        league = instance(classes["League"], qualities={"main-1.zip": 1.0})
        custom = {"env_kwargs": kwargs, "past_self_play_league": league, "stats": {"env/num": np.int64(3)}}
        th.save(Original(frames=2, seen=40).content(classes, custom), tmp_path / "checkpoint.zip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model: Any = import_upstream(tmp_path / "checkpoint.zip")
    assert (model.num_timesteps, model.trained_rollouts, model.num_updates) == (1280, 2, 20)
    assert model.frame_ages == (0, 2) and model.reset_params == {"accountBuild": "MED"}
    assert not model.normalize_reward
    expected = {"class": "LinearSchedule", "_initial_value": 0.5, "_final_value": 0}
    assert model.upstream["env_kwargs"]["win_reward"] == expected
    assert model.upstream["past_self_play_league"]["qualities"] == {"main-1.zip": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"critic_input_size": 50}, "sees 10 features of the opponent, not 15"),
        ({"critic_input_size": 39}, "sees -1 features"),
        ({"actor_config": dense(9)}, "actor.hidden.0.weight: a tensor has the shape (8, 40) instead of (9, 40)"),
        ({"actor_config": {}}, "no weights actor.heads|has the shape"),
        ({"critic_config": dense(8, 8)}, "no weights critic.hidden.2.weight"),
        ({"action_head_configs": [dense(3)]}, "1 networks for 6 heads"),
        ({"actor_config": mlp({"size": 8, "activation": "relu", "repeat": 10**9})}, "more than 1000 layers"),
        ({"actor_config": mlp({"size": 8, "activation": "sigmoid"})}, "sigmoid"),
        ({"action_head_sizes": [10**9]}, "more than 1024 actions"),
        ({"actor_input_size": 10**12, "critic_input_size": 10**12}, "shape"),
        ({"max_sequence_length": 10**9}, "shape"),
        ({"action_dependencies": {1: {0: {"require_all": [(1, 0)]}}}}, "a rule of head 1 is about choice 0 of head 1"),
        ({"action_dependencies": {1: {9: {"require_all": [(0, 0)]}}}}, "a rule of head 1"),
        ({"share_feature_extractor": True}, "share a feature extractor"),
        ({"autoregresive_actions": True}, "autoregressive_actions"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_the_weights_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    original = Original()
    with original_classes() as classes:
        content = original.content(classes)
        vars(content["policy_params"]).update(change)
        th.save(content, tmp_path / "wrong.zip")
    pattern = message if "|" in message else re.escape(message)
    with warnings.catch_warnings(), pytest.raises(ValueError, match=pattern):
        warnings.simplefilter("ignore")
        import_upstream(tmp_path / "wrong.zip")
