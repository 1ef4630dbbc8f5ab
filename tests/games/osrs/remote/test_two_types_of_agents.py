"""Agents of both contracts on one server (contract.md §6, protocol.md §3.2)."""

from __future__ import annotations

from typing import Any

import pytest

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.remote.messages import AGENT_TYPES
from sb3_pvp.games.osrs.remote.served_games import ServedGames
from sb3_pvp.games.osrs.remote.step_actions import ActionCheck
from sb3_pvp.games.osrs.sim import SimWorld
from tests.games.osrs.remote.fake_world import FakeWorld
from tests.games.osrs.remote.wire import NO_OP, Wire, error, only

DHAROK = load_contract("DharokEnv")
NO_HEADS = [0] * DHAROK.num_heads
#: An attack in every tick, and no food.
ATTACKS = {"NhEnv": [3, 1, *NO_OP[2:]], "DharokEnv": [1, *NO_HEADS[1:]]}


def both() -> Wire:
    """Agent 1 plays NhEnv, agent 2 DharokEnv."""
    wire = Wire()
    wire.login("1")
    assert wire.ask("2", "login", {"agentType": "DharokEnv"}) == [{}]
    return wire


def test_each_type_has_its_own_worlds() -> None:
    wire = both()
    assert [(world.contract.name, world.seed) for world in wire.worlds] == [("NhEnv", 7), ("DharokEnv", 7)]
    starts = [only(wire.reset(agent, "baseline", maintainTargetEnvironment=True))["body"] for agent in ("1", "2")]
    assert [len(start["obs"]) for start in starts] == [176, 40]
    assert [len(start["meta"]["targetObs"]) for start in starts] == [176, 40]
    assert [[len(head) for head in start["actionMasks"]] for start in starts][1] == [4, 4, 2, 2, 2, 3]
    steps = wire.send_step("1"), wire.send_step("2", [3, *NO_HEADS[1:]])
    wire.lobby.play()
    assert [only(step)["body"]["obs"][2] for step in steps] == [0, 3]
    types = [info["envType"] for info in only(wire.ask(None, "debug"))["body"]]
    assert types == ["NhEnvironmentDescriptor", "DharokEnvironmentDescriptor"]


def test_a_world_is_made_when_its_first_agent_logs_in() -> None:
    made: list[str] = []

    def make_world(num_fights: int, seed: int, *, contract: str) -> FakeWorld:
        made.append(contract)
        return FakeWorld(num_fights, seed, contract=contract)

    wire = Wire(make_world=make_world)
    assert made == []
    wire.login("1", "2")
    assert made == ["NhEnv"]


def test_a_type_that_the_world_does_not_know() -> None:
    def make_world(num_fights: int, seed: int, *, contract: str) -> FakeWorld:
        raise ValueError(f"no {contract} here")

    wire = Wire(make_world=make_world)
    assert error(wire.ask("1", "login", {"agentType": "NhEnv"})).endswith("no NhEnv here")
    assert "agentType must be NhEnv or DharokEnv" in error(wire.ask("1", "login", {"agentType": "Nope"}))
    assert only(wire.ask(None, "debug")) == {"body": []}


def test_different_types_cannot_fight_each_other() -> None:
    wire = both()
    for agent, target in (("1", "2"), ("2", "1")):
        assert "log both in with the same agentType" in error(wire.reset(agent, target))
        assert "body" in only(wire.reset(agent, "baseline"))


def test_waiting_for_an_agent_that_logs_in_with_another_type_is_an_error() -> None:
    wire = Wire()
    wire.login("1")
    waiting = wire.reset("1", "2")
    wire.ask("2", "login", {"agentType": "DharokEnv"})
    assert waiting == []
    refused = wire.reset("2", "1")
    assert error(waiting) == error(refused)
    assert "body" in only(wire.reset("1", "baseline"))


def test_reset_parameters_of_the_other_type_do_nothing() -> None:
    wire = both()
    params: dict[str, Any] = {"accountBuild": "FOO", "randomBuildOptions": [], "randomizeBuild": True, "agent": "2"}
    assert "body" in only(wire.reset("2", "baseline", resetParams=params))
    assert wire.worlds[1].options[0]["seat_reset_params"] == ({"agent": "2"}, {"agent": "2"})
    assert "JsonSyntaxException" in error(wire.reset("2", "baseline", resetParams={"episodeId": []}))


@pytest.mark.parametrize(
    ("action", "expected", "played"),
    [
        ([9, 0, 1, 0, 1, 2], "IllegalArgumentException: 9: attack must be", [0, 0, 1, 0, 1, 2]),
        ([1, 0, 1, 0, 9, 2], "IllegalArgumentException: 9: vengeance must be", [0, 0, 1, 0, 0, 2]),
        ([1, 1, 1, 0, 1, 9], "IllegalArgumentException: 9: gear must be", [0, 1, 1, 0, 0, 0]),
        ([1, 1, 1, 9, 1, 1], "IllegalArgumentException: 9: karambwan must be", [0, 1, 1, 0, 0, 0]),
        ([1, 9, 1, 1, 1, 1], "IllegalArgumentException: 9: potion must be", [0, 0, 1, 0, 0, 0]),
        ([1, 1, 9, 1, 1, 1], "IllegalArgumentException: 9: food must be", NO_HEADS),
        (NO_OP, "IllegalArgumentException: [0, 0", NO_HEADS),
    ],
)
def test_heads_before_an_invalid_choice_are_played(action: list[int | None], expected: str, played: list[int]) -> None:
    result, refusal = ActionCheck(DHAROK).playable(action)
    assert result == played
    assert str(refusal).startswith(expected)


@pytest.mark.parametrize("agent_type", AGENT_TYPES)
def test_a_fight_of_each_type_to_its_end_in_the_embedded_world(agent_type: str) -> None:
    wire = Wire(make_world=SimWorld)
    contract = load_contract(agent_type)
    assert wire.ask("1", "login", {"agentType": agent_type}) == [{}]
    for _ in range(2):
        body = only(wire.reset("1", "baseline", deathMatch=True, maintainTargetEnvironment=True))["body"]
        assert body["meta"]["episodeTicks"] == 1
        assert len(body["obs"]) == len(body["meta"]["targetObs"]) == contract.num_observations
        while "terminalState" not in body:
            before = body
            body = step(wire, ATTACKS[agent_type])
        assert body["terminalState"] in ("WON", "LOST")
        assert body["meta"]["episodeTicks"] == before["meta"]["episodeTicks"] + 1
        health = before["meta"]["currentHealthPercent"], before["meta"]["currentTargetHealthPercent"]
        assert 0.0 in health


def step(wire: Wire, action: list[int]) -> dict[str, Any]:
    """Plays a tick of agent 1, and returns the body of the reply."""
    replies = wire.send_step("1", action)
    wire.lobby.play()
    body: dict[str, Any] = only(replies)["body"]
    return body


def test_games_are_closed_together() -> None:
    wire = both()
    wire.lobby._games.close()
    assert [world.closed for world in wire.worlds] == [True, True]


def test_there_is_one_arena_per_type() -> None:
    games = ServedGames(FakeWorld, first_size=1)
    assert games["NhEnv"] is games["NhEnv"]
    assert [arena.contract.name for arena in games] == ["NhEnv"]
