"""The graphs of a policy compute what it computes."""

from __future__ import annotations

import copy
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO

from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.export.onnx_graph import actor_graph, critic_graph
from sb3_pvp.policies.files.fighter_files import export_fighter
from sb3_pvp.policies.files.reading import read
from sb3_pvp.policies.sampling import HeadTables, sample_actions
from tests.game.contract.random_contracts import contracts
from tests.policies.export.exported import SHAPES, Fights, stock, trained
from tests.policies.random_policies import Case, cases

CLOSE = {"rtol": 0.0, "atol": 1e-5}
OUTPUTS = ["action", "log_prob", "entropy", "probability"]


def run(graph: bytes, **inputs: Any) -> dict[str, NDArray[Any]]:
    """Runs a graph with those of the inputs that it has."""
    session = session_of(graph)
    names = [each.name for each in session.get_outputs()]
    feed = {each.name: inputs[each.name] for each in session.get_inputs()}
    return dict(zip(names, session.run(names, feed), strict=True))


def session_of(graph: bytes) -> Any:
    """A session on one core."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 2
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def drawn(policy: AutoregressivePolicy, parts: Any, masks: th.Tensor, uniforms: th.Tensor) -> NDArray[np.int64]:
    """The actions of the compiled loops for the same random numbers."""
    with th.no_grad():
        latent = policy._actor_latent(policy.features(parts))
    return sample_actions([HeadTables(policy.heads)], [latent], masks, uniforms)[0]


def compare(policy: AutoregressivePolicy, parts: dict[str, th.Tensor], masks: th.Tensor, uniforms: th.Tensor) -> None:
    """All outputs are those of the policy; actions are where rounding cannot decide them."""
    inputs = {"observation": parts["observation"], "action_mask": masks, "uniform": uniforms}
    found = run(actor_graph(policy), **{name: part.numpy() for name, part in inputs.items()})
    assert [*found] == OUTPUTS and found["action"].dtype == np.int64
    own, actions = drawn(policy, parts, masks, uniforms), th.from_numpy(found["action"])
    same = (own == found["action"]).all(1)
    assert clear_rows(policy, parts, masks, uniforms, own)[~same].sum() == 0
    assert same.mean() > 0.99
    with th.no_grad():
        values, log_probs, entropies = policy.evaluate_heads(parts, actions, masks)
        probabilities = policy.head_probabilities(parts, actions, masks)
    np.testing.assert_allclose(found["log_prob"], log_probs.sum(1), rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(found["entropy"], entropies, **CLOSE)
    np.testing.assert_allclose(found["probability"], probabilities, **CLOSE)
    value = run(critic_graph(policy), **{key: part.numpy() for key, part in parts.items()})["value"]
    np.testing.assert_allclose(value, values.flatten(), rtol=1e-5, atol=1e-5)


def clear_rows(
    policy: AutoregressivePolicy, parts: Any, masks: th.Tensor, uniforms: th.Tensor, actions: Any
) -> NDArray[np.bool_]:
    """Rows ``(batch,)`` in which no head was close to another decision: its two best probabilities, or a cumulative
    probability and the random number, differ by more than 1e-6."""
    with th.no_grad():
        flat = policy.head_probabilities(parts, th.from_numpy(actions), masks).numpy()
    clear = np.ones(len(flat), bool)
    for head, (start, size) in enumerate(zip(policy.rules.starts, policy.head_sizes, strict=True)):
        own, number = flat[:, start : start + size], uniforms[:, head].numpy()
        best = np.sort(np.pad(own, ((0, 0), (1, 0))), axis=1)
        margin = np.abs(own.cumsum(1) - number[:, None])[:, : size - 1].min(1, initial=1.0)
        clear &= np.where(number < 0, best[:, -1] - best[:, -2], margin) > 1e-6
    return clear


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {shape: trained(shape) for shape in SHAPES}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "greedy",
    [*(pytest.param(each, marks=pytest.mark.slow) for each in (True, False)), None],
    ids=["greedy", "sampled", "mixed"],
)
def test_graphs_compute_what_the_policy_does(models: dict[str, Any], shape: str, greedy: bool | None) -> None:
    model = models[shape]
    fights = Fights(NhVecEnv(64, frame_ages=SHAPES[shape][1]), 12, seed=1)
    parts = {key: th.from_numpy(part) for key, part in fights.parts.items()}
    uniforms = th.rand(len(fights.masks), 12, generator=th.Generator().manual_seed(0))
    uniforms[:, [] if greedy is False else slice(None) if greedy else [0, 3, 11]] = -1.0
    compare(model.policy, parts, th.from_numpy(fights.masks), uniforms)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_ten_thousand_observations(models: dict[str, Any], shape: str) -> None:
    """As the issue of the exchange asks; the fights last longer than the shorter test's."""
    fights = Fights(NhVecEnv(100, frame_ages=SHAPES[shape][1]), 100, seed=2)
    parts = {key: th.from_numpy(part) for key, part in fights.parts.items()}
    for uniforms in (th.full((len(fights.masks), 12), -1.0), th.rand(len(fights.masks), 12)):
        compare(models[shape].policy, parts, th.from_numpy(fights.masks), uniforms)


