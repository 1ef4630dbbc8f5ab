"""Graphs with the names of Unity's ML-Agents, of both formats, decide for each agent of a team by itself."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sb3_pvp.game.contract import Agent, Contract, Head, Observation, SubAction
from sb3_pvp.policies.files.model_files import load_opponent
from sb3_pvp.policies.files.onnx_files import OnnxOpponent
from tests.policies.files.small_graphs import graph, unity, weights_of, written

YEARS = (2021, 2022)
SENSORS, BRANCHES = (3, 2), (3, 2, 4)
FEATURES, ENTRIES = sum(SENSORS), sum(BRANCHES)


def team(*agents: tuple[int, Sequence[int]], may_leave: bool = False) -> Contract:
    """A contract of agents that see so many numbers, and have branches of these sizes."""
    seen: list[Observation] = []
    heads: list[Head] = []
    made = []
    for number, (features, branches) in enumerate(agents):
        first, begin = len(seen), len(heads)
        # In the middle of what it sees, where an agent may have it too.
        names = [f"seen{number}_{place}" for place in range(features)]
        active = f"plays{number}" if may_leave else None
        names[1:1] = [active] if active else []
        seen += [Observation(name, "") for name in names]
        for branch, size in enumerate(branches):
            choices = tuple(SubAction(f"do{number}_{branch}_{entry}", "") for entry in range(size))
            heads.append(Head(f"branch{number}_{branch}", "", choices))
        made.append(Agent(f"agent{number}", (first, len(seen)), (begin, len(heads)), active))
    return Contract("team", tuple(heads), tuple(seen), tuple(made))


TWO = team((FEATURES, BRANCHES), (FEATURES, BRANCHES))


def ready(content: bytes, contract: Contract) -> OnnxOpponent:
    opponent = OnnxOpponent("unity.onnx", content)
    opponent.check(contract)
    return opponent


def rows(contract: Contract, count: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Observations, and masks with at least one legal entry of each head."""
    rng = np.random.default_rng(seed)
    masks = rng.random((count, contract.num_flat_actions)) < 0.6
    masks[:, contract.head_offsets[:-1]] = True
    return rng.standard_normal((count, contract.num_observations)).astype(np.float32), masks


def act(opponent: OnnxOpponent, seen: Any, masks: Any, deterministic: Any) -> NDArray[np.int64]:
    states = opponent.initial_state(range(len(seen)))
    actions, following = opponent.predict(seen, states, np.ones(len(seen), bool), deterministic, masks)
    assert following is not None and following.shape == states.shape and (following != states).all()
    return actions


def likeliest(seen: NDArray[np.float32], masks: NDArray[np.bool_], branches: Sequence[int]) -> NDArray[np.int64]:
    """What the layer of `unity` prefers for agents ``(N, features)``."""
    logits = np.where(masks, seen @ weights_of(0, seen.shape[1], sum(branches)), -np.inf)
    own = np.split(logits, np.cumsum(branches)[:-1], axis=1)
    return np.stack([each.argmax(1) for each in own], axis=1)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from(YEARS),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_each_agent_does_what_the_graph_prefers_for_it(
    num_agents: int, year: int, sensors: list[int], branches: list[int]
) -> None:
    sensors = [sum(sensors)] if year == 2021 else sensors
    features, contract = sum(sensors), team(*[(sum(sensors), branches)] * num_agents)
    seen, masks = rows(contract, 9)
    actions = act(ready(unity(year, sensors, branches), contract), seen, masks, True)
    for agent in range(num_agents):
        own = slice(agent * features, (agent + 1) * features)
        expected = likeliest(seen[:, own], masks[:, contract.agent_entries[agent]], branches)
        assert np.array_equal(actions[:, slice(*contract.agents[agent].heads)], expected)


@pytest.mark.parametrize("year", YEARS)
def test_all_agents_of_all_fights_are_one_batch(year: int) -> None:
    opponent = ready(unity(year, SENSORS if year == 2022 else [FEATURES], BRANCHES), TWO)
    runs: list[int] = []
    session = opponent._graph._session

    class Counting:
        def run(self, names: Any, given: Any) -> Any:
            runs.append(len(given["action_masks"]))
            return session.run(names, given)

    opponent._graph._session = Counting()
    act(opponent, *rows(TWO, 50), np.arange(50) % 2 == 0)
    assert runs == [100]


