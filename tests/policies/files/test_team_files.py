"""Files of MAPOCA: zips and fighter files that any project reads, graphs of an agent, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

import sb3_pvp
from sb3_pvp.algorithms.mapoca import MAPOCA, MAPOCAPolicy
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.games.gate import Gate
from sb3_pvp.games.soccer import STRIKERS_VS_GOALIE
from sb3_pvp.policies.files.description import describe
from sb3_pvp.policies.files.fighter_files import export_fighter, export_graph
from sb3_pvp.policies.files.model_files import load_opponent, model_opponent
from sb3_pvp.policies.files.registry import algorithm_of, find_algorithm, name_of
from sb3_pvp.serving.fighters import ModelSource
from tests.algorithms.test_mapoca import team_of_dancers

GAMES = {"gate": (Gate, True), "strikers": (STRIKERS_VS_GOALIE, "kinds"), "each": (STRIKERS_VS_GOALIE, False)}


def new_model(kind: str, frame_ages: tuple[int, ...] = (0, 2)) -> MAPOCA:
    game, shared = GAMES[kind]
    env = PvpVecEnv(4, game=game, opponent="self", seed=0, frame_ages=frame_ages)
    kwargs = {"net_arch": [16, 16], "shared": shared}
    model = MAPOCA(MAPOCAPolicy, env, n_steps=4, batch_size=8, policy_kwargs=kwargs, seed=1)
    model.learn(16)
    with th.no_grad():  # so that an action depends on what is seen
        for name, part in model.policy.named_parameters():
            if "output" in name:
                part.mul_(30)
    return model


def played(model: Any, count: int = 64) -> tuple[dict[str, Any], Any]:
    """Returns observations, and the likeliest actions for them."""
    parts = {key: np.zeros((count, *part.shape), np.float32) for key, part in model.observation_space.spaces.items()}
    rng = np.random.default_rng(0)
    parts["observation"] = rng.normal(size=parts["observation"].shape).astype(np.float32)
    contract = model.policy.team_contract
    for agent in contract.agents:
        if agent.active is not None:
            parts["observation"][..., contract.observation_index(agent.active)] = 1
    parts["action_mask"] = (rng.random(parts["action_mask"].shape) < 0.7).astype(np.float32)
    return parts, model.predict(parts, deterministic=True)[0]


@pytest.mark.parametrize("kind", GAMES)
def test_files_act_as_the_model_does(kind: str, tmp_path: Path) -> None:
    model = new_model(kind)
    seen, expected = played(model)
    assert len(np.unique(expected, axis=0)) > 4
    model.save(tmp_path / "team.zip")
    export_fighter(model, tmp_path / "team.fighter", onnx=kind == "gate")
    for file, safe in (("team.zip", False), ("team.zip", True), ("team.fighter", False)):
        again = sb3_pvp.load(tmp_path / file, safe=safe)
        assert type(again) is MAPOCA and name_of(again) == "mapoca"
        assert (again.game, (*again.frame_ages,), again.num_timesteps) == (model.game, (0, 2), model.num_timesteps)
        assert np.array_equal(again.predict(seen, deterministic=True)[0], expected)
        opponent = load_opponent(tmp_path / file, safe=safe)
        opponent.check(model.policy.contract)
        given = seen["observation"], opponent.initial_state([*range(64)]), np.ones(64, bool)
        actions, _ = opponent.predict(*given, True, seen["action_mask"] != 0)
        assert np.array_equal(actions, expected)
        assert opponent.content_hash == model_opponent(model).content_hash
    other = new_model(kind)
    other.learn(16, reset_num_timesteps=False)
    assert model_opponent(other).content_hash != opponent.content_hash
    with ZipFile(tmp_path / "team.fighter") as file:
        about = json.loads(file.read("fighter.json"))
        assert (about["format"], about["algorithm"]) == (3, "mapoca")
        assert ("actor.onnx" in file.namelist()) == (kind == "gate")


def test_rows_of_an_opponent_do_not_depend_on_each_other() -> None:
    model = new_model("strikers")
    seen, _ = played(model)
    opponent = model_opponent(model)
    state, masks = opponent.initial_state([*range(64)]), seen["action_mask"] != 0
    whole, following = opponent.predict(seen["observation"], state, np.ones(64, bool), False, masks)
    for rows in (slice(0, 1), slice(5, 12), slice(20, 60)):
        given = seen["observation"][rows], state[rows], np.ones(64, bool)[rows], False, masks[rows]
        part, left = opponent.predict(*given)
        assert np.array_equal(part, whole[rows]) and np.array_equal(left, following[rows])
    again, _ = opponent.predict(seen["observation"], following, np.zeros(64, bool), False, masks)
    assert not np.array_equal(again, whole)
    with pytest.raises(ValueError, match="NaN"):
        opponent.predict(seen["observation"] * np.nan, state, np.ones(64, bool), False, masks)


@pytest.mark.parametrize(("kind", "agent"), [("gate", None), ("gate", "third"), ("strikers", "goalie")])
def test_the_graph_of_an_agent_decides_as_predict_does(kind: str, agent: str | None, tmp_path: Path) -> None:
    model = new_model(kind)
    seen, expected = played(model)
    export_graph(model, tmp_path / "agent.onnx", agent)
    contract = model.policy.team_contract
    number = 0 if agent is None else contract.agent_index(agent)
    own, entries = contract.agents[number], contract.agent_entries[number]
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "agent.onnx")
    given = {
        "observation": np.ascontiguousarray(seen["observation"][..., slice(*own.observations)]),
        "action_mask": seen["action_mask"][:, entries] != 0,
        "uniform": np.full((64, own.heads[1] - own.heads[0]), -1.0, np.float32),
    }
    actions, log_probs = session.run(["action", "log_prob"], given)
    assert np.array_equal(actions, expected[:, slice(*own.heads)]) and (log_probs <= 0).all()
    assert all(part.requires_grad for part in model.policy.networks.parameters())
    if kind == "gate":  # in a fight it decides for all agents
        opponent = load_opponent(tmp_path / "agent.onnx")
        opponent.check(model.policy.contract)
        assert opponent.frame_ages == (0, 2)
        state = opponent.initial_state([*range(64)])
        joint, _ = opponent.predict(seen["observation"], state, np.ones(64, bool), True, seen["action_mask"] != 0)
        assert np.array_equal(joint, expected)


def test_rules_between_heads_are_in_files_and_graphs(tmp_path: Path) -> None:
    contract = team_of_dancers()
    space = spaces.Dict(observation=contract.stacked_space(1), action_mask=spaces.Box(0, 1, (8,)))
    policy = MAPOCAPolicy(space, contract.action_space, lambda _: 1e-3, contract=contract, net_arch=[8])
    from sb3_pvp.policies.export.inference import open_session
    from sb3_pvp.policies.export.team_graph import agent_graph

    session = open_session(agent_graph(policy, "two"))
    rng = np.random.default_rng(1)
    given = {
        "observation": rng.normal(size=(200, 1, 2)).astype(np.float32),
        "action_mask": np.ones((200, 4), bool),
        "uniform": rng.random((200, 2)).astype(np.float32),
    }
    actions = session.run(["action"], given)[0]
    assert np.array_equal(actions[:, 1] == 1, actions[:, 0] == 0) and 0 < (actions[:, 0] == 0).sum() < 200

    # In a project without the game, its rules come with the weights.
    model = MAPOCA(MAPOCAPolicy, None, _init_setup_model=False)
    vars(model).update(observation_space=policy.observation_space, action_space=policy.action_space, num_timesteps=3)
    model.policy = policy
    export_fighter(model, tmp_path / "dancers.fighter", onnx=False)
    again = sb3_pvp.load(tmp_path / "dancers.fighter")
    assert again.policy.contract.name == "team"
    actions, _ = again.policy.act({"observation": th.randn(200, 1, 4), "action_mask": th.ones(200, 8)})
    assert th.equal(actions[:, 1] == 1, actions[:, 0] == 0) and th.equal(actions[:, 3] == 1, actions[:, 2] == 0)


@pytest.mark.slow
def test_a_zip_loads_in_another_project(tmp_path: Path) -> None:
    new_model("gate").save(tmp_path / "team.zip")
    script = f"""