@settings(max_examples=8, deadline=None)
@given(cases(contracts(), batch=16), st.integers(0, 2**31))
def test_graphs_of_random_policies_of_random_games(case: Case, seed: int) -> None:
    uniforms = th.rand(len(case.masks), len(case.policy.head_sizes), generator=th.Generator().manual_seed(seed))
    uniforms[::3] = -1.0
    compare(case.policy, case.observations, case.masks, uniforms)


def test_no_number_selects_what_is_impossible(models: dict[str, Any]) -> None:
    """Also those at the borders, and those that are none."""
    fights, graph = Fights(NhVecEnv(8), 4), actor_graph(models["plain heads"].policy)
    for number in (0.0, -0.0, 1e-38, 1 - 2**-24, 1.0, 7.0, -1e-9, -1e9, np.nan):
        found = run(
            graph,
            observation=fights.parts["observation"],
            action_mask=fights.masks,
            uniform=np.full((len(fights.masks), 12), number, np.float32),
        )
        chosen = np.exp(found["log_prob"])
        assert (chosen > 0).all() and found["probability"].min() >= 0


@pytest.mark.parametrize("policy", ["MlpPolicy", "MultiInputPolicy"])
def test_graphs_of_stock_policies(policy: str) -> None:
    model, fights = stock(policy), Fights(NhVecEnv(16), 4)
    with th.no_grad():
        for parameter in model.policy.action_net.parameters():
            # Not more: raw observations are large, and so would be logits and the errors of rounding them.
            parameter += 0.1 * th.randn(parameter.shape, generator=th.Generator().manual_seed(0))
    actor = {"observation": fights.parts["observation"], "action_mask": fights.masks}
    seen: Any = fights.parts["observation"][:, 0]
    if policy == "MultiInputPolicy":  # what is privileged is unknown while acting
        seen = fights.parts | {"privileged": np.zeros_like(fights.parts["privileged"])}
    found = run(actor_graph(model.policy), **actor, uniform=np.full((len(fights.masks), 12), -1, np.float32))
    predicted, _ = model.predict(seen, deterministic=True, action_masks=fights.masks)
    np.testing.assert_array_equal(found["action"], predicted)
    tensors, _ = model.policy.obs_to_tensor(seen)
    with th.no_grad():
        joint = model.policy.get_distribution(tensors, fights.masks).distributions
        _, log_probs, _ = model.policy.evaluate_actions(tensors, th.from_numpy(found["action"]), fights.masks)
        seen = fights.parts if policy == "MultiInputPolicy" else seen
        values = model.policy.predict_values(model.policy.obs_to_tensor(seen)[0]).flatten()
    # Where a head has no legal entry, sb3-contrib draws from all, and the graph takes the first.
    starts = np.cumsum([0, *model.action_space.nvec[:-1]])
    heads_with_choice = np.logical_or.reduceat(fights.masks, starts, axis=1)
    legal = heads_with_choice.all(1)
    assert not legal.all() and (found["probability"][:, starts][~heads_with_choice] == 1).all()
    probabilities = th.cat([head.probs for head in joint], 1)
    np.testing.assert_allclose(found["probability"][legal], probabilities[legal], **CLOSE)
    np.testing.assert_allclose(found["log_prob"][legal], log_probs[legal], rtol=1e-5, atol=2e-5)
    entropies = th.stack([head.entropy() for head in joint], 1)
    np.testing.assert_allclose(found["entropy"][legal], entropies[legal], **CLOSE)
    value = run(critic_graph(model.policy), **fights.parts | {"action_mask": fights.masks})["value"]
    np.testing.assert_allclose(value, values, rtol=1e-5, atol=1e-5)


