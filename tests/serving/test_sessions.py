"""Fighters with memory on the socket: a state per connection and session, which goes with the client."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sb3_pvp.envs import NhVecEnv
from sb3_pvp.serving import connection
from sb3_pvp.serving.client import Client, PredictionError
from sb3_pvp.serving.protocol import Memory
from tests.policies.remembering import KINDS, remembering_model, rollouts
from tests.serving.served import RawClient, RunningServer, serving
from tests.waiting import wait_until

ROWS, TICKS = 3, 12


class Fights:
    """What some fights showed, what was legal, and what `predict` did with a state per fight."""

    def __init__(self, kind: str, folder: Path) -> None:
        model = rollouts(remembering_model(kind, learning_rate=0.02), 3)
        model.save(folder / f"{kind}.zip")
        self.contract = model.env.get_attr("contract", indices=[0])[0]  # type: ignore[union-attr]
        env, self.ticks, state = NhVecEnv(ROWS, opponent="baseline", seed=5), [], None
        seen, policy = env.reset(), model.policy
        for _ in range(TICKS):
            before = np.zeros((ROWS, policy.memory.width), np.float32) if state is None else state[0]
            actions, state = model.predict(seen, state, None, deterministic=True)
            self.ticks.append((seen["observation"], env.action_masks(), actions, before))
            seen, *_ = env.step(actions)

    def asked(self, client: Client, name: str, tick: int, row: int, **more: Any) -> Any:
        seen, masks, *_ = self.ticks[tick]
        if more.get("return_value"):  # the critic sees what only it is shown
            seen = np.pad(seen, ((0, 0), (0, 0), (0, 93)))
        return client.predict(name, seen[row], self.contract.split_mask(masks[row]), True, **more)

    def line(self, name: str, tick: int, row: int, **more: Any) -> dict[str, Any]:
        seen, masks, *_ = self.ticks[tick]
        split = [part.tolist() for part in self.contract.split_mask(masks[row])]
        return {"model": name, "obs": seen[row].tolist(), "actionMasks": split, "deterministic": True, **more}


@pytest.fixture(scope="module")
def fights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Fights]]:
    folder = tmp_path_factory.mktemp("models")
    return folder, {kind: Fights(kind, folder) for kind in KINDS}


@pytest.fixture(scope="module", params=["compiled", "onnx", pytest.param("torch", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest, fights: tuple[Path, Any]) -> Iterator[RunningServer]:
    with serving(fights[0], backend=request.param) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_each_connection_has_a_state(kind: str, server: RunningServer, fights: Any) -> None:
    own = fights[1][kind]
    clients = [Client(port=server.port) for _ in range(ROWS)]
    for number in range(2):  # the second time, episodes begin anew
        for tick in range(TICKS):
            for row, client in enumerate(clients):
                begins = {"episode_start": True} if number and not tick else {}
                assert own.asked(client, kind, tick, row, **begins).action == own.ticks[tick][2][row].tolist()
    for client in clients:
        client.close()


def test_sessions_on_one_connection_have_a_state_each(server: RunningServer, fights: Any) -> None:
    own = fights[1]["gru"]
    with RawClient(server.port) as client:
        for tick in range(TICKS):  # all at once: each waits for the one before it of its own session only
            lines = [own.line("gru", tick, row, session=f"s{row}", episodeStart=tick == 0) for row in range(ROWS)]
            client.send(*[json.dumps(each).encode() for each in lines])
            for row in range(ROWS):
                assert client.receive()["action"] == own.ticks[tick][2][row].tolist()


def test_requests_of_a_session_that_come_at_once_follow_each_other(server: RunningServer, fights: Any) -> None:
    own = fights[1]["lstm"]
    with RawClient(server.port) as client:
        client.send(*[json.dumps(own.line("lstm", tick, 1)).encode() for tick in range(TICKS)])
        assert [client.receive()["action"] for _ in range(TICKS)] == [each[2][1].tolist() for each in own.ticks]


def test_values_are_those_of_the_state_before(server: RunningServer, fights: Any) -> None:
    own, client = fights[1]["gru"], Client(port=server.port)
    first = own.asked(client, "gru", 0, 0, return_value=True, session="a", episode_start=True).values
    again = own.asked(client, "gru", 0, 0, return_value=True, session="a").values
    fresh = own.asked(client, "gru", 0, 0, return_value=True, session="a", episode_start=True).values
    assert first == fresh != again
    client.close()


def test_bad_sessions_are_refused_in_one_line(server: RunningServer, fights: Any, monkeypatch: Any) -> None:
    own, client = fights[1]["gru"], Client(port=server.port)
    for session, what in (
        ("b", "unknown session 'b': begin it with episodeStart"),
        ("x" * 65, "session must be a text"),
    ):
        with pytest.raises(PredictionError, match=what):
            own.asked(client, "gru", 0, 0, session=session)
    monkeypatch.setattr(connection, "MAX_SESSIONS", 2)
    for session in ("b", "c", "b"):
        own.asked(client, "gru", 0, 0, session=session, episode_start=True)
    with pytest.raises(PredictionError, match="a connection has at most 2 sessions"):
        own.asked(client, "gru", 0, 0, session="d", episode_start=True)
    assert own.asked(client, "gru", 0, 0, session="c").action  # nothing is lost
    client.close()


def test_the_states_of_a_lost_client_are_freed(server: RunningServer, fights: Any, monkeypatch: Any) -> None:
    own, made = fights[1]["gru"], weakref.WeakSet[Any]()

    class Counted(Memory):
        __slots__ = ("__weakref__",)
        __hash__ = object.__hash__  # type: ignore[assignment]

        def __init__(self) -> None:
            super().__init__()
            made.add(self)

    monkeypatch.setattr(connection, "Memory", Counted)
    client = Client(port=server.port)
    for session in ("a", "b"):
        own.asked(client, "gru", 0, 0, session=session, episode_start=True)
    gc.disable()  # not only when somebody looks for circles
    try:
        assert len(made) == 2
        client.close()
        wait_until(lambda: not made)
    finally:
        gc.enable()
