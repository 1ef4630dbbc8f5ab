"""Our clients, and what they do when the server goes away, lies or is silent."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from sb3_pvp.serving import Client, Prediction, PredictionError
from tests.serving.fighters import by_hand, write
from tests.serving.served import serving

MASKS = [[True, True], [True, True, True]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write(by_hand(), folder / "hand.fighter")
    return folder


def test_a_prediction_has_what_was_asked_for(folder: Path) -> None:
    with serving(folder) as server, Client(port=server.port) as client:
        assert client.predict("hand", [1, 0], MASKS, True) == Prediction([1, 2], extension_results=[])
        masks = [np.array([1, 0]), np.array([0, 0, 1])]
        everything = client.predict(
            "hand",
            np.array([[1, 2, 3], [4, 5, 6]]),
            masks,
            deterministic=np.array([False, True]),  # type: ignore[arg-type]
            return_log_prob=True,
            return_entropy=True,
            return_value=True,
            return_probs=True,
            extensions=["winrate"],
        )
    (outcome,) = everything.extension_results
    assert outcome == {"WIN": [pytest.approx(0.8)], "LOSE": [pytest.approx(0.2)]}
    expected = Prediction([0, 2], 0.0, [0.0, 0.0], [351.0], [[1.0, 0.0], [0.0, 0.0, 1.0]], [outcome])
    assert everything == expected


def test_many_clients_in_one_event_loop(folder: Path) -> None:
    def ask(port: int) -> list[list[int]]:
        with Client(port=port) as client:
            return [client.predict("hand", [x, 0], MASKS, True).action for x in (1, -1, 1)]

    async def main(port: int) -> list[list[list[int]]]:
        return await asyncio.gather(*(asyncio.to_thread(ask, port) for _ in range(20)))

    with serving(folder) as server:
        assert asyncio.run(main(server.port)) == [[[1, 2], [0, 0], [1, 2]]] * 20


def test_refused_requests_raise_and_keep_the_connection(folder: Path) -> None:
    with serving(folder) as server, Client(port=server.port) as client:
        with pytest.raises(PredictionError, match="unknown model 'x'"):
            client.predict("x", [1, 0], MASKS)
        with pytest.raises(PredictionError, match="2 or 3 numbers"):
            client.predict("hand", [1], MASKS)
        assert client.predict("hand", [1, 0], MASKS, True).action == [1, 2]
        assert server.server.figures.accepted == 1


def test_a_server_that_was_restarted_is_found_again(folder: Path) -> None:
    client = Client()
    for _ in range(2):
        with serving(folder) as server:
            client._address = ("127.0.0.1", server.port)
            assert client.predict("hand", [1, 0], MASKS, True).action == [1, 2]
    with pytest.raises(OSError):
        client.predict("hand", [1, 0], MASKS)


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """A server that answers the first line of each connection with ``reply``, and keeps the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept = []

        def run() -> None:
            try:
                while True:
                    accepted, _ = listener.accept()
                    kept.append(accepted)
                    accepted.recv(65536)
                    accepted.sendall(reply)
            except OSError:
                return

        threading.Thread(target=run, daemon=True).start()
        yield listener.getsockname()[1]
        for each in kept:
            each.close()
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("reply", [b"hello\n", b"[]\n", b"3\n", b"{}\n", b'{"action": [1]}\n'])
def test_what_is_no_reply_is_a_connection_error(reply: bytes) -> None:
    with answering(reply) as port, Client(port=port) as client, pytest.raises(ConnectionError, match="not a reply"):
        client.predict("hand", [1, 0], MASKS)


def test_silent_servers_are_given_up() -> None:
    with answering(b"") as port:
        client = Client(port=port, timeout=0.1)
        with pytest.raises(TimeoutError):
            client.predict("hand", [1, 0], MASKS)
        assert client._socket is None  # a late reply would be taken for the next one


def test_interrupted_requests_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(b"") as port:
        client = Client(port=port)
        # To connect and to send; not to wait for the reply.
        monkeypatch.setattr(client, "_left", Mock(side_effect=[30.0, 30.0, KeyboardInterrupt]))
        with pytest.raises(KeyboardInterrupt):
            client.predict("hand", [1, 0], MASKS)
        assert client._socket is None  # a late reply would be taken for the next one


@contextmanager
def trickling() -> Iterator[int]:
    """A server that sends to each connection a byte every 20 ms, of a reply that never ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle(to: socket.socket) -> None:
            with to, contextlib.suppress(OSError):
                while True:
                    to.sendall(b" ")
                    time.sleep(0.02)

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=trickle, args=[listener.accept()[0]], daemon=True).start()

        threading.Thread(target=run, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def ask(port: int, timeout: float) -> Prediction:
    with Client(port=port, timeout=timeout) as client:
        return client.predict("hand", [1, 0], MASKS)


def test_the_timeout_is_for_the_whole_reply() -> None:
    with trickling() as port:
        start = time.monotonic()
        with pytest.raises(TimeoutError, match="no reply within 0.5 seconds"):
            ask(port, 0.5)
        assert 0.5 <= time.monotonic() - start < 60


def test_a_line_without_end_is_no_reply() -> None:
    with answering(b"x" * (4 << 20)) as port, pytest.raises(ConnectionError, match="not a reply: b'xxx"):
        ask(port, 30)


def test_a_value_that_is_a_number_as_of_the_original() -> None:
    reply = b'{"action":[1],"logProb":null,"entropy":null,"values":2.5,"probs":null,"extensionResults":[]}\n'
    with answering(reply) as port, Client(port=port) as client:
        assert client.predict("hand", [1, 0], MASKS).values == [2.5]


def test_importing_the_client_is_light() -> None:
    code = "import sys, sb3_pvp.serving; assert not {'torch', 'numba', 'stable_baselines3'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
