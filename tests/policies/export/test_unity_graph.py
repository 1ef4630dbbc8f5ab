"""Graphs for Unity's ML-Agents: their names, and that each agent does what the model does."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch as th
from numpy.typing import NDArray

from sb3_pvp import MAPOCA, PvpPPO
from sb3_pvp.cli import main
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.export.inference import open_session
from sb3_pvp.policies.export.unity_graph import sensors_of, unity_graph
from sb3_pvp.policies.files.fighter_files import export_final
from sb3_pvp.policies.files.model_files import load_opponent

FLOAT, INTEGER = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def team(game: Any, **arguments: Any) -> MAPOCA:
    """A model with clear preferences."""
    given = {"net_arch": [32, 32], **arguments}
    model = MAPOCA(
        "MAPOCAPolicy", PvpVecEnv(2, game=game, seed=0), n_steps=2, batch_size=4, policy_kwargs=given, seed=0
    )  # type: ignore[arg-type]
    with th.no_grad():
        for name, weight in model.policy.networks.actor.output.named_parameters():
            weight.mul_(100)
            if name.endswith("bias"):
                weight.add_(th.randn(len(weight)))
    return model


def chosen(
    model: MAPOCA, seen: NDArray[np.float32], masks: NDArray[np.bool_], drawn: bool = False
) -> NDArray[np.int64]:
    """What a team decides, the most likely or ``drawn``, ``(rows, heads)``."""
    shape = len(seen), len(model.policy.head_sizes)
    numbers = th.rand(shape) if drawn else th.full(shape, -1.0)
    own = model.policy.slots.observations(th.from_numpy(seen))[0]
    decided: NDArray[np.int64] = model.policy.decide(own, th.from_numpy(masks), numbers)[0].numpy()
    return decided


@pytest.fixture(scope="module")
def twos() -> MAPOCA:
    return team("SoccerTwos-v0")


@pytest.fixture(scope="module")
def goalie() -> MAPOCA:
    return team("StrikersVsGoalie-v0", shared="kinds")


def rows(model: MAPOCA, count: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """What teams see, all in the game, and masks with a legal entry of each head."""
    contract, rng = model.policy.team_contract, np.random.default_rng(4)
    seen = rng.random((count, contract.num_observations), np.float32)
    for agent in contract.agents:
        if agent.active is not None:
            seen[:, contract.observation_index(agent.active)] = 1.0
    masks = rng.random((count, contract.num_flat_actions)) < 0.7
    masks[:, contract.head_offsets[:-1]] = True
    return seen, masks


def test_names_shapes_and_version_are_those_of_ml_agents(twos: MAPOCA) -> None:
    graph = onnx.load_from_string(unity_graph(twos.policy))
    found = {
        each.name: (
            each.type.tensor_type.elem_type,
            [d.dim_value or d.dim_param for d in each.type.tensor_type.shape.dim],
        )
        for each in (*graph.graph.input, *graph.graph.output)
    }
    assert found == {
        "obs_0": (FLOAT, ["batch", 264]),
        "obs_1": (FLOAT, ["batch", 72]),
        "action_masks": (FLOAT, ["batch", 9]),
        "version_number": (FLOAT, [1]),
        "memory_size": (FLOAT, [1]),
        "discrete_actions": (INTEGER, ["batch", 3]),
        "discrete_action_output_shape": (FLOAT, [1, 3]),
        "deterministic_discrete_actions": (INTEGER, ["batch", 3]),
    }
    assert [(each.domain, each.version) for each in graph.opset_import] == [("", 9)]
    constants = ["version_number", "memory_size", "discrete_action_output_shape"]
    inputs = {"obs_0": np.zeros((1, 264), np.float32), "obs_1": np.zeros((1, 72), np.float32)}
    given = inputs | {"action_masks": np.ones((1, 9), np.float32)}
    version, memory, shape = open_session(graph.SerializeToString()).run(constants, given)
    assert version.tolist() == [3.0] and memory.tolist() == [0.0] and shape.tolist() == [[3.0, 3.0, 3.0]]


@pytest.mark.parametrize("game", ["twos", "goalie"])
def test_onnx_runtime_chooses_what_the_model_does(game: str, request: pytest.FixtureRequest) -> None:
    model: MAPOCA = request.getfixturevalue(game)
    contract, (seen, masks) = model.policy.team_contract, rows(model, 1000)
    wanted = chosen(model, seen, masks)
    for number, agent in enumerate(contract.agents):
        first, end = agent.observations
        first += agent.active is not None
        borders = np.cumsum(sensors_of(contract, agent))[:-1]
        inputs = {f"obs_{place}": part for place, part in enumerate(np.split(seen[:, first:end], borders, 1))}
        inputs["action_masks"] = masks[:, contract.agent_entries[number]].astype(np.float32)
        graph = open_session(unity_graph(model.policy, agent.id))
        (decided,) = graph.run(["deterministic_discrete_actions"], inputs)
        assert np.array_equal(decided, wanted[:, slice(*agent.heads)])
        assert (decided.std(axis=0) > 0.3).sum() >= 2


def test_it_draws_as_the_model_does(twos: MAPOCA) -> None:
    seen, masks = (np.repeat(part[:1], 20_000, 0) for part in rows(twos, 1))
    with th.no_grad():
        for weight in (soft := team("SoccerTwos-v0")).policy.networks.actor.output.parameters():
            weight.mul_(0.1)
    inputs = {"obs_0": seen[:, :264], "obs_1": seen[:, 264:336], "action_masks": masks[:, :9].astype(np.float32)}
    (drawn,) = open_session(unity_graph(soft.policy)).run(["discrete_actions"], inputs)
    th.manual_seed(0)
    wanted = chosen(soft, seen, masks, drawn=True)[:, :3]
    for head in range(3):
        ours, theirs = (np.bincount(each[:, head], minlength=3) / len(each) for each in (wanted, drawn))
        np.testing.assert_allclose(ours, theirs, atol=0.02)
        assert not theirs[~masks[0, 3 * head : 3 * head + 3]].any()
    assert any(0.05 < share < 0.95 for share in np.bincount(drawn[:, 0]) / len(drawn))


@pytest.mark.parametrize("game", ["twos", "goalie"])
def test_our_reader_plays_a_team_of_them(game: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    model: MAPOCA = request.getfixturevalue(game)
    files = export_final(model, tmp_path / "end")
    names = ["end.onnx"] if game == "twos" else ["end-striker0.onnx", "end-goalie.onnx"]
    assert [file.name for file in files] == names
    contract, (seen, masks) = model.policy.team_contract, rows(model, 500)
    wanted = chosen(model, seen, masks)
    for file in files:
        opponent = load_opponent(file)
        for number, agent in enumerate(contract.agents):
            if game == "goalie" and ("goalie" in agent.id) != ("goalie" in file.name):
                continue
            one = opponent.of_agent(number, contract)  # type: ignore[attr-defined]
            state, begins = one.initial_state(range(500)), np.zeros(500, bool)
            own = slice(*agent.heads)
            played = one.predict(seen[:, None], state, begins, True, masks)[0]
            assert np.array_equal(played[:, own], wanted[:, own])


def test_what_cannot_be_such_a_graph_is_refused_in_one_line(twos: MAPOCA) -> None:
    with pytest.raises(ValueError, match=r"^agent0 of SoccerTwos-v0 sees 336 numbers, which sensors of \(300,\)"):
        unity_graph(twos.policy, sensors=[300])
    with pytest.raises(ValueError, match="goalie"):
        unity_graph(twos.policy, "goalie")
    ruled = copy.deepcopy(twos.policy)
    ruled.rules.forbids[0, 3] = 1.0
    with pytest.raises(ValueError, match="no rules between heads, as agent0 of SoccerTwos-v0 has"):
        unity_graph(ruled)
    alone = PvpPPO(AutoregressivePolicy, PvpVecEnv(1, game="SoccerTwos-v0"), n_steps=2, batch_size=2)
    with pytest.raises(ValueError, match="a AutoregressivePolicy has none"):
        unity_graph(alone.policy)
    frames = MAPOCA("MAPOCAPolicy", PvpVecEnv(1, game="SoccerTwos-v0", frame_ages=(0, 1)), n_steps=2, batch_size=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="several frames"):
        unity_graph(frames.policy)


def test_the_command_writes_it(twos: MAPOCA, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twos.save(tmp_path / "team.zip")

    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(["export", str(tmp_path / "team.zip"), *words])
        return int(end.value.code or 0), capsys.readouterr().err

    assert run("--mlagents") == (0, "")
    assert (tmp_path / "team.onnx").read_bytes() == unity_graph(twos.policy)
    assert run("--mlagents", "--sensors", "336", "-o", str(tmp_path / "one.onnx"))[0] == 0
    assert {"obs_0"} == {each.name for each in onnx.load(tmp_path / "one.onnx").graph.input} - {"action_masks"}
    for words, said in (
        (("--mlagents", "-o", "team.fighter"), "-o must end in .onnx"),
        (("--sensors", "336"), "--sensors is for --mlagents"),
        (("--mlagents", "--sensors", "a"), "such as 264,72"),
        (("--mlagents", "--sensors", "1,2"), "which sensors of (1, 2) do not have"),
        (("--mlagents", "--agent", "me"), "'me'"),
    ):
        code, error = run(*words)
        assert code == 2 and said in error and error.count("\n") == 1
