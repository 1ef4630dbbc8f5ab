"""Every line of a recorded session of bad input, sent to our server: each is answered in the same class, and errors
name the same kind of exception.

The recording: what was sent, and of each answer its class (``ok``, ``error`` or ``closed``) and the first line of an
error. A request without an answer made the reference server wait forever.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections import Counter
from typing import Any

import pytest

from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.remote.served_games import ServedGames
from sb3_pvp.games.osrs.remote.server_connection import Connections, ServerConnection
from sb3_pvp.games.osrs.remote.synchronous_lobby import SynchronousLobby
from sb3_pvp.games.osrs.remote.ticked_lobby import TickedLobby
from tests.games.osrs.remote.fake_world import FakeWorld
from tests.paths import DATA

Json = dict[str, Any]
with gzip.open(DATA / "bad_input.jsonl.gz", "rt") as file:
    ENTRIES: list[Json] = [json.loads(line) for line in file]
#: Two steps sent at once on one connection, right after this section; the recording has the answers only.
BEFORE_PIPELINED = "reset during a fight (STEPPING)"
#: Sections in which the reference server waits forever; ours refuses or answers these requests at once.
REFUSED_BY_US = ("login on same connection again", "' vs 'attacker'", "'self1' vs 'self1'")
ANSWERED_BY_US = ("disconnect: another agent logs in", "disconnect: debug")
#: Which of a pair is answered first is random (and ours accepts any spelling of ids): tested elsewhere.
PAIRS = ("'ab2' vs 'ab1'", "'ab1' vs 'ab2'", "'Ab1' vs 'Ab2'", "'Ab2' vs 'Ab1'", "'A_2' vs 'A_1'", "'A_1' vs 'A_2'")
#: Sections in which the agent is not logged in.
STRANGERS = ("not logged in", "after logout", "missing meta")
MOST_TICKS_OF_AN_ANSWER = 12


class FakeTransport(asyncio.Transport):
    """Keeps the reply lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Json] = []
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.lines.append(json.loads(data))

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        raise AssertionError("reading must not pause")


class Server:
    """A server of either kind, without sockets and without a clock."""

    def __init__(self, is_ticked: bool) -> None:
        self.worlds: list[FakeWorld] = []
        games = ServedGames(self._make_world)
        if is_ticked:
            self.lobby: TickedLobby | SynchronousLobby = TickedLobby(games)
        else:
            self.lobby = SynchronousLobby(games, lambda is_last: None)
        self.connections: dict[str, tuple[ServerConnection, FakeTransport]] = {}
        self.logged_in: set[str] = set()

    def _make_world(self, num_fights: int, seed: int, *, contract: str) -> FakeWorld:
        self.worlds.append(FakeWorld(num_fights, seed, contract=contract))
        return self.worlds[-1]

    def ask(self, name: str, line: str, answers: int = 1) -> list[Json]:
        """Sends a line on the connection of this name, and returns what comes back until there are enough answers."""
        connection, transport = self._connection(name)
        transport.lines.clear()
        connection.data_received(line.encode() + b"\n")
        for _ in range(MOST_TICKS_OF_AN_ANSWER):
            if len(transport.lines) < answers and not transport.is_closed:
                self.tick()
        return [*transport.lines, *([{"closed": True}] if transport.is_closed else [])]

    def _connection(self, name: str) -> tuple[ServerConnection, FakeTransport]:
        if name not in self.connections or self.connections[name][1].is_closed:
            connection, transport = ServerConnection(self.lobby, Connections(1)), FakeTransport()
            connection.connection_made(transport)
            self.connections[name] = connection, transport
        return self.connections[name]

    def tick(self) -> None:
        if isinstance(self.lobby, TickedLobby):
            self.lobby.tick()
        else:
            self.lobby.play()

    def log_in(self, agent: str) -> None:
        """Logs an agent in: the log-ins of some sections are not recorded."""
        if agent not in self.logged_in:
            self.logged_in.add(agent)
            request = {"action": "login", "body": {"agentType": "NhEnv"}, "meta": {"id": agent}}
            assert self.ask(f"login {agent}", json.dumps(request)) == [{}]

    def decide_all_fights(self) -> None:
        for world in self.worlds:
            world.outcome[:] = Outcome.WON, Outcome.LOST


