"""A seat may be a team: agents divide the observations and heads of a contract."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.contract_page import render_page
from sb3_pvp import PvpPPO, load
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game.checks import check_world
from sb3_pvp.game.contract import Agent, Contract, ContractError, Head, Observation, SubAction, read_contract
from sb3_pvp.matches.evaluation import evaluate_model
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files.description import contract_hash
from sb3_pvp.policies.files.fighter_files import export_fighter
from tests.game.team_game import AGENTS, CONTRACT, CoinsForTwo, CoinsForTwoWorld


def of_sizes(sizes: list[tuple[int, int]], shift: int = 0) -> Contract:
    """A contract whose agents have so many observations and heads, each range but the first shifted."""
    seen, heads = (int(total) for total in np.sum(sizes, axis=0))
    ends = np.cumsum([(0, 0), *sizes], axis=0).tolist()
    agents = [
        Agent(f"agent_{number}", (begin[0] + shift * (number > 0), end[0]), (begin[1], end[1]))
        for number, (begin, end) in enumerate(pairwise(ends))
    ]
    return Contract(
        "team",
        tuple(Head(f"head_{i}", "", (SubAction(f"no_{i}", ""), SubAction(f"yes_{i}", ""))) for i in range(heads)),
        tuple(Observation(f"seen_{i}", "") for i in range(seen)),
        tuple(agents),
    )


RIGHT = SubAction("right", "")
sizes_of_agents = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=4)


@given(sizes_of_agents)
def test_agents_divide_everything(sizes: list[tuple[int, int]]) -> None:
    contract = of_sizes(sizes)
    entries = [entry for part in contract.agent_entries for entry in range(part.start, part.stop)]
    assert entries == [*range(contract.num_flat_actions)]
    assert [part.stop - part.start for part in contract.agent_entries] == [2 * heads for _, heads in sizes]
    assert contract.active_agents(np.zeros((3, contract.num_observations))).tolist() == [[True] * len(sizes)] * 3
    for copied in (pickle.loads(pickle.dumps(contract)), copy.deepcopy(contract)):
        assert copied == contract and copied.agents == contract.agents


@given(sizes_of_agents.filter(lambda sizes: len(sizes) > 1), st.sampled_from([-1, 1]))
def test_ranges_that_overlap_or_leave_a_gap_are_refused(sizes: list[tuple[int, int]], shift: int) -> None:
    fault = "overlap with" if shift < 0 else "leave a gap to"
    with pytest.raises(ContractError, match=f"{fault} those before"):
        of_sizes(sizes, shift)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": AGENTS[:1]}, "the agents have 2 observations together, but the contract has 4"),
        ({"agents": (AGENTS[0], replace(AGENTS[1], heads=(1, 1)))}, "agent 'second' has no heads: 1 to 1"),
        ({"agents": (AGENTS[0], replace(AGENTS[1], observations=(2, 5)))}, "the agents have 5 observations together"),
        ({"agents": (AGENTS[0], replace(AGENTS[1], id="first"))}, "agent id 'first' is used twice"),
        (
            {"agents": (AGENTS[0], replace(AGENTS[1], active="first_plays"))},
            "agent 'second' is active by 'first_plays', which is no observation of its own",
        ),
        ({"agents": (AGENTS[0], replace(AGENTS[1], active="playing"))}, "which is no observation of its own"),
        ({"agents": (AGENTS[0], replace(AGENTS[1], seats=()))}, "agent 'second' is on the seats"),
        ({"agents": (AGENTS[0], replace(AGENTS[1], seats=(1, 2)))}, "but there are the seats 0 and 1"),
        (
            {"agents": (Agent("first", (0, 1), (0, 1)), Agent("second", (1, 4), (1, 2)))},
            "agents that share weights must have observations and heads of the same sizes",
        ),
        (
            {"heads": (CONTRACT.heads[0], Head("side", "", (SubAction("left", "", ("first_heads",)), RIGHT)))},
            "a rule of agent 'second' names a choice of 'first', but agents act at the same time",
        ),
    ],
)
def test_wrong_teams_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ContractError, match=message) as raised:
        replace(CONTRACT, **changes)
    assert "\n" not in str(raised.value)


def test_teams_are_read_from_files(tmp_path: Path) -> None:
    plain: dict[str, Any] = {
        "format": "sb3_pvp.contract",
        "version": 1,
        "name": "coins_for_two",
        "heads": [
            {"id": each.id, "about": "", "choices": [{"id": choice.id, "about": ""} for choice in each.actions]}
            for each in CONTRACT.heads
        ],
        "observations": [{"id": each.id, "about": ""} for each in CONTRACT.observations],
        "agents": [
            {"id": "first", "observations": [0, 2], "heads": [0, 1]},
            {"id": "second", "observations": [2, 4], "heads": [1, 2], "active": "second_plays"},
        ],
        "shared_weights": True,
    }
    (file := tmp_path / "coins.json").write_text(json.dumps(plain))
    assert read_contract(file) == CONTRACT
    plain["agents"][1]["heads"] = [0, 2]
    file.write_text(json.dumps(plain))
    with pytest.raises(ContractError, match=r"contract file .*coins\.json: the heads 0 to 2 of agent 'second' overlap"):
        read_contract(file)


def test_only_teams_change_the_hash_and_the_page() -> None:
    alone = replace(CONTRACT, agents=(), shared_weights=False)
    assert contract_hash(alone) != contract_hash(CONTRACT) != contract_hash(replace(CONTRACT, shared_weights=False))
    assert "team" not in render_page([alone])
    page = render_page([CONTRACT])
    assert "A seat is a team of 2 agents; one policy can play all of them." in page
    assert "| `second` | 2 to 3 | 1 to 1 | `second_plays` |" in page


@pytest.mark.slow
def test_a_team_trains_as_one_big_contract(tmp_path: Path) -> None:
    check_world(CoinsForTwoWorld(8, seed=0), ticks=20)
    env = PvpVecEnv(32, game=CoinsForTwo, opponent="baseline", seed=0)
    settings: dict[str, Any] = {"n_steps": 8, "batch_size": 64, "n_epochs": 4, "gamma": 0.0, "seed": 0}
    model = PvpPPO(AutoregressivePolicy, env, 3e-3, policy_kwargs={"net_arch": [16]}, device="cpu", **settings)
    model.learn(8_000)
    score = evaluate_model(model, PvpVecEnv(32, game=CoinsForTwo, opponent="baseline", seed=1), 200)
    assert score.losses == 0, "both agents name the coins that they see"
    model.save(tmp_path / "team")
    export_fighter(model, tmp_path / "team.fighter", onnx=False)
    seen = env.reset()
    for file in ("team.zip", "team.fighter"):
        again, _ = load(tmp_path / file).predict(seen, deterministic=True)
        np.testing.assert_array_equal(again, model.predict(seen, deterministic=True)[0])
    active = CONTRACT.active_agents(seen["observation"][:, 0])
    assert active[:, 0].all() and set(active[:, 1]) == {True, False}


def test_an_agent_alone_has_a_contract_of_its_own() -> None:
    own = CONTRACT.of_agent(AGENTS[1])
    assert [each.id for each in own.observations] == ["second_coin", "second_plays"]
    assert own.head_sizes == (2,) and own.flat_index("second_heads") == 1 and own.agents == ()
    assert CONTRACT.agent_index("second") == 1
