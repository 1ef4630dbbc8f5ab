"""The page of an arena, asked over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.exchange import import_matches
from sb3_pvp.arena.page import uploads
from sb3_pvp.arena.page.app import make_app
from sb3_pvp.arena.page.guards import POLICY
from sb3_pvp.arena.page.rendering import write_site
from sb3_pvp.arena.page.standing_figures import Figures
from sb3_pvp.arena.store import Entrant
from sb3_pvp.policies.files.shipped import shipped_file
from tests.arena.page.pages import SCRIPTS
from tests.arena.test_rounds import make


@pytest.fixture(scope="module")
def client(arena: Arena) -> Iterator[TestClient]:
    with TestClient(make_app(arena, ["testserver"], guarded=False), raise_server_exceptions=False) as client:
        yield client


def matches(client: TestClient) -> list[dict[str, Any]]:
    return list(client.get("/api/matches").json())


class Links(HTMLParser):
    """Collects where a page leads, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs), "nothing inline"


def test_all_pages_lead_to_pages(client: TestClient) -> None:
    seen, waiting = set[str](), {"/"}
    while waiting:
        place = waiting.pop()
        seen.add(place)
        answer = client.get(place)
        assert answer.status_code == 200, place
        assert answer.headers["content-security-policy"] == POLICY
        if "html" in answer.headers["content-type"]:
            waiting |= {each for each in Links(answer.text).found if not each.startswith("#")} - seen
    kinds = {each.split("/")[1] for each in seen}
    assert kinds == {"", "players", "matches", "replays", "challenge", "live", "play", "static"}


def test_the_api_agrees_with_the_table(arena: Arena, client: TestClient) -> None:
    table = client.get("/api/leaderboard").json()
    assert [line["player"] for line in table] == [line.player for line in arena.table()]
    assert client.get("/api/challenge").json()["matches"] == 3
    best = client.get(f"/api/players/{table[0]['player']}").json()
    assert best["standing"] == table[0]
    assert sum(each["wins"] + each["ties"] + each["losses"] for each in best["against"]) == table[0]["matches"] == 2
    assert best["ratings"] == [{"at": "1", "value": pytest.approx(table[0]["rating"], abs=0.06)}]
    assert best["nemesis"] is None, "two matches against two opponents are too few"
    key = matches(client)[0]["key"]
    fights = client.get(f"/api/matches/{key}").json()["fights"]
    assert len(fights) == 4
    recording = client.get(f"/api/replays/{fights[0]['key']}").json()
    assert len(recording["moments"]) == fights[0]["ticks"] + 1


def test_what_is_not_there(client: TestClient) -> None:
    for place in ("/players/nobody", "/matches/none", "/replays/none", "/live/none", "/static/none", "/nowhere"):
        answer = client.get(place)
        assert answer.status_code == 404 and "<h1>" in answer.text, place
    for place in ("/api/players/nobody", "/api/matches/none", "/api/replays/none", "/api/live/none", "/api/nowhere"):
        answer = client.get(place)
        assert answer.status_code == 404 and answer.json().keys() == {"error"}, place
    wrong = client.get("/api/matches?count=0")
    assert wrong.status_code == 422 and "count" in wrong.json()["error"]


