"""What hostile clients, odd files and a full disk can do to a server and to its other clients: nothing."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.common.errors import shown
from sb3_pvp.serving import protocol
from sb3_pvp.serving.connection import MAX_UNANSWERED
from tests.serving.fighters import by_hand, write
from tests.serving.served import RawClient, serving, wait_until
from tests.serving.test_server import ANSWER, HAND, LINE

TIMEOUT = 30
NESTED = b"[" * 1000 + b"]" * 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write(by_hand(), folder / "hand.fighter")
    return folder


def test_values_are_shown_however_deep_long_or_tangled_they_are() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    bomb: Any = ["x"]
    for _ in range(100):
        bomb = [bomb] * 9
    assert [shown(value) for value in (deep, bomb)] == ["[[[[...]]]]", shown(bomb)]
    assert [shown(value) for value in (True, [1, "a"], {"a": None})] == ["True", "[1, 'a']", "{'a': None}"]
    assert all(len(shown(value)) <= 60 for value in (bomb, "x" * 1000, 10**1000, [*range(1000)], {"x" * 99: "y" * 99}))


@pytest.mark.parametrize("field", ["model", "deterministic", "episodeStart", "returnProbs", "extensions"])
def test_values_nested_a_thousand_deep_get_an_error(folder: Path, field: str) -> None:
    line = json.dumps(HAND | {field: "nested"}).encode().replace(b'"nested"', NESTED)
    with serving(folder) as server, RawClient(server.port) as client:
        assert "[[[[...]]]]" in client.ask(line)["error"]
        assert client.ask(LINE)["action"] == ANSWER


def test_an_exception_of_one_connection_never_reaches_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = protocol.read_request

    def broken(line: bytes, fighters: Any) -> Any:
        if line == b"boom":
            raise RuntimeError("a fault of the server")
        return read(line, fighters)

    monkeypatch.setattr("sb3_pvp.serving.connection.read_request", broken)
    with serving(folder) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(server.port)) for _ in range(9)]
        hostile, *others = clients
        for client in clients:
            assert client.ask(LINE)["action"] == ANSWER
        with server.busy():  # the last line is read when its connection is told of the batch's replies
            hostile.send(*[LINE] * MAX_UNANSWERED, b"boom")
            for client in others:
                client.send(LINE)
        for client in others:
            assert client.receive()["action"] == ANSWER
        wait_until(lambda: server.server.figures.connections == len(others))
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_empty_lines_do_not_starve_others(folder: Path) -> None:
    with serving(folder) as server, RawClient(server.port) as flood, RawClient(server.port) as client:
        assert client.ask(LINE)["action"] == ANSWER
        before = []

        def count(model: str, size: int, seconds: float, waited: Sequence[float]) -> None:
            before.append(server.server.figures.bad_requests)

        server.server.batcher.count = count
        with server.busy():
            flood.send(b"\n" * 50_000)
            client.send(LINE)
        assert client.receive()["action"] == ANSWER
        assert before[0] < 20
        for _ in range(50_001):
            assert "not valid JSON" in flood.receive()["error"]
