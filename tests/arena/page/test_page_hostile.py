"""Clients that wish the page ill: each is refused with a reason, and a fight that others watch goes on."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psutil
import pytest
from starlette.testclient import TestClient

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.page import page_server
from sb3_pvp.arena.page.app import make_app
from sb3_pvp.arena.page.live_fight import MOST_BEHIND, MOST_ORDERS
from sb3_pvp.arena.page.page_server import MOST_MESSAGE, serving_page
from tests.arena.page.pages import served

client = pytest.importorskip("websockets.sync.client")
exceptions = pytest.importorskip("websockets.exceptions")
#: Seconds that anything may take on a busy machine.
PATIENCE = 60.0


@pytest.fixture(scope="module")
def address(arena: Arena) -> Iterator[str]:
    with served(arena, guarded=False) as address:
        yield address


def asked(url: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, Any]]:
    """Returns the status and the JSON of an answer."""
    request = urllib.request.Request(url, body, {"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def begun(address: str, **order: Any) -> dict[str, Any]:
    status, found = asked(f"{address}/api/live", json.dumps(order).encode())
    assert status == 201, found
    return found


def watching(address: str, fight: str, query: str = "") -> Any:
    return client.connect(f"ws{address.removeprefix('http')}/api/live/{fight}/watch{query}", open_timeout=PATIENCE)


def place(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("http://").partition(":")
    return host, int(port)


@contextmanager
def watched(address: str) -> Iterator[list[int]]:
    """A fight at the slowest speed that somebody watches; on leaving, it must have gone on and end as it should."""
    fight, ticks, states = begun(address, first="level-8", second="level-2"), list[int](), list[str]()
    where = f"{address}/api/live/{fight['id']}"
    asked(where, json.dumps({"key": fight["key"], "do": "pause"}).encode())

    def look() -> None:
        with watching(address, fight["id"]) as socket, suppress(exceptions.ConnectionClosed):
            for text in socket:
                message = json.loads(text)
                states.append(message["state"])
                ticks.extend(range(message["first"], message["first"] + len(message["moments"])))

    viewer = threading.Thread(target=look, daemon=True)
    viewer.start()
    yield ticks
    for wish in ({"do": "speed", "value": 8.0}, {"do": "play"}):
        assert asked(where, json.dumps({"key": fight["key"], **wish}).encode())[0] == 200
    viewer.join(PATIENCE)
    assert not viewer.is_alive() and states[-1] == "over" and ticks == [*range(7)]


@pytest.mark.usefixtures("cold")
def test_behind_a_proxy_it_has_another_name_and_each_visitor_an_own_limit(arena: Arena) -> None:
    with served(arena, public_hosts=["arena.example"]) as address:

        def status(host: str, visitor: str) -> int:
            headers = {"host": host, "origin": f"https://{host}", "x-forwarded-for": visitor}
            with closing(http.client.HTTPConnection(*place(address), timeout=PATIENCE)) as connection:
                connection.request("POST", "/api/live", "{}", {**headers, "content-type": "application/json"})
                return connection.getresponse().status

        assert status("other.example", "192.0.2.1") == 400
        assert [status("arena.example", "192.0.2.1") for _ in range(40)][::39] == [422, 429]
        assert status("arena.example", "192.0.2.2") == 422


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.usefixtures("cold")
@pytest.mark.parametrize("host", ["::", "::1"])
def test_its_address_answers_where_hosts_are_of_ipv6(arena: Arena, host: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no address of IPv6")
    with serving_page(arena, host, port=0) as address:
        assert asked(f"{address}/api/challenge")[0] == 200


def test_dead_and_slow_clients_cost_others_nothing(address: str) -> None:
    with watched(address) as ticks, closing(_Sockets(place(address), 150)) as dead:
        dead.say(lambda number: b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" if number % 2 else b"")
        fight = begun(address, first="level-8", second="level-5")["id"]
        slow = closing(_Sockets(place(address), 100))
        with slow as never_read:
            never_read.say(lambda number: _handshake(address, fight))
            assert asked(f"{address}/api/challenge")[0] == 200
            assert ticks == [0]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux cuts off who does not read")
@pytest.mark.usefixtures("cold")
def test_who_reads_nothing_is_cut_off(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "UNREAD", 500)
    request = b"GET /static/watch.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with serving_page(arena, port=0, guarded=False) as address, closing(socket.socket()) as dead:
        dead.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        dead.connect(place(address))
        dead.sendall(200 * request)

        def is_served() -> bool:
            served = [each.raddr for each in psutil.Process().net_connections("tcp") if each.raddr]
            return dead.getsockname() in served

        for expected in (True, False):
            deadline = time.monotonic() + PATIENCE
            while is_served() != expected and time.monotonic() < deadline:
                time.sleep(0.1)
            assert is_served() == expected
        assert asked(f"{address}/api/challenge")[0] == 200


@pytest.mark.slow
def test_who_is_too_far_behind_is_let_go_with_all_that_was_sent(arena: Arena) -> None:
    with TestClient(make_app(arena, ["testserver"], guarded=False)) as http:
        begun = http.post("/api/live", json={"first": "level-8", "second": "level-2", "paused": True}).json()
        fight = http.app.state.page.live.find(begun["id"])
        with fight.watching(-1) as messages:
            for _ in range(2 * MOST_BEHIND):
                fight.told()
            sent = [messages.get_nowait() for _ in range(messages.qsize())]
            assert sent[-1] is None and None not in sent[:-1] and len(sent) == MOST_BEHIND + 1
            assert messages not in fight.viewers


def test_huge_and_mad_messages_close_only_their_own_socket(address: str) -> None:
    with watched(address):
        fight = begun(address, person={}, second="level-5")
        mine = f"?key={fight['key']}"
        mad = ("x" * (MOST_MESSAGE + 1), "{", "[]", '{"do": 3}', '{"do": ["a", ' + '"b",' * 70 + '"c"]}', "null")
        for text in mad:
            with watching(address, fight["id"], mine) as socket, pytest.raises(exceptions.ConnectionClosed) as closed:
                socket.send(text)
                while True:
                    socket.recv(PATIENCE)
            assert closed.value.rcvd is not None and closed.value.rcvd.code in (1008, 1009), text[:20]
        with watching(address, fight["id"], mine) as socket, pytest.raises(exceptions.ConnectionClosed):
            for _ in range(5 * MOST_ORDERS):
                socket.send('{"do": []}')
            while True:
                socket.recv(PATIENCE)
        # Without the key nobody is listened to, whatever they say.
        with watching(address, fight["id"]) as socket:
            socket.send("{")
            assert json.loads(socket.recv(PATIENCE))["first"] == 0
            socket.send('{"do": ["high"]}')


@pytest.mark.parametrize("count", [300, pytest.param(100_000, marks=pytest.mark.slow)])
def test_random_requests_and_messages_break_nothing(address: str, count: int) -> None:
    random_words = random.Random(7)
    with watched(address):
        fight = begun(address, person={}, second="level-5")
        for _ in range(count // 50):
            with suppress(OSError), closing(socket.create_connection(place(address), PATIENCE)) as raw:
                raw.settimeout(PATIENCE)
                requests = [_request(random_words, fight) for _ in range(25)]
                raw.sendall(b"".join(requests))
                raw.shutdown(socket.SHUT_WR)
                while raw.recv(65536):
                    pass
            with (
                suppress(exceptions.WebSocketException, OSError),
                watching(address, fight["id"], f"?key={fight['key']}") as one,
            ):
                for _ in range(25):
                    one.send(_garbled(random_words, b'{"do": ["high", "low"]}'))
        assert asked(f"{address}/api/challenge")[0] == 200


def _request(random_words: random.Random, fight: dict[str, Any]) -> bytes:
    """A request to one of the page's places, or to none, as it should be but for a few bytes."""
    places = ("/", "/api/live", f"/api/live/{fight['id']}", "/api/players?name=a.fighter", "/players/level-8", "/%00")
    body = b'{"first": "level-8", "second": "level-9", "person": {"delay": 99}, "key": "k", "do": "speed", "value": 1}'
    body = _garbled(random_words, body)
    method, where = random_words.choice(("GET", "POST", "HEAD", "PUT", "TRACE")), random_words.choice(places)
    lines = f"{method} {where} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"
    head = "".join(f"{line}\r\n" for line in (*lines, f"Content-Length: {len(body)}", ""))
    return (_garbled(random_words, head.encode()) if random_words.random() < 0.2 else head.encode()) + body


def _garbled(random_words: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(random_words.randrange(4)):
        changed[random_words.randrange(len(changed))] = random_words.randrange(256)
    return bytes(changed)


def _handshake(address: str, fight: str) -> bytes:
    lines = (
        f"GET /api/live/{fight}/watch HTTP/1.1",
        f"Host: {address.removeprefix('http://')}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


class _Sockets:
    """Connections that say something once, and never read."""

    def __init__(self, where: tuple[str, int], count: int) -> None:
        self._all = [socket.create_connection(where, PATIENCE) for _ in range(count)]

    def say(self, what: Any) -> None:
        for number, each in enumerate(self._all):
            each.sendall(what(number))

    def close(self) -> None:
        for each in self._all:
            each.close()