def sessions() -> list[tuple[str, str, str, Json | None]]:
    """Returns section, connection, line and recorded answer, if any, of each request."""
    answers = [(entry.get("conn"), entry.get("seq"), entry["section"]) for entry in ENTRIES]
    steps = []
    for index, entry in enumerate(ENTRIES):
        if entry["dir"] == ">":
            key = entry["conn"], entry["seq"], entry["section"]
            answer = next((k for k in range(index + 1, len(ENTRIES)) if answers[k] == key), None)
            steps.append((entry["section"], entry["conn"], entry["line"], None if answer is None else ENTRIES[answer]))
    return steps


def expected_class(section: str, answer: Json | None) -> str:
    """Returns the class of answer that our server must give."""
    if answer is not None:
        return str(answer["class"])
    if any(part in section for part in REFUSED_BY_US):
        return "error"
    return "ok" if any(part in section for part in ANSWERED_BY_US) else "none"


def class_of(answers: list[Json]) -> str:
    """Returns the class of the answers to one line."""
    if not answers:
        return "none"
    (answer,) = answers
    return "closed" if "closed" in answer else "error" if "error" in answer else "ok"


def exception(message: str) -> str:
    """Returns the first exception that is named."""
    return re.findall(r"\w+Exception\b", message)[0]  # type: ignore[no-any-return]


def request_in(line: str) -> Json:
    """Returns the JSON object of a line, or an empty one."""
    try:
        request = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return request if isinstance(request, dict) else {}


def prepare(server: Server, section: str, line: str) -> None:
    """Does what happened between the recorded lines."""
    request = request_in(line)
    if section == "step after logout":
        assert server.ask("963", json.dumps({"action": "logout", "meta": {"id": "963"}})) == [{}]
    elif request.get("action") in ("step", "reset") and not any(part in section for part in STRANGERS):
        server.log_in(request["meta"]["id"])
    elif section in ("login ok", ANSWERED_BY_US[0]):
        server.logged_in.add(request["meta"]["id"])


def send_pipelined(server: Server) -> None:
    """Sends two steps at once: the second is refused first, then the first is answered."""
    step = json.dumps({"action": "step", "body": {"action": [0] * 12}, "meta": {"id": "960"}})
    answers = server.ask("960", f"{step}\n{step}", answers=2)
    recorded = [entry for entry in ENTRIES if entry["dir"] == "<" and "conn" not in entry]
    assert [class_of([answer]) for answer in answers] == [entry["class"] for entry in recorded] == ["error", "ok"]
    assert "Message already queued" in answers[0]["message"]
    assert "Message already queued" in recorded[0]["message"]


@pytest.mark.parametrize("is_ticked", [False, True])
def test_every_recorded_line(is_ticked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # The recorded fight lasts as long as it did.
    monkeypatch.setattr("tests.games.osrs.remote.fake_world.DEATH_TICK", -1)
    server = Server(is_ticked)
    steps = sessions()
    death = [section for section, *_ in steps].index("step after terminal (no reset)") - 2
    classes: Counter[str] = Counter()
    for index, (section, connection, line, recorded) in enumerate(steps):
        if index == death:
            server.decide_all_fights()
        prepare(server, section, line)
        answers = server.ask(connection, line)
        if any(pair in section for pair in PAIRS):
            continue
        expected = expected_class(section, recorded)
        assert class_of(answers) == expected, (section, answers)
        if recorded is not None and expected == "error":
            assert exception(answers[0]["message"]) == exception(recorded["message"]), section
        classes[expected] += 1
        if section == BEFORE_PIPELINED:
            send_pipelined(server)
    assert classes == {"ok": 235, "error": 35, "closed": 11, "none": 1}
