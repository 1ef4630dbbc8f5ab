"""Replies to bad requests (protocol-observed.md, answers to bad input)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.games.osrs.remote.messages import WireRequest, parse_request
from sb3_pvp.games.osrs.remote.served_games import ServedGames
from sb3_pvp.games.osrs.remote.ticked_lobby import TickedLobby
from sb3_pvp.games.osrs.remote.wire_errors import FramingError
from tests.games.osrs.remote.fake_world import FakeWorld
from tests.games.osrs.remote.wire import NO_OP, Wire, error, only


def started() -> Wire:
    """Returns a wire on which agent 1 fights the bot."""
    wire = Wire()
    wire.login("1")
    wire.reset("1", "baseline")
    return wire


NESTED = b'{"action":' + b"[" * 1000 + b"]" * 1000 + b"}"


@pytest.mark.parametrize(
    "line",
    [
        *(
            b"",
            b"{bad",
            b"[]",
            b'"x"',
            b"\x00\x01",
            b'{"action":"foo"}',
            b'{"action":5}',
            b'{"action":["step"]}',
            b"{}",
        ),
        pytest.param(NESTED, id="nested 1,000 deep"),
    ],
)
def test_a_line_that_is_not_a_request_closes_the_connection(line: bytes) -> None:
    with pytest.raises(FramingError):
        parse_request(line)


@pytest.mark.parametrize(
    ("agent", "action", "body", "expected"),
    [
        (None, "step", {"action": NO_OP}, "NullPointerException"),
        ("9", "step", {"action": NO_OP}, "NullPointerException"),
        ("9", "reset", {"target": "baseline", "resetParams": {}}, "NullPointerException"),
        ("9", "logout", None, "IllegalStateException: No player found for: 9"),
        ("9", "login", {"agentType": "Nope"}, "NoSuchElementException: No value present"),
        ("9", "login", {}, "NoSuchElementException: No value present"),
        ("9", "login", None, "NullPointerException"),
        ("1", "login", {"agentType": "NhEnv"}, "EnvironmentException: Agent already exists with ID: 1"),
        ("1", "reset", None, "NullPointerException"),
        ("1", "reset", {"resetParams": {}}, "NullPointerException"),
        ("1", "reset", {"target": "baseline"}, "NullPointerException"),
        ("1", "reset", {"target": "baseline", "resetParams": [1]}, "JsonSyntaxException"),
        ("1", "reset", {"target": "baseline", "resetParams": {"accountBuild": "FOO"}}, "NullPointerException"),
        ("1", "reset", {"target": "baseline", "resetParams": {"accountBuild": ["MED"]}}, "NullPointerException"),
        (
            "1",
            "reset",
            {"target": "baseline", "resetParams": {"randomizeBuild": True, "randomBuildOptions": []}},
            "ArithmeticException: / by zero",
        ),
        ("1", "step", [1], "JsonSyntaxException"),
        ("1", "step", {"action": "x"}, "JsonSyntaxException"),
        ("1", "step", {"action": ["a", *NO_OP[1:]]}, "JsonSyntaxException: NumberFormatException"),
        ("1", "step", {"action": [True, *NO_OP[1:]]}, "JsonSyntaxException"),
    ],
)
def test_error_replies(agent: str | None, action: str, body: Any, expected: str) -> None:
    wire = started()
    assert error(wire.ask(agent, action, body)).startswith(expected)
    assert "body" in only(wire.reset("1", "baseline"))


@pytest.mark.parametrize(
    ("body", "expected", "played"),
    [
        (None, "NullPointerException", 0),
        ({}, "NullPointerException", 0),
        ({"action": None}, "NullPointerException", 0),
        ({"action": [None, *NO_OP[1:]]}, "NullPointerException", 0),
        ({"action": []}, "IllegalArgumentException: []", 0),
        ({"action": [0] * 11}, "IllegalArgumentException: [0, 0", 0),
        ({"action": [0] * 13}, "IllegalArgumentException: [0, 0", 0),
        ({"action": [-1, *NO_OP[1:]]}, "IllegalArgumentException: -1", 0),
        ({"action": [99, *NO_OP[1:]]}, "IllegalArgumentException: 99", 0),
        ({"action": [*NO_OP[1:], 99]}, "IllegalArgumentException: 99", 0),
        ({"action": [1, *NO_OP[1:]]}, "IllegalStateException: 0", 0),
        # Movement comes after the attack, which therefore still happens.
        ({"action": [3, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0]}, "IllegalArgumentException: 9", 3),
    ],
)
def test_a_step_that_fails_costs_a_tick(body: Any, expected: str, played: int) -> None:
    wire = started()
    reply = wire.ask("1", "step", body)
    assert reply == []
    wire.lobby.play()
    assert error(reply).startswith(expected)
    assert wire.worlds[0].obs[0, 0, 2] == played
    assert wire.step("1")[0]["body"]["meta"]["episodeTicks"] == 3


@pytest.mark.parametrize(
    ("action", "played"),
    [
        ([0.5, *NO_OP[1:]], 0),
        ([2.0, 0, "1", *NO_OP[3:]], 2),
        ([2**40, *NO_OP[1:]], 0),
        ([0] * 10 + [99, 0], 0),  # a farcast distance without the movement
        ([0, 2, 7, 7] + [0] * 8, 0),  # attack types without the attack
        ([3, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 3),
    ],
)
def test_odd_actions_that_are_accepted(action: list[Any], played: int) -> None:
    wire = started()
    reply = wire.send_step("1", action)
    wire.lobby.play()
    assert only(reply)["body"]["obs"][2] == played


def test_values_nested_a_thousand_deep_disturb_no_other_agent() -> None:
    deep = json.loads(b"[" * 900 + b"]" * 900)
    wire = started()
    assert error(wire.ask("1", "step", {"action": [deep]})).startswith("JsonSyntaxException: NumberFormatException")
    lobby = TickedLobby(ServedGames(FakeWorld))
    replies: dict[str, list[bytes]] = {"1": [], "2": []}
    for agent, answers in replies.items():
        lobby.handle(WireRequest("login", {"id": agent}, {"agentType": "NhEnv"}), answers.append)
    lobby.tick()
    for (agent, answers), params in zip(replies.items(), ({"accountBuild": deep}, {}), strict=True):
        body = {"target": "baseline", "resetParams": params}
        lobby.handle(WireRequest("reset", {"id": agent}, body), answers.append)
    for _ in range(3):
        lobby.tick()
    assert b"NullPointerException: accountBuild [[[[...]]]] is not one of" in replies["1"][1]
    assert replies["2"][1].startswith(b'{"body"')


def test_a_second_message_is_refused_and_the_first_one_answered() -> None:
    wire = started()
    first = wire.send_step("1")
    assert error(wire.send_step("1")) == "EnvironmentException: Message already queued"
    assert error(wire.reset("1", "baseline")) == "EnvironmentException: Message already queued"
    wire.lobby.play()
    assert "body" in only(first)


def test_logout_answers_the_waiting_message() -> None:
    wire = Wire()
    wire.login("1")
    waiting = wire.reset("1", "absent")
    assert wire.ask("1", "logout") == [{}]
    assert error(waiting) == "EnvironmentException: Agent logged out: 1"
    assert "NullPointerException" in error(wire.send_step("1"))


def test_step_before_the_first_reset() -> None:
    wire = Wire()
    wire.login("1")
    assert "from state 'PENDING' for trigger 'STEP'" in error(wire.send_step("1"))


def test_options_refused_by_the_world_are_an_error_for_both_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: FakeWorld, fights: Any, options: Any) -> None:
        raise ValueError("no such thing")

    wire = Wire()
    wire.login("1", "2")
    with monkeypatch.context() as patch:
        patch.setattr(FakeWorld, "reset", refuse)
        first, second = wire.reset("1", "2"), wire.reset("2", "1")
        assert error(first) == error(second) == "IllegalArgumentException: no such thing"
    assert "body" in only(wire.reset("1", "baseline"))


def test_an_exception_of_the_world_does_not_end_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(self: FakeWorld, actions: Any, fights: Any) -> None:
        raise RuntimeError("broken")

    wire = started()
    with monkeypatch.context() as patch:
        patch.setattr(FakeWorld, "step", break_down)
        assert "broken" in wire.step("1")[0]["message"]
    assert "body" in wire.step("1")[0]


BODY_KEYS = ["target", "resetParams", "action", "agentType", "accountBuild", "randomBuildOptions", "id", "training"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=13) | st.dictionaries(st.sampled_from(BODY_KEYS), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from(["1", "2", None]), st.sampled_from(["login", "logout", "reset", "step", "debug"]), json_values)
def test_every_request_is_answered_or_waits(agent: str | None, action: str, body: Any) -> None:
    wire = started()
    reply = wire.ask(agent, action, body)
    wire.lobby.play()
    assert len(reply) == 1 or action == "reset"
    assert not any("RuntimeException" in each.get("message", "") for each in reply)