@pytest.mark.parametrize("year", YEARS)
def test_sampled_actions_are_legal_and_as_likely_as_the_graph_says(year: int) -> None:
    opponent, count = ready(unity(year, SENSORS if year == 2022 else [FEATURES], BRANCHES), TWO), 20_000
    seen, masks = (np.repeat(part[:1], count, 0) for part in rows(TWO, 1, seed=5))
    assert not masks.all()
    actions = act(opponent, seen, masks, False)
    for agent in range(2):
        logits = seen[0, agent * FEATURES :][:FEATURES] @ weights_of(0, FEATURES, ENTRIES)
        logits = np.where(masks[0, TWO.agent_entries[agent]], logits, -np.inf)
        for head, own in enumerate(np.split(logits, np.cumsum(BRANCHES)[:-1])):
            chances = np.exp(own - own.max()) / np.exp(own - own.max()).sum()
            counts = np.bincount(actions[:, agent * len(BRANCHES) + head], minlength=len(own))
            assert (counts[chances == 0] == 0).all()
            assert (np.abs(counts / count - chances) < 5 * np.sqrt(chances * (1 - chances) / count) + 1e-3).all()


def test_a_seed_repeats_what_a_graph_of_2021_draws() -> None:
    opponent, (seen, masks) = ready(unity(2021, [FEATURES], BRANCHES), TWO), rows(TWO, 40)
    first = act(opponent, seen, masks, False)
    assert np.array_equal(first, act(opponent, seen, masks, False))
    other, _ = opponent.predict(seen, opponent.initial_state(range(40, 80)), np.ones(40, bool), False, masks)
    assert not np.array_equal(first, other)


def test_a_head_without_a_legal_entry_takes_the_first() -> None:
    opponent, (seen, masks) = ready(unity(2021, [FEATURES], BRANCHES), TWO), rows(TWO, 40)
    masks[:, 3:5] = False
    for deterministic in (True, False):
        assert not act(opponent, seen, masks, deterministic)[:, 1].any()


def test_a_game_without_agents_has_one() -> None:
    contract = Contract("alone", TWO.heads[:3], TWO.observations[:FEATURES])
    seen, masks = rows(contract, 9)
    opponent = ready(unity(2022, SENSORS, BRANCHES), contract)
    assert np.array_equal(act(opponent, seen, masks, True), likeliest(seen, masks, BRANCHES))


