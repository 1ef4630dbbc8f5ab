"""What hostile clients, odd files and a full disk can do to a server and to its other clients: nothing."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp.common.errors import shown
from sb3_pvp.serving import protocol
from sb3_pvp.serving.connection import MAX_UNANSWERED
from tests.serving.fighters import by_hand, write
from tests.serving.served import RawClient, serving
from tests.serving.test_server import ANSWER, HAND, LINE, get
from tests.waiting import wait_until

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


def test_names_of_files_that_are_not_utf8(folder: Path, tmp_path: Path) -> None:
    for name in (b"hand.fighter", b"other\xff.fighter", b"\xff.zip"):
        shutil.copyfile(folder / "hand.fighter", tmp_path / os.fsdecode(name))
    with serving(tmp_path, metrics_port=0) as server, RawClient(server.port) as client:
        assert "did you mean 'hand'" in client.ask(LINE.replace(b'"hand"', b'"hands"'))["error"]
        assert client.ask(LINE)["action"] == ANSWER
        port = server.server.metrics_port
        assert port is not None
        why = "its name is not UTF-8; rename it"
        status, text = get(port, "/health")
        assert status == 200
        assert json.loads(text)["errors"] == {"other\\udcff.fighter": why, "\\udcff.zip": why}
        assert 'model="hand"' in get(port, "/metrics")[1]
        (tmp_path / os.fsdecode(b"\xff.zip")).unlink()
        wait_until(lambda: len(server.server.health()["errors"]) == 1)


def test_a_copy_that_failed_is_tried_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    content = (folder / "hand.fighter").read_bytes()
    tries = []

    def full(source: Path, target: Path) -> None:
        tries.append(target.parent)
        target.write_bytes(b"part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    with serving(tmp_path) as server, RawClient(server.port) as client:
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "copyfile", full)
            (tmp_path / ".new").write_bytes(content)
            os.replace(tmp_path / ".new", tmp_path / "hand.fighter")
            wait_until(lambda: len(tries) > 3)
            assert "No space left" in server.server.health()["errors"]["hand.fighter"]
            assert "unknown model" in client.ask(LINE)["error"]
        wait_until(lambda: "action" in client.ask(LINE))
        assert not server.server.health()["errors"]
        assert not any(place.exists() for place in tries)
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


@pytest.mark.slow
def test_more_clients_of_predictions_than_files_may_be_open_until_a_signal(folder: Path) -> None:
    """Those that ask go on, the log stays short, and there is room again when the others have left.

    At the signal all that was asked is answered.
    """
    command = [sys.executable, "-m", "sb3_pvp.cli", "serve", "--models", str(folder), "--backend", "compiled"]
    command += ["--metrics-port", "0", "--remote-processor-pool-size", "1", "--remote-processor-type", "thread"]
    command = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *command, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "health and metrics on http://127.0.0.1:" in process.stdout.readline()
        port = int(process.stdout.readline().rpartition(":")[2])
        try:
            with RawClient(port) as good, contextlib.ExitStack() as stack:
                assert good.ask(LINE)["action"] == ANSWER
                many = [stack.enter_context(RawClient(port)) for _ in range(600)]
                for _ in range(3):
                    assert good.ask(LINE)["action"] == ANSWER
                assert many[-1].receive() == {"error": "the server has 128 connections, its limit"}
            for _ in range(20 * TIMEOUT):  # until the server has seen that they are gone
                with RawClient(port) as late, contextlib.suppress(ConnectionError):
                    if late.ask(LINE).get("action") == ANSWER:
                        late.send(*[LINE] * 50)
                        assert late.receive()["action"] == ANSWER
                        process.send_signal(signal.SIGTERM)
                        assert [late.receive()["action"] for _ in range(49)] == [ANSWER] * 49
                        assert late.receive() is None
                        break
                time.sleep(0.05)
            else:
                pytest.fail("no client is accepted any more")
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()
        said = process.stderr.read()
        assert "Traceback" not in said and len(said.splitlines()) < 10


def test_silent_and_slow_connections_do_not_hold_health(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(folder, metrics_port=0) as server, contextlib.ExitStack() as stack:
        port = server.server.metrics_port
        assert port is not None

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT))

        silent = [connect() for _ in range(100)]
        status, text = get(port, "/health")
        assert (status, json.loads(text)["status"]) == (200, "ok")
        with contextlib.suppress(ConnectionError):  # the oldest is closed: there are too many
            assert silent[0].recv(1) == b""
        monkeypatch.setattr("sb3_pvp.serving.figures._HTTP_TIMEOUT", 0.5)
        slow = connect()
        with contextlib.suppress(ConnectionError):
            for byte in b"GET /health?" + b"x" * 10 * TIMEOUT:
                slow.sendall(bytes([byte]))
                time.sleep(0.1)
            pytest.fail("the connection was not closed in time")


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"x" * 100_000, b"GET /health", b"\xff /\xff HTTP/9\r\n\r\n"])
def test_what_is_no_http_request_harms_nothing(folder: Path, request_: bytes) -> None:
    with serving(folder, metrics_port=0) as server:
        port = server.server.metrics_port
        assert port is not None
        with socket.create_connection(("127.0.0.1", port), TIMEOUT) as client, contextlib.suppress(ConnectionError):
            client.sendall(request_)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(20)[:12] in (b"", b"HTTP/1.1 404")
        assert get(port, "/health")[0] == 200
