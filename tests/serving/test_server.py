"""The server as clients meet it: interleaved, fuzzed, greedy and slow clients; files that come and go; the end."""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
import shutil
import socket
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib import MaskablePPO

from sb3_pvp.serving.connection import MAX_UNANSWERED, Limits
from sb3_pvp.serving.server import ServerSettings
from tests.serving.fighters import NH, by_hand, random_nh, write
from tests.serving.served import RawClient, RunningServer, serving
from tests.waiting import wait_until

HAND = {"model": "hand", "obs": [[1, 0]], "actionMasks": [[True, True], [True, True, True]], "deterministic": True}
LINE = json.dumps(HAND).encode()
ANSWER = [1, 2]
#: Requests to two models, with the actions of ``model.predict``.
Known = list[tuple[bytes, list[int]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write(by_hand(), folder / "hand.fighter")
    for seed in (1, 2):
        write(random_nh(seed), folder / f"nh{seed}.fighter")
    return folder


@pytest.fixture(scope="module")
def known() -> Known:
    rng = np.random.default_rng(0)
    return [pair for seed in (1, 2) for pair in requests_to(random_nh(seed), f"nh{seed}", rng, 20)]


def requests_to(model: MaskablePPO, name: str, rng: np.random.Generator, count: int) -> Known:
    observations = rng.standard_normal((count, 1, NH.num_observations)).astype(np.float32)
    masks = rng.random((count, NH.num_flat_actions)) < 0.5
    masks[:, 0] = True
    actions, _ = model.predict(observations, action_masks=masks, deterministic=True)
    requests = [
        {
            "model": name,
            "obs": seen.tolist(),
            "actionMasks": [part.tolist() for part in NH.split_mask(mask)],
            "deterministic": True,
            "returnProbs": bool(index % 2),  # with and without details in one batch
        }
        for index, (seen, mask) in enumerate(zip(observations, masks, strict=True))
    ]
    return [(json.dumps(each).encode(), action.tolist()) for each, action in zip(requests, actions, strict=True)]


@pytest.fixture(scope="module", params=[0, 1], ids=["no workers", "a process"])
def server(folder: Path, request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    with serving(folder, workers=request.param, max_batch_size=5, reload_interval=0) as server:
        yield server


@settings(deadline=None, max_examples=30)
@given(turns=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 39), st.integers(1, 3)), min_size=1, max_size=40))
def test_any_interleaving_of_clients_gets_the_actions_of_predict(
    server: RunningServer, known: Known, turns: list[tuple[int, int, int]]
) -> None:
    clients = [RawClient(server.port) for _ in range(5)]
    expected: list[list[list[int]]] = [[] for _ in clients]
    for client, first, count in turns:
        picked = [known[(first + k) % len(known)] for k in range(count)]
        clients[client].send(*(line for line, _ in picked))
        expected[client] += [action for _, action in picked]
    for client, actions in zip(clients, expected, strict=True):
        assert [client.receive()["action"] for _ in actions] == actions
        client.__exit__()


def fuzz(server: RunningServer, known: Known, count: int, seed: int) -> None:
    """Each connection sends lines, some of them right; each line has one reply, and the right ones the right one."""
    rng = random.Random(seed)
    sent = 0
    while sent < count:
        with RawClient(server.port) as client:
            batch = [rng.choice(known) if rng.random() < 0.2 else (garbled(rng, known), None) for _ in range(100)]
            client.send(*(line for line, _ in batch))
            for line, action in batch:
                reply = client.receive()
                assert reply is not None, f"closed after {line!r}"
                if action is not None:
                    assert reply["action"] == action
                else:
                    assert "error" in reply or "action" in reply, line
            sent += len(batch)


def garbled(rng: random.Random, known: Known) -> bytes:
    line = bytearray(rng.choice(known)[0])
    kind = rng.randrange(6)
    if kind == 0:  # any bytes
        line = bytearray(rng.randbytes(rng.randrange(60)))
    elif kind == 1:  # cut
        line = line[: rng.randrange(len(line))]
    elif kind in (2, 3):  # some bytes replaced
        for _ in range(rng.randrange(1, 4)):
            line[rng.randrange(len(line))] = rng.choice(b'0123456789-.eE[]{}",:truefalsn \x00\xff')
    else:  # a part of the request is something else
        request = json.loads(line)
        strange = [None, True, -1, 1e30, "x", [], {}, [[]], [[1] * 176], [[True] * 45], "scripted", ["winrate"], 2**70]
        request[rng.choice([*request, "returnValue", "extensions", "y"])] = rng.choice(strange)
        if kind == 5:
            request.pop(rng.choice([*request]))
        line = bytearray(json.dumps(request).encode())
    return bytes(line).replace(b"\n", b" ")


def test_no_line_stops_the_server_or_loses_a_request(server: RunningServer, known: Known) -> None:
    fuzz(server, known, 3000, seed=1)