import sys, numpy as np
import sb3_pvp
model = sb3_pvp.load({str(tmp_path / "team.zip")!r})
assert "sb3_pvp.games.gate" not in sys.modules and "rl_zoo3" not in sys.modules
seen = {{key: np.zeros(part.shape, np.float32) for key, part in model.observation_space.spaces.items()}}
seen["action_mask"][:] = 1
print(type(model).__name__, model.predict(seen)[0].shape)
"""
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout == "MAPOCA (3,)\n"


def test_a_served_team_only_acts(tmp_path: Path) -> None:
    model = new_model("gate")
    export_fighter(model, tmp_path / "team.fighter", onnx=False)
    fighter = ModelSource(tmp_path / "team.fighter", "auto", "cpu").open()
    assert fighter.form.only_acts and fighter.form.head_sizes == (3, 3, 3) and fighter.form.num_frames == 2


def test_refusals(tmp_path: Path) -> None:
    model = new_model("gate")
    model.save(tmp_path / "team.zip")
    assert algorithm_of(model) is find_algorithm("mapoca")
    with pytest.raises(ValueError, match="unknown agent 'forth'"):
        export_graph(model, tmp_path / "a.onnx", "forth")
    assert not (tmp_path / "a.onnx").exists()
    with pytest.raises(ValueError, match="trained in another game.*but StrikersVsGoalie-v0 has"):
        load_opponent(tmp_path / "team.zip").check(STRIKERS_VS_GOALIE.contract)
    plain = describe(model).plain()
    for fault, change in {
        "leave a gap": {
            "agents": [{"observations": [0, 6], "heads": [0, 1]}, {"observations": [7, 18], "heads": [1, 3]}]
        },
        "a number that nobody sees": {"agents": [{"observations": [0, 18], "heads": [0, 3], "active": 18}]},
        "must be a non-negative integer": {"agents": [{"observations": [-5, 18], "heads": [0, 3]}]},
        "of one size": {"actor": [{"size": 16}, {"size": 8}]},
        "more weights": {"actor": [{"size": 4096}] * 2, "critic": [{"size": 4096}] * 2},
        "too large: its agents see": {"agents": [{"observations": [10**9, 10**9 + 1], "heads": [0, 3]}]},
    }.items():
        kind = type(describe(model))
        with pytest.raises(ValueError, match=fault):
            kind.model_validate_json(json.dumps(plain | change)).check(100_000)
