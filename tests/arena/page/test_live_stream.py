"""The live fights of an arena as what a stream shows."""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from websockets.sync.server import ServerConnection, serve

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.arena.store import Entrant
from sb3_pvp.common.errors import Refusal
from sb3_pvp.matches import stream
from sb3_pvp.matches.stream import drawn, live_shows
from tests.arena.page.pages import served


def begin(address: str, **order: str) -> None:
    body, kind = json.dumps(order).encode(), {"content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{address}/api/live", body, kind), timeout=500).close()


@pytest.mark.slow
def test_live_fights_are_shown_with_the_ratings_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setattr(stream, "_AGAIN", 0.1)
    monkeypatch.setattr(stream, "_SILENT", 60.0)
    arena = Arena.create(tmp_path / "arena", Challenge(name="lanes", game="LaneClash-v0", memory_mb=1024))
    for script in ("spender", "guardian"):
        arena.store.add(Entrant(script, "script", script, script, script, "the game"))
    with served(arena, guarded=False) as address:
        shows = live_shows(address)
        assert next(shows).picture == "nobody fights now, trying again"
        begin(address, first="spender", second="guardian")
        found = [each for each in (next(shows) for _ in range(40)) if not isinstance(each.picture, str)][:5]
        assert [each.figures["tick"] for each in found] == [0, 1, 2, 3, 4]
        for each in found:
            assert (each.figures["first"], each.figures["second"]) == ("spender", "guardian")
            assert {"rating of spender", "rating of guardian"} <= {*each.figures}
            assert each.picture.dtype == np.uint8 and len(drawn(each, (320, 180), {})) == 320 * 180 * 3
    texts = (each.picture for each in shows if isinstance(each.picture, str))
    assert next(texts).startswith("the page is gone: ")
    arena.close()


def test_a_fight_in_which_nothing_happens_is_shown_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()

    def tell(socket: ServerConnection) -> None:
        for number in range(2):
            socket.send(json.dumps({"moments": [{"scene": f"it is {number}"}] * number}))
            done.wait(2)

    monkeypatch.setattr(stream, "_SILENT", 0.05)
    viewer = SimpleNamespace(read_scene=lambda scene: SimpleNamespace(text=scene))
    monkeypatch.setattr("sb3_pvp.matches.replay.recording.viewer_of", lambda game: viewer)
    with serve(tell, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever).start()
        page = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        fight = {"id": "1", "state": "paused", "players": ["a", "b"]}
        replies = {"live": [fight], "challenge": {"game": "it"}, "leaderboard": []}
        monkeypatch.setattr(stream, "_asked", lambda at: replies[at.rpartition("/")[2]])
        pictures = (each.picture for each in live_shows(page))
        assert [next(pictures) for _ in range(2)] == ["nothing has happened yet"] * 2
        assert next(each for each in pictures if each != "nothing has happened yet") == "it is 1"
        assert [next(pictures) for _ in range(3)] == ["it is 1"] * 3
        done.set()
        assert next(each for each in pictures if each != "it is 1") == "nobody fights now, trying again"
        server.shutdown()


def test_no_page_makes_a_stream_import_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    fight = {"id": "1", "state": "running", "players": ["a", "b"]}
    monkeypatch.setattr(stream, "_asked", lambda at: {"game": "this:s"} if at.endswith("challenge") else [fight])
    with pytest.raises(Refusal, match="^http://there is an arena of this:s: streams are of games that are installed$"):
        next(live_shows("http://there"))
    assert "this" not in sys.modules
