"""A recording that grows is in the end what the whole one is."""

from __future__ import annotations

import zlib
from dataclasses import replace

import orjson
import pytest

from sb3_pvp.common.arguments import to_plain
from sb3_pvp.matches.replay import growing
from sb3_pvp.matches.replay.growing import GrowingRecording
from sb3_pvp.matches.replay.page import content_of
from sb3_pvp.matches.replay.record import record_fight
from sb3_pvp.matches.replay.recording import viewer_of


@pytest.fixture(scope="module", params=["NhEnv", "tests.arena.duel:Duel"])
def grown(request: pytest.FixtureRequest) -> tuple[object, GrowingRecording]:
    script = "scripted" if request.param == "NhEnv" else "level-5"
    whole = record_fight(script, script, seed=3, game=request.param)
    start = replace(whole, moments=(), outcomes=("running", "running"))
    grown, plain = GrowingRecording(start, viewer_of(request.param)), to_plain([*whole.moments])
    for moment in plain[:-1]:
        grown.grow(moment)
    assert not [each for each in grown.events if each["kind"] == "end"]
    grown.grow(plain[-1], whole.outcomes)
    return content_of(whole), grown


def test_it_is_what_the_whole_one_is(grown: tuple[object, GrowingRecording]) -> None:
    expected, found = (orjson.loads(orjson.dumps(each)) for each in (grown[0], grown[1].content()))
    assert found["labels"] == expected["labels"] and found["events"] == expected["events"]
    facts = {name: value for name, value in expected["recording"].items() if name not in ("format", "version")}
    assert found["recording"] == facts


def test_what_is_hidden_is_left_out(grown: tuple[object, GrowingRecording]) -> None:
    found = grown[1].content(("seed",))["recording"]
    assert "seed" not in found and found["moments"]


def test_who_forfeits_has_lost(grown: tuple[object, GrowingRecording]) -> None:
    grown[1].forfeit(1, "is gone")
    assert grown[1].header["outcomes"] == ["won", "lost"]
    end = grown[1].events[-1]
    assert (end["kind"], end["seat"], end["text"], end["tick"]) == ("end", 1, "is gone", grown[1].tick)


def test_what_is_put_away_is_still_there(grown: tuple[object, GrowingRecording]) -> None:
    before = orjson.loads(orjson.dumps(grown[1].content()))
    grown[1].put_away()
    assert not grown[1].last and grown[1].tick == len(before["recording"]["moments"]) - 1
    assert orjson.loads(orjson.dumps(grown[1].content())) == before
    assert grown[1].moments_from(2) == before["recording"]["moments"][2:]


def test_what_others_have_packed_takes_no_more_than_a_fight_may(
    grown: tuple[object, GrowingRecording], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, recording = grown
    monkeypatch.setattr(growing, "MAX_SIZE", 1000)
    recording.put_away(zlib.compress(b"[" + b" " * 1_000_000 + b"]"))
    assert len(recording.moments_text(0)) == 1000
