"""Addresses of remote worlds, and ids of agents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sb3_pvp.games.osrs import check_world_name
from sb3_pvp.games.osrs.remote.address import RemoteSettings, is_address, parse_address
from sb3_pvp.games.osrs.remote.agent_ids import AgentIds


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("rsps://game.example:43", RemoteSettings("game.example", 43)),
        ("rsps://[::1]:43", RemoteSettings("::1", 43)),
        ("rsps://10.0.0.1", RemoteSettings("10.0.0.1", 7070)),
        ("rsps://", RemoteSettings()),
        (
            "rsps://h:1?target=Some%20Name&step_timeout=2.5&attempts=9&defer_resets=no&first_id=7",
            RemoteSettings("h", 1, "Some Name", step_timeout=2.5, attempts=9, defer_resets=False, first_id=7),
        ),
    ],
)
def test_addresses(address: str, expected: RemoteSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REMOTE_ENV_HOST", "REMOTE_ENV_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert is_address(address)
    assert parse_address(address) == expected


def test_the_port_of_the_original_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMOTE_ENV_PORT", "7071")
    assert parse_address("rsps://localhost").port == 7071
    assert parse_address("rsps://localhost:5").port == 5
    monkeypatch.setenv("REMOTE_ENV_HOST", "game.example")
    assert parse_address("rsps://").host_port == "game.example:7071"
    assert parse_address("rsps://here").host_port == "here:7071"
    monkeypatch.setenv("REMOTE_ENV_PORT", "many")
    with pytest.raises(ValueError, match="REMOTE_ENV_PORT must be a number"):
        parse_address("rsps://localhost")


@pytest.mark.parametrize("start", ["rsps://?", "rsps:?"])
def test_an_address_that_starts_a_server(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMOTE_ENV_PORT", "many")  # it picks a port itself
    address = f"{start}launch=sh -c 'run {{port}} 1%2B1'&launch_cwd=a%20b&step_timeout=4"
    check_world_name(address)
    settings = parse_address(address)
    assert settings == RemoteSettings(launch="sh -c 'run {port} 1+1'", launch_cwd="a b", step_timeout=4.0)
    assert settings.launch_command() == ["sh", "-c", "run {port} 1+1"]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("rsps://h:x", "rsps://host:port"),
        ("rsps://h:70000", "rsps://host:port"),
        ("rsps://h:0", "from 1 to 65535"),
        ("rsps://h:1/path", "rsps://host:port"),
        ("rsps://me@h:1", "rsps://host:port"),
        ("rsps://h:1?step_timout=1", "did you mean 'step_timeout'"),
        ("rsps://h:1?step_timeout=long", "step_timeout .* cannot be 'long'"),
        ("rsps://h:1?step_timeout=0", "more than 0"),
        ("rsps://h:1?step_timeout=inf", "more than 0"),
        ("rsps://h:1?restart_timeout=-1", "restart_timeout .* 0 or more"),
        ("rsps://h:1?idle_logout=nan", "idle_logout .* 0 or more"),
        ("rsps://h:1?defer_resets=maybe", "cannot be 'maybe'"),
        ("rsps://h:1?launch=run", "rsps://[?]launch=COMMAND, without a host and a port"),
        ("rsps://?launch=", "rsps://[?]launch=COMMAND"),
        ("rsps://?launch='run", "launch of a remote world is no command: .*quotation"),
        ("rsps://?launch=run&launch_timeout=0", "launch_timeout .* more than 0"),
    ],
)
def test_wrong_addresses(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_address(address)


@given(st.integers(1, 50))
def test_ids_are_unique_decimal_numbers_of_32_bits(num_fights: int) -> None:
    ids = AgentIds(num_fights)
    taken = [ids.first(fight, seat) for fight in range(num_fights) for seat in range(2)]
    taken += [ids.fresh() for _ in range(5)]
    assert len(set(taken)) == len(taken)
    assert all(str(int(agent)) == agent and 0 < int(agent) < 2**31 for agent in taken)
    # The smaller id of a pair selects its build: consecutive fights get all builds in turn.
    smaller = [min(int(ids.first(fight, seat)) for seat in range(2)) for fight in range(num_fights)]
    assert smaller == list(range(smaller[0], smaller[0] + num_fights))


def test_another_run_has_other_ids() -> None:
    assert AgentIds(1).first(0, 0) != AgentIds(1).first(0, 0)
    assert AgentIds(3, first=10).first(2, 1) == "15"