@pytest.mark.slow
def test_a_hundred_thousand_lines(server: RunningServer, known: Known) -> None:
    fuzz(server, known, 100_000, seed=2)
    with RawClient(server.port) as client:
        for line, action in known:
            assert client.ask(line)["action"] == action


def test_lines_in_any_pieces(server: RunningServer, known: Known) -> None:
    data = b"".join(line + b"\r\n" for line, _ in known[:3])
    with RawClient(server.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), 97):
            client.socket.sendall(data[start : start + 97])
        assert [client.receive()["action"] for _ in range(3)] == [action for _, action in known[:3]]
        client.socket.sendall(known[0][0])  # the last line may lack its end
        client.socket.shutdown(socket.SHUT_WR)
        assert client.receive()["action"] == known[0][1]
        assert client.receive() is None


def test_many_requests_at_once_on_one_connection(server: RunningServer) -> None:
    with RawClient(server.port) as client:
        client.send(*[LINE, b"{}"] * (3 * MAX_UNANSWERED))
        for _ in range(3 * MAX_UNANSWERED):
            assert client.receive()["action"] == ANSWER
            assert "lacks" in client.receive()["error"]


def test_a_line_that_is_too_long_is_skipped(server: RunningServer) -> None:
    for length in (65537, 200_000, 1_000_000):
        with RawClient(server.port) as client:
            client.send(LINE, b"[" * length, LINE)
            assert client.receive()["action"] == ANSWER
            assert client.receive() == {"error": "the line is longer than 65536 bytes"}
            assert client.receive()["action"] == ANSWER
    with RawClient(server.port) as client:
        longest = LINE + b" " * (65536 - len(LINE))
        assert client.ask(longest)["action"] == ANSWER


def test_too_many_connections_are_turned_away(folder: Path) -> None:
    with serving(folder, Limits(max_connections=2), reload_interval=0) as server:
        with RawClient(server.port) as first, RawClient(server.port) as second:
            assert first.ask(LINE)["action"] == second.ask(LINE)["action"] == ANSWER
            with RawClient(server.port) as third:
                assert "2 connections" in third.receive()["error"]
                assert third.receive() is None
            assert first.ask(LINE)["action"] == ANSWER
        wait_until(lambda: server.server.figures.connections == 0)
        with RawClient(server.port) as fourth:
            assert fourth.ask(LINE)["action"] == ANSWER


def test_requests_beyond_the_rate_are_delayed_and_not_lost(folder: Path) -> None:
    with serving(folder, Limits(max_rate=50.0), reload_interval=0) as server, RawClient(server.port) as client:
        start = time.monotonic()
        client.send(*[LINE] * 70)
        assert [client.receive()["action"] for _ in range(70)] == [ANSWER] * 70
        assert time.monotonic() - start > 0.39  # 20 more than the burst of 50


def test_idle_connections_are_closed(folder: Path) -> None:
    with serving(folder, Limits(idle_timeout=0.3), reload_interval=0) as server, RawClient(server.port) as client:
        assert client.ask(LINE)["action"] == ANSWER
        assert client.receive() is None


def test_a_slow_reader_neither_stalls_others_nor_grows_memory(folder: Path) -> None:
    with serving(folder, Limits(idle_timeout=3.0), reload_interval=0) as server:
        slow = RawClient(server.port)
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.socket.settimeout(1.0)
        lines = (json.dumps(HAND | {"returnProbs": True}).encode() + b"\n") * 100
        with pytest.raises(TimeoutError):  # the server stops reading
            while True:
                slow.socket.sendall(lines)
        (connection,) = server.server._connections
        assert len(connection._unanswered) <= MAX_UNANSWERED and len(connection._lines) < 2000
        assert connection._transport is not None
        assert connection._transport.get_write_buffer_size() < 300_000
        with RawClient(server.port) as client:
            assert client.ask(LINE)["action"] == ANSWER
        wait_until(lambda: connection not in server.server._connections)  # it reads nothing, so it is closed


