"""People who play against the players of an arena: what is told to them, what counts, and what is kept."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.page import live_fight
from sb3_pvp.arena.page.app import make_app
from sb3_pvp.arena.page.live import MOST_OWN, FightProcess, LiveFights, LiveOrder
from sb3_pvp.arena.page.people import People
from sb3_pvp.arena.replaying import recording_of, verify
from sb3_pvp.policies.files.demonstrations import load_demonstrations

TestClient = pytest.importorskip("starlette.testclient").TestClient
KEY = "k" * 32


@pytest.fixture(scope="module")
def client(arena: Arena) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_fight, "TICK", 0.01)
        patch.setattr(live_fight, "COUNTDOWN", 0.01)
        with TestClient(make_app(arena, ["testserver"], guarded=False)) as client:
            yield client


def person(client: Any, name: str) -> dict[str, Any]:
    """The line of a person on the ladder."""
    return next((each for each in client.get("/api/people").json() if each["name"] == name), {"fights": 0, "lost": 0})


def begun(client: Any, **person: Any) -> dict[str, Any]:
    answer = client.post("/api/live", json={"second": "level-5", "person": person})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def fought(client: Any, fight: dict[str, Any], wish: str = "high") -> list[dict[str, Any]]:
    """Plays a fight to its end with the same wish in every tick; returns all messages."""
    messages, told = list[dict[str, Any]](), 0
    with client.websocket_connect(f"/api/live/{fight['id']}/watch?key={fight['key']}") as socket:
        while not messages or messages[-1]["state"] != "over":
            messages.append(socket.receive_json())
            if messages[-1]["moments"] and messages[-1]["state"] == "running":
                told += 1
                socket.send_text(json.dumps({"do": [wish, "large"]}))
    deadline = time.monotonic() + 60
    while client.app.state.page.live.find(fight["id"]).after is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return messages


def after(client: Any, fight: dict[str, Any]) -> dict[str, Any]:
    return dict(client.app.state.page.live.find(fight["id"]).after)


def test_a_person_plays_what_it_orders_where_that_is_allowed(client: Any) -> None:
    fight = begun(client)
    messages = fought(client, fight)
    moments = [moment for message in messages for moment in message["moments"]]
    assert len(moments) == 7 and "played" in moments[0]
    for before, now in pairwise(moments):
        allowed = before["can"][0][2] == "1"  # "high" is masked in odd ticks
        assert now["played"] == (["high"] if allowed else []) + ["large"]
        assert now["decisions"][0]["chosen"] == [2 if allowed else 0, 1]
        assert now["decisions"][1] is None and now["outlooks" if "outlooks" in now else "rewards"][1] is None


def test_nothing_of_the_opponent_is_told_before_the_end(client: Any) -> None:
    fight = begun(client)
    messages = fought(client, fight)
    for moment in (moment for message in messages for moment in message["moments"]):
        assert "level-5 sees" not in moment["scene"]["text"] and "level-5 has chosen" not in moment["scene"]["text"]
    recording = client.app.state.page.live.find(fight["id"]).content()["recording"]
    assert recording["moments"][3]["decisions"][1]["chosen"], "afterwards everything is told"
    assert "level-5 sees" in recording["moments"][3]["scene"]["text"]


def test_a_named_fight_is_kept_rated_and_played_again_bit_for_bit(client: Any, arena: Arena) -> None:
    before = [line.matches for line in arena.table()]
    fight = begun(client, name="Ann", key=KEY, consent=True, delay=1, randomness=0.5)
    fought(client, fight)
    key = after(client, fight)["key"]
    line = person(client, "Ann")
    assert line["fights"] == 1 and line["won"] + line["tied"] + line["lost"] == 1
    record = client.app.state.page.live.people.fight(key)
    (again,) = verify(arena, record, decisions=False)
    assert again.same_observations and again.same_outcome
    assert len(recording_of(arena, record).moments) == 7
    assert client.get(f"/replays/{key}").status_code == 200
    (kept,) = load_demonstrations(arena.folder)
    assert (
        kept.actions.shape == (6, 2)
        and kept.masks.shape == (6, 5)
        and kept.opponent.endswith("delay 1, randomness 0.5")
    )
    assert (kept.actions[::2, 0] == 2).all() and np.isfinite(kept.observations).all()
    assert [line.matches for line in arena.table()] == before, "a person's fights never count in the table of models"


def test_without_consent_or_a_name_nothing_of_that_kind_is_kept(client: Any, arena: Arena) -> None:
    people = len(client.get("/api/people").json())
    for wish in ({"name": "Bob", "key": KEY}, {"consent": True}):
        fought(client, begun(client, **wish))
    assert not (arena.folder / "people" / "demonstrations" / "bob").exists()
    assert len(client.get("/api/people").json()) == people + 1 and person(client, "Bob")["fights"] == 1


def test_a_name_belongs_to_its_key(client: Any) -> None:
    begun(client, name="Cid", key=KEY)
    wrong = client.post("/api/live", json={"second": "level-5", "person": {"name": "cid", "key": "x" * 32}})
    assert wrong.status_code == 409 and "somebody else's" in wrong.json()["error"]
    player = client.post("/api/live", json={"second": "level-5", "person": {"name": "level-8", "key": KEY}})
    assert player.status_code == 409


def test_best_of_three_goes_on_until_somebody_has_two(client: Any) -> None:
    fight, scores = begun(client, best_of=3), list[list[float]]()
    early = client.post(f"/api/live/{fight['id']}/again", json={"key": fight["key"]})
    assert early.status_code == 409 and "not over" in early.json()["error"]
    while True:
        fought(client, fight)
        said = after(client, fight)
        scores.append(said["score"])
        assert said["is_decided"] == (max(said["score"]) >= 2)
        other = client.post(f"/api/live/{fight['id']}/again", json={"key": "wrong"})
        assert other.status_code == 403
        fight = client.post(f"/api/live/{fight['id']}/again", json={"key": fight["key"]}).json()
        if said["is_decided"]:
            break
    assert [sum(each) for each in scores] == [*range(1, len(scores) + 1)]
    fought(client, fight)
    assert sum(after(client, fight)["score"]) == 1, "a rematch begins with nothing"


def test_who_gives_up_or_goes_loses(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fight = begun(client, name="Dee", key=KEY)
    place, key = f"/api/live/{fight['id']}", fight["key"]
    assert "own speed" in client.post(place, json={"key": key, "do": "pause"}).json()["error"]
    assert client.post(place, json={"key": key, "do": "end"}).json()["outcomes"] == ["lost", "won"]
    monkeypatch.setattr(live_fight, "ABSENT", 0.05)
    gone = begun(client, name="Dee", key=KEY)
    deadline = time.monotonic() + 60
    while person(client, "Dee")["lost"] < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert client.get(f"/api/live/{gone['id']}").json()["outcomes"] == ["lost", "won"]
    assert person(client, "Dee")["lost"] == 2


def test_who_comes_back_goes_on(client: Any) -> None:
    fight = begun(client)
    place = f"/api/live/{fight['id']}/watch?key={fight['key']}"
    with client.websocket_connect(place) as socket:
        assert socket.receive_json()["first"] == 0
    time.sleep(0.1)
    assert client.get(f"/api/live/{fight['id']}").json()["state"] == "running", "the game waits for a choice"
    messages = fought(client, fight)
    assert messages[-1]["outcomes"][0] in ("won", "lost", "tied")


@pytest.mark.slow
def test_nobody_takes_all_places(arena: Arena) -> None:
    with TestClient(make_app(arena, ["testserver"])) as client:
        order = {"second": "level-5", "person": {}}
        answers = [client.post("/api/live", json=order) for _ in range(MOST_OWN + 1)]
        assert [each.status_code for each in answers] == [201] * MOST_OWN + [429]
        assert "end one of them" in answers[-1].json()["error"]
        first = answers[0].json()
        client.post(f"/api/live/{first['id']}", json={"key": first["key"], "do": "end"})
        deadline = time.monotonic() + 60
        while client.get(f"/api/live/{first['id']}").json()["state"] != "over" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert client.post("/api/live", json=order).status_code == 201


def test_fights_that_still_begin_have_a_place(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(*_: object) -> dict[str, Any]:
        await asyncio.sleep(0.1)
        return {"fault": -1, "cause": "it is a test"}

    async def begin() -> list[Any]:
        live, order = LiveFights(arena), LiveOrder(first="level-2", second="level-5", build=None)
        both = []
        for _ in range(2):
            begins = [live.begin(order, address="here") for _ in range(MOST_OWN + 1)]
            both += await asyncio.gather(*begins, return_exceptions=True)
        return both

    monkeypatch.setattr(FightProcess, "ask", ask)
    statuses = [each.status_code for each in asyncio.run(begin())]
    assert statuses.count(429) == 2, "one too many each time: who could not begin leaves the place to the next"


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"person": {}}, "name two players"),
        ({"person": {}, "first": "level-8", "second": "level-5"}, "name two players"),
        ({"person": {"drill": "running"}}, "no drill running"),
        ({"person": {"delay": 99}, "second": "level-5"}, "delay"),
        ({"person": {"best_of": 2}, "second": "level-5"}, "best_of"),
        ({"person": {"name": "A", "key": KEY}, "second": "level-5"}, "a name has"),
        ({"person": {"name": "Ann", "key": "short"}, "second": "level-5"}, "a key has"),
        ({"first": "level-8"}, "name two players"),
    ],
)
def test_what_cannot_begin_is_said(client: Any, order: dict[str, Any], said: str) -> None:
    answer = client.post("/api/live", json=order)
    assert answer.status_code in (404, 409, 422) and said in answer.json()["error"]


@pytest.mark.slow
def test_nobody_loses_because_the_server_stops(arena: Arena) -> None:
    with TestClient(make_app(arena, ["testserver"], guarded=False)) as client:
        fight = begun(client, name="Eve", key=KEY)
        found = client.app.state.page.live.find(fight["id"])
    assert "Eve" not in {each.name for each in People(arena).ladder()}
    assert found.events[-1]["text"] == "the server stops" and found.after["score"] == [0, 0]