def test_a_fighter_file_has_the_graphs_and_the_same_bytes_each_time(models: dict[str, Any], tmp_path: Path) -> None:
    for name in ("one", "two"):
        export_fighter(models["deep heads"], tmp_path / f"{name}.fighter")
    assert (tmp_path / "one.fighter").read_bytes() == (tmp_path / "two.fighter").read_bytes()
    entries = read(tmp_path / "one.fighter").entries
    assert {"actor.onnx", "critic.onnx"} < entries.keys()
    assert entries["actor.onnx"] == actor_graph(models["deep heads"].policy)


def test_a_graph_has_few_nodes(models: dict[str, Any]) -> None:
    """With a batch of one, they are its time."""
    onnx = pytest.importorskip("onnx")
    graph = onnx.load_from_string(actor_graph(models["plain heads"].policy)).graph
    assert len([node for node in graph.node if node.op_type != "Constant"]) < 12 * 9 + 30
    graph = onnx.load_from_string(actor_graph(models["deep heads"].policy)).graph
    assert len(branches(graph)) == 12


@pytest.mark.parametrize("shape", SHAPES)
def test_another_runtime_computes_the_same(models: dict[str, Any], shape: str) -> None:
    """ONNX's own, which follows the standard word by word."""
    onnx_reference = pytest.importorskip("onnx.reference")
    graph, fights = actor_graph(models[shape].policy), Fights(NhVecEnv(8, frame_ages=SHAPES[shape][1]), 4, seed=3)
    inputs = {"observation": fights.parts["observation"], "action_mask": fights.masks}
    inputs["uniform"] = np.random.default_rng(0).random((len(fights.masks), 12), np.float32)
    found, reference = run(graph, **inputs), onnx_reference.ReferenceEvaluator(graph)
    for rows in (slice(None), slice(1)):
        some = {key: part[rows] for key, part in inputs.items()}
        with np.errstate(all="ignore"):  # its logarithm of 0 is not finite
            action, probability = reference.run(["action", "probability"], some)
        np.testing.assert_array_equal(action, found["action"][rows])
        np.testing.assert_allclose(probability, found["probability"][rows], **CLOSE)


def branches(graph: Any) -> list[Any]:
    """What the conditions of a graph run if they hold."""
    named = [each for node in graph.node for each in node.attribute if each.name == "then_branch"]
    return [each.g for each in named]


def test_hidden_layers_of_a_head_only_run_if_it_has_a_choice() -> None:
    """Weights that are NaN show what has run."""
    sizes = [3, 2, 4]
    policy = AutoregressivePolicy(
        spaces.Box(-1, 1, (5,)), spaces.MultiDiscrete(sizes), lambda _: 0.0, net_arch=[2], head_arch=[4]
    )
    seen = np.zeros((1, 1, 5), np.float32)
    starts = np.cumsum([0, *sizes[:-1]])
    spoiled = []
    for head in range(3):
        other = copy.deepcopy(policy)
        other.heads.set_layers(head, [(weight * np.nan, bias) for weight, bias in policy.heads.layers(head)])
        spoiled.append(actor_graph(other))
    for free in product([False, True], repeat=3):
        mask = np.zeros((1, 9), bool)
        mask[:, starts + 1] = True  # entry 1 of each head
        for head in np.flatnonzero(free):
            mask[:, starts[head] + 1 - np.arange(2)] = True  # and entry 0
        for graph, runs in zip(spoiled, free, strict=True):
            found = run(graph, observation=seen, action_mask=mask, uniform=np.full((1, 3), 0.99, np.float32))
            assert np.isnan(found["log_prob"][0]) == runs
            assert (found["action"][0][~np.array(free)] == 1).all()
            if not any(free):
                assert found["log_prob"] == 0 and not found["entropy"].any()
                np.testing.assert_array_equal(found["probability"], mask)