def test_names_are_text(arena: Arena, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = "<script>alert(1)</script>\"' onload=x"
    facts = {"algorithm": mark, "tags": [mark], "hyperparameters": {mark: mark}}
    arena.store.add(Entrant("marked", "script", "level-3", "level-3", "level-3", mark, mark, facts=facts))
    monkeypatch.setattr("sb3_pvp.arena.page.app.FRESH", 0.0)
    text = client.get("/players/marked").text
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text
    assert "<script>alert" not in client.get("/").text
    arena.remove("marked")


def test_other_sites_are_refused(client: TestClient) -> None:
    answer = client.post("/api/live", json={"first": "a", "second": "b"}, headers={"origin": "http://evil.example"})
    assert answer.status_code == 403 and "other sites" in answer.json()["error"]
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
    for nonsense in ("http://[", "null"):
        assert client.get("/", headers={"origin": nonsense}).status_code == 403


@pytest.mark.usefixtures("cold")
def test_too_many_requests_are_refused_and_too_large_ones(arena: Arena) -> None:
    with TestClient(make_app(arena, ["testserver"])) as client:
        answers = [client.post("/api/live", json={}) for _ in range(40)]  # a handful at once, and one in two seconds
        assert answers[0].status_code == 422 and answers[-1].status_code == 429
        assert "wait" in answers[-1].json()["error"]
        assert client.get("/api/challenge").status_code == 200, "who only looks is served"
    with TestClient(make_app(arena, ["testserver"])) as client:
        large = client.post("/api/live", content=b" " * 100_000)
        assert large.status_code == 413
        endless = client.post("/api/live", content=iter([b" "]))  # chunked: it does not say how many
        assert endless.status_code == 413
    with TestClient(make_app(arena, ["testserver"])) as client:
        codes = [client.post("/api/live", headers={"origin": "http://["}).status_code for _ in range(40)]
        assert codes[0] == 403 and codes[-1] == 429


def test_a_live_fight_is_watched_and_steered(client: TestClient) -> None:
    begun = client.post("/api/live", json={"first": "level-8", "second": "level-2"}).json()
    place, key = f"/api/live/{begun['id']}", begun["key"]
    assert client.post(place, json={"key": key, "do": "speed", "value": 8}).json()["speed"] == 8
    with client.websocket_connect(f"{place}/watch") as first:
        early = first.receive_json()
        assert early["first"] == 0 and early["moments"]
        assert client.post(place, json={"key": "other", "do": "pause"}).status_code == 403
        assert client.post(place, json={"key": key, "do": "dance"}).status_code == 422
        client.post(place, json={"key": key, "do": "pause"})
        # A late viewer gets what it has missed.
        with client.websocket_connect(f"{place}/watch?after=0") as late:
            message = late.receive_json()
            assert message["first"] == 1 and message["state"] == "paused"
            before = client.get(place).json()["tick"]
            client.post(place, json={"key": key, "do": "step"})
            while not (message := late.receive_json())["moments"]:
                pass
            assert message["first"] == before + 1
        client.post(place, json={"key": key, "do": "play"})
        messages = [early]
        while messages[-1]["state"] != "over":
            messages.append(first.receive_json())
    assert messages[-1]["outcomes"][0] in ("won", "lost", "tied")
    count = sum(len(each["moments"]) for each in messages)
    assert client.get(place).json()["tick"] == count - 1
    content = re.search(r'id="fight">(.*?)</script>', client.get(f"/live/{begun['id']}").text)
    assert content and len(json.loads(content[1])["recording"]["moments"]) == count
    assert client.get("/api/challenge").json()["matches"] == 3, "it does not count"


@pytest.mark.parametrize(
    ("order", "status", "words"),
    [
        ({"first": "nobody", "second": "level-2"}, 404, "no player nobody takes part"),
        ({"first": "level-2", "second": "level-5", "build": "PURE"}, 422, "has no builds"),
        ({"first": "level-2"}, 422, "second"),
        ({"first": 3, "second": "level-5"}, 422, "first"),
    ],
)
def test_fights_that_cannot_begin(client: TestClient, order: Any, status: int, words: str) -> None:
    answer = client.post("/api/live", json=order)
    assert answer.status_code == status and words in answer.json()["error"]


def test_uploads_need_a_token_and_a_file(arena: Arena, client: TestClient) -> None:
    path = shipped_file("generalist")
    assert path is not None
    content = path.read_bytes()
    place = "/api/players?name=mine.fighter"
    assert client.post(place, content=content).status_code == 401
    token = uploads.add_token(arena, "ann")
    mine = {"authorization": f"Bearer {token}"}
    assert token not in (arena.store.fact("tokens") or ""), "only its hash is kept"
    assert client.post(place, content=content, headers={"authorization": "Bearer wrong"}).status_code == 401
    other_game = client.post(place, content=content, headers=mine)
    assert other_game.status_code == 422 and "NhEnv" in other_game.json()["error"]
    for name in ("mine.zip", "../mine.fighter", "", "mine"):
        assert client.post("/api/players", params={"name": name}, content=content, headers=mine).status_code == 422
    assert client.post(place, content=b"nothing", headers=mine).status_code == 422
    no_name = client.post("/api/players", params={"name": "mine@1.fighter"}, content=content, headers=mine)
    assert no_name.status_code == 422 and "got 'mine@1'" in no_name.json()["error"]
    # Who was refused is a player whose owner learns why, and nobody else.
    assert client.get("/api/players/ann+mine/faults").status_code == 401
    reason = client.get("/api/players/ann+mine/faults", headers=mine).json()["reason"]
    assert reason.startswith("mine.fighter cannot be read"), "the newest one, without a folder"
    other = {"authorization": f"Bearer {uploads.add_token(arena, 'bob')}"}
    assert client.get("/api/players/ann+mine/faults", headers=other).status_code == 403
    uploads.remove_token(arena, "ann")
    assert client.post(place, content=content, headers=mine).status_code == 401


def test_players_of_imported_matches_alone_have_a_page_and_do_not_fight(tmp_path: Path) -> None:
    arena = make(tmp_path / "arena", SCRIPTS[:1])
    import_matches(arena, f"model1,model2,timestamp,result\nguest,{SCRIPTS[0]},7,1\n")
    figures = Figures(arena)
    assert [line.player for line in figures.table] == ["guest", SCRIPTS[0]]
    assert [line.player for line in figures.active] == [SCRIPTS[0]]
    guest = figures.player("guest")
    assert guest.state == "gone" and guest.matches[0].opponent == SCRIPTS[0]


def test_the_page_as_files(arena: Arena, tmp_path: Path) -> None:
    count = write_site(arena, tmp_path)
    written = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert len(written) == count
    assert len([*(tmp_path / "replays").iterdir()]) == 12
    for page in [each for each in written if each.suffix == ".html" and each.parent.name != "replays"]:
        for link in Links(page.read_text()).found:
            if not link.startswith("#"):
                assert (page.parent / link).is_file(), f"{page} leads to {link}"
    assert {each.stem for each in (tmp_path / "players").iterdir()} >= set(SCRIPTS)