class TestTeamsThatDiffer:
    """Strikers and a goalkeeper are different agents, and each seat has one kind of them."""

    contract = team((FEATURES, BRANCHES), (FEATURES, BRANCHES), (4, (2,)), may_leave=True)

    def seen(self, *active: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        seen, masks = rows(self.contract, 20)
        seen[:, [1, FEATURES + 2, 2 * FEATURES + 3]] = active
        return seen, masks

    def test_a_graph_plays_for_those_that_it_fits(self) -> None:
        opponent = ready(unity(2022, SENSORS, BRANCHES), self.contract)
        seen, masks = self.seen(1, 1, 0)
        actions = act(opponent, seen, masks, True)
        for agent in range(2):
            begin = agent * (FEATURES + 1)
            own = seen[:, [begin, *range(begin + 2, begin + FEATURES + 1)]]
            expected = likeliest(own, masks[:, self.contract.agent_entries[agent]], BRANCHES)
            assert np.array_equal(actions[:, 3 * agent : 3 * agent + 3], expected)
        assert not actions[:, 6:].any()

    def test_who_is_out_of_the_game_does_nothing(self) -> None:
        opponent = ready(unity(2022, SENSORS, BRANCHES), self.contract)
        actions = act(opponent, *self.seen(1, 0, 0), True)
        assert actions[:, :3].any() and not actions[:, 3:].any()

    def test_it_cannot_play_for_others(self) -> None:
        opponent = ready(unity(2022, SENSORS, BRANCHES), self.contract)
        with pytest.raises(ValueError, match="^unity.onnx cannot decide for all agents of its team"):
            act(opponent, *self.seen(0, 0, 1), True)

    def test_in_a_team_of_several_fighters_it_plays_for_one(self) -> None:
        opponent, (seen, masks) = ready(unity(2022, SENSORS, BRANCHES), self.contract), self.seen(1, 1, 1)
        second = opponent.of_agent(1, self.contract)
        actions = act(second, seen, masks, True)
        assert actions[:, 3:6].any() and not actions[:, [0, 1, 2, 6]].any()
        assert np.array_equal(actions, act(pickle.loads(pickle.dumps(second)), seen, masks, True))
        with pytest.raises(ValueError, match="^unity.onnx cannot play agent2 of team, who sees 4 features"):
            opponent.of_agent(2, self.contract)
        whole = ready(unity(2022, [2 * FEATURES], 2 * BRANCHES), TWO)
        assert whole.of_agent(0, TWO) is whole

    def test_nobody_may_be_left_over(self) -> None:
        mixed = team((FEATURES, BRANCHES), (4, (2,)))
        with pytest.raises(ValueError, match=r"team has 9 and 11 \(each agent 4 and 2, or 5 and 9\)$"):
            ready(unity(2022, SENSORS, BRANCHES), mixed)


def refusal(content: bytes, folder: Path, contract: Contract = TWO) -> str:
    with pytest.raises(ValueError) as error:
        load_opponent(written(content, folder)).check(contract)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_other_sizes_are_refused_in_one_line(tmp_path: Path) -> None:
    sizes = r"chooses among 9 entries of all heads, but team has 10 and 18 (each agent 5 and 9)"
    assert f"sees 6 features, and {sizes}" in refusal(unity(2022, (3, 3), BRANCHES), tmp_path)
    assert "chooses among 8 entries" in refusal(unity(2021, [FEATURES], (3, 2, 3)), tmp_path)
    for branches in ((5, 4), (9,)):  # as many entries
        words = f"cannot act: its discrete_actions are actions of the shape (2, {len(branches)}), not (2, 3)"
        assert words in refusal(unity(2022, SENSORS, branches), tmp_path)


def test_what_cannot_play_is_refused_in_one_line(tmp_path: Path) -> None:
    given = f"float[batch,5] obs_0, float[batch,{ENTRIES}] action_masks"
    zeros = "few = Slice(action_masks, zeros, threes, axes)  discrete_actions = Mul(few, zero)"
    cuts: Any = {"zeros": np.array([0]), "threes": np.array([3])}
    for inputs, outputs, nodes, words in (
        (f"{given}, float[batch,1,8] recurrent_in", "float[batch,3] discrete_actions", zeros, "it has 'recurrent_in'"),
        (f"{given}, float[batch,3,8,8] visual", "float[batch,3] discrete_actions", zeros, "it has 'visual'"),
        (
            given,
            "float[batch,3] discrete_actions, float[batch,5] continuous_actions",
            f"{zeros}  continuous_actions = Identity(obs_0)",
            "it has 'continuous_actions'",
        ),
        (
            given.replace("5]", "5,5]"),
            "float[batch,3] discrete_actions",
            zeros,
            "its input 'obs_0' must have any batch",
        ),
        (given.replace("obs_0", "state"), "float[batch,3] discrete_actions", zeros, "it has 'state'"),
        (given, "float[batch,3] discrete_actions", zeros, "are log-probabilities of the shape (2, 3), not (2, 9)"),
    ):
        assert words in refusal(graph(inputs, outputs, nodes, **cuts), tmp_path)


def test_nonsense_names_the_file(tmp_path: Path) -> None:
    given = f"float[batch,5] obs_0, float[batch,{ENTRIES}] action_masks"
    for nodes, words in (
        ("none = Mul(action_masks, zero)  discrete_actions = Div(none, none)", "it computes NaN"),
        (
            "few = Slice(action_masks, zeros, threes, axes)  discrete_actions = Mul(few, half)"
            "  deterministic_discrete_actions = Identity(few)",
            "it chose 0.5, which no head of the sizes (3, 2, 4) has",
        ),
    ):
        names = [name for name in ("discrete_actions", "deterministic_discrete_actions") if f" {name} =" in nodes]
        made = graph(
            given,
            ", ".join(f"float[batch,width] {name}" for name in names),
            nodes,
            zeros=np.array([0]),
            threes=np.array([3]),
            half=np.array(0.5, np.float32),
        )
        assert f"stranger.onnx cannot act: {words}" in refusal(made, tmp_path)