@pytest.mark.parametrize("head_arch", [[], [4]])
def test_a_policy_that_computes_nan_shows_it(head_arch: list[int]) -> None:
    spaces_of = spaces.Box(-1, 1, (5,)), spaces.MultiDiscrete([3, 2])
    graph = actor_graph(AutoregressivePolicy(*spaces_of, lambda _: 0.0, net_arch=[2], head_arch=head_arch))
    seen, masks = np.full((1, 1, 5), np.nan, np.float32), np.ones((1, 5), bool)
    assert np.isnan(run(graph, observation=seen, action_mask=masks, uniform=np.zeros((1, 2), np.float32))["log_prob"])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_does_not_depend_on_the_others(models: dict[str, Any], shape: str) -> None:
    """In a batch almost all heads run, in a row alone few of them."""
    fights, graph = Fights(NhVecEnv(8, frame_ages=SHAPES[shape][1]), 8, seed=3), actor_graph(models[shape].policy)
    inputs = {"observation": fights.parts["observation"], "action_mask": fights.masks}
    inputs["uniform"] = np.random.default_rng(0).random((len(fights.masks), 12), np.float32)
    together = run(graph, **inputs)
    assert (together["log_prob"] == 0).any() and (together["log_prob"] != 0).any()
    session = session_of(graph)
    for row in range(len(fights.masks)):
        alone = session.run(OUTPUTS, {name: part[row : row + 1] for name, part in inputs.items()})
        for name, part in zip(OUTPUTS, alone, strict=True):
            np.testing.assert_allclose(part[0], together[name][row], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("space", [spaces.Discrete(300), spaces.MultiDiscrete([3, 90, 2])])
def test_heads_that_do_not_depend_on_each_other_are_decided_at_once(space: Any) -> None:
    seen = spaces.Box(-1, 1, (5,))
    flags = {"net_arch": [2], "autoregressive": isinstance(space, spaces.Discrete)}
    policy = AutoregressivePolicy(seen, space, lambda _: 0.0, **flags)
    generator = th.Generator().manual_seed(0)
    with th.no_grad():
        policy.heads.direct.weight.normal_(generator=generator)
    observation = th.rand(50, 5, generator=generator)
    masks = th.rand(50, policy.rules.num_flat, generator=generator) < 0.3
    masks[:, 0] = True
    uniforms = th.rand(50, len(policy.head_sizes), generator=generator)
    graph = actor_graph(policy)
    found = run(graph, observation=observation[:, None].numpy(), action_mask=masks.numpy(), uniform=uniforms.numpy())
    own = drawn(policy, observation, masks, uniforms)
    assert (own == found["action"])[clear_rows(policy, observation, masks, uniforms, own)].all()
    probabilities = policy.head_probabilities(observation, th.from_numpy(found["action"]), masks)
    np.testing.assert_allclose(found["probability"], probabilities, **CLOSE)
    assert len(graph) < 20_000, "no table of the effects of choices"


def test_what_a_graph_cannot_be_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MaskablePPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r'pip install "sb3-pvp\[onnx\]".*--no-onnx'):
        export_fighter(model, tmp_path / "x.fighter")
    export_fighter(model, tmp_path / "x.fighter", onnx=False)
    monkeypatch.undo()
    parts = {key: spaces.Box(-1, 1, (3,)) for key in ("left", "right")}
    policy = AutoregressivePolicy(spaces.Dict(parts), spaces.Discrete(2), lambda _: 0.0)
    with pytest.raises(ValueError, match="needs an observation with the part 'observation' and no others"):
        actor_graph(policy)