def test_files_come_change_and_go(tmp_path: Path, folder: Path, known: Known) -> None:
    # Both models are named "nh" here, so take the requests of each under that name.
    lines = [(line.replace(b'"nh1"', b'"nh"').replace(b'"nh2"', b'"nh"'), action) for line, action in known]
    first, second = lines[0], lines[20]
    with serving(tmp_path) as server, RawClient(server.port) as client:

        def answers() -> Any:
            return client.ask(first[0]).get("action"), client.ask(second[0]).get("action")

        assert "unknown model" in client.ask(first[0])["error"]
        shutil.copyfile(folder / "nh1.fighter", tmp_path / "nh.fighter")
        wait_until(lambda: answers()[0] == first[1])
        assert answers()[1] != second[1]
        shutil.copyfile(folder / "nh2.fighter", tmp_path / ".new")
        os.replace(tmp_path / ".new", tmp_path / "nh.fighter")
        wait_until(lambda: answers()[1] == second[1])
        (tmp_path / "nh.fighter").write_bytes(b"broken")
        wait_until(lambda: server.server.health()["errors"])
        assert answers()[1] == second[1]  # the old version stays
        shutil.copyfile(folder / "nh1.fighter", tmp_path / "nh.fighter")
        wait_until(lambda: answers()[0] == first[1])
        assert not server.server.health()["errors"]
        (tmp_path / "nh.fighter").unlink()
        wait_until(lambda: "error" in client.ask(first[0]))


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def test_nothing_is_unpickled(tmp_path: Path, folder: Path) -> None:
    proof = tmp_path / "it ran"
    content = pickle.dumps(Malicious(proof))
    encoded = {":type:": "<class 'dict'>", ":serialized:": base64.b64encode(content).decode()}
    models = tmp_path / "models"
    models.mkdir()
    for name, data in {
        "kwargs": {"policy_kwargs": encoded},
        "all": {"description": encoded, "policy_class": encoded},
    }.items():
        with zipfile.ZipFile(models / f"{name}.zip", "w") as file:
            file.writestr("data", json.dumps(data))
            file.writestr("policy.pth", content)
    (models / "bare.fighter").write_bytes(content)
    with zipfile.ZipFile(models / "weights.fighter", "w") as file:
        file.writestr("fighter.json", "{}")
        file.writestr("policy.safetensors", content)
    shutil.copyfile(folder / "hand.fighter", models / "hand.fighter")
    with serving(models) as server, RawClient(server.port) as client:
        assert {*server.server.health()["errors"]} == {"kwargs.zip", "all.zip", "bare.fighter", "weights.fighter"}
        assert client.ask(LINE)["action"] == ANSWER
    assert not proof.exists()
    with pytest.raises(FileExistsError):  # the pickle would have worked
        pickle.loads(content)
        pickle.loads(content)


def test_a_batch_that_fails_is_an_error_and_the_server_goes_on(folder: Path) -> None:
    with serving(folder, reload_interval=0) as server, RawClient(server.port) as client:
        fighter = server.server.fighters["hand"].fighter
        answer, fighter.answer = fighter.answer, None  # type: ignore[method-assign, assignment]
        assert "internal error" in client.ask(LINE)["error"]
        fighter.answer = answer  # type: ignore[method-assign]
        assert client.ask(LINE)["action"] == ANSWER


def test_what_was_received_is_answered_before_the_end(folder: Path) -> None:
    with serving(folder, max_batch_size=3, workers=1) as server:
        clients = [RawClient(server.port) for _ in range(5)]
        for client in clients:
            client.send(*[LINE] * 100)
        first = [client.receive()["action"] for client in clients]  # the server has read them
        server.stop()
        assert first == [ANSWER] * 5
        for client in clients:
            assert [client.receive()["action"] for _ in range(99)] == [ANSWER] * 99
            assert client.receive() is None


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="pass --models FOLDER"):
        RunningServer(ServerSettings(tmp_path / "nothing", port=0))
    with pytest.raises(ValueError, match="unknown game"):
        RunningServer(ServerSettings(tmp_path, port=0, game="Chess"))
    with serving(tmp_path) as server, pytest.raises(OSError, match="in use"):
        RunningServer(ServerSettings(tmp_path, port=server.port))


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_health_and_metrics(folder: Path, tmp_path: Path) -> None:
    shutil.copyfile(folder / "hand.fighter", tmp_path / "hand.fighter")
    (tmp_path / "broken.zip").write_bytes(b"")
    with serving(tmp_path, metrics_port=0) as server, RawClient(server.port) as client:
        client.send(*[LINE] * 10, b"{}")
        for _ in range(11):
            client.receive()
        port = server.server.metrics_port
        assert port is not None
        status, text = get(port, "/health")
        health = json.loads(text)
        assert (status, health["status"], health["connections"]) == (200, "ok", 1)
        assert "hand" in health["models"] and [*health["errors"]] == ["broken.zip"]
        status, text = get(port, "/metrics")
        assert status == 200
        figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert figures["sb3_pvp_connections"] == "1.0"
        assert figures["sb3_pvp_bad_requests_total"] == "1.0"
        assert figures['sb3_pvp_latency_seconds_count{model="hand"}'] == "10.0"
        assert figures['sb3_pvp_batch_size_sum{model="hand"}'] == "10.0"
        assert get(port, "/secret")[0] == 404


@pytest.mark.slow
def test_worker_processes_are_replaced(folder: Path, known: Known, tmp_path: Path) -> None:
    for file in folder.iterdir():
        shutil.copyfile(file, tmp_path / file.name)
    with serving(tmp_path, workers=2) as server, RawClient(server.port) as client:
        for line, action in known:
            assert client.ask(line)["action"] == action
        for pool in server.server.batcher._pools:
            (worker,) = pool._workers
            assert worker._process is not None
            worker._process.kill()
        for line, action in known:
            assert client.ask(line)["action"] == action
        shutil.copyfile(folder / "nh2.fighter", tmp_path / "other.fighter")
        line, action = known[20]
        wait_until(lambda: client.ask(line.replace(b'"nh2"', b'"other"')).get("action") == action)
