"""What is told to a person's page: nothing that the contract of the game hides, over thousands of ticks."""

from __future__ import annotations

import zlib
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.arena.page import live_worker
from sb3_pvp.arena.page.live import FightProcess, person_fight
from sb3_pvp.arena.page.live_fight import PERSON, PERSON_SEAT
from sb3_pvp.matches.replay.record import KEPT
from tests.players.opponent_models import random_model, saved

TOLD = {"scene", "decisions", "rewards", "can", "why", "played"}


@pytest.fixture
def worker_of() -> Any:
    """Prepares for a game in this process, as a sandbox does otherwise."""
    threads = torch.get_num_threads()

    def prepare(game: str) -> None:
        challenge = Challenge(name="here", game=game).model_dump(mode="json")
        live_worker.prepare({"challenge": challenge, "folder": ".", "nice": 0})

    yield prepare
    torch.set_num_threads(threads)
    live_worker._fights.clear()
    live_worker._loaded.cache_clear()  # of this game


@pytest.fixture
def fights(worker_of: Any) -> Any:
    """Plays in this process what a sandbox plays otherwise."""
    worker_of("NhEnv")
    return lambda job: next(live_worker.play(job, lambda number: None))


def _other_seat_changed(world: Any, random: np.random.Generator) -> Any:
    """Replaces all that the other seat sees and could report, and returns what was there."""
    other = 1 - PERSON_SEAT
    kept = [array[0, other].copy() for array in (world.obs, world.masks, world.report)]
    world.obs[0, other] = random.permutation(world.obs[0, other])
    world.masks[0, other] = ~world.masks[0, other]
    report = world.report[0, other : other + 1].view(np.uint8)
    report[:] = random.integers(0, 2, report.shape)
    return kept


@pytest.mark.parametrize("ticks", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_message_depends_on_what_the_opponent_knows(fights: Any, ticks: int) -> None:
    players = [
        {"name": "you", "kind": PERSON, "opponent": ""},
        {"name": "it", "kind": "script", "opponent": "scripted"},
    ]
    random, played, number = np.random.default_rng(0), 0, 0
    while played < ticks:
        number += 1
        job = {"begin": number, "players": players, "seed": number, "deterministic": False, "reset_params": None}
        reply = fights(job)
        while "outcomes" not in reply and played < ticks:
            controls = [*live_worker._fights[number].person._controls]  # type: ignore[union-attr]
            reply = fights({"step": number, "orders": random.choice(controls, 3).tolist()})
            played += 1
            assert reply["moment"].keys() <= TOLD and reply["outlooks"] == [None, None]
            assert reply["moment"]["decisions"][1 - PERSON_SEAT] is None
            live = live_worker._fights[number]
            world = live.running.world
            kept = _other_seat_changed(world, random)
            assert live_worker._moment(live)["moment"] == reply["moment"]
            for array, before in zip((world.obs, world.masks, world.report), kept, strict=True):
                array[0, 1 - PERSON_SEAT] = before
        fights({"end": number})


def test_a_fight_that_is_only_watched_takes_no_more_memory_the_longer_it_is(fights: Any) -> None:
    players = [{"name": name, "kind": "script", "opponent": "noop"} for name in "ab"]
    fights({"begin": 0, "players": players, "seed": 1, "deterministic": False, "reset_params": None})
    running = live_worker._fights[0].running
    for tick in range(1, 2 * KEPT):
        fights({"step": 0, "orders": []})
        lists: list[Any] = [
            running.scenes,
            *(part for each in running.fighters for part in (each.rewards, each._ticks)),
        ]
        assert max(map(len, lists)) <= KEPT and len(running.actions) == tick


def test_a_fight_whose_process_has_ended_is_over_with_that_cause(fights: Any) -> None:
    lost = {"fault": -1, "cause": "the process that played it has ended"}
    assert fights({"step": "gone", "orders": []}) == fights({"think": "gone"}) == lost
    assert fights({"end": "gone"}) == {}


def test_an_error_is_a_players_only_if_it_came_out_of_the_player(fights: Any) -> None:
    def fail(*_: object) -> None:
        raise KeyError("it")

    players = [{"name": name, "kind": "script", "opponent": "noop"} for name in "ab"]
    for who in (-1, 1):
        fights({"begin": 0, "players": players, "seed": 1, "deterministic": False, "reset_params": None})
        fights({"step": 0, "orders": []})
        running: Any = live_worker._fights[0].running
        running._fights.step = running._fights.step if who == 1 else fail
        running.fighters[1].act = fail if who == 1 else running.fighters[1].act
        assert fights({"step": 0, "orders": []}) == {"fault": who, "cause": "KeyError: 'it'"}


@pytest.mark.parametrize("seen", [{"frame_ages": (0, 2)}, {"memory": {"kind": "gru"}}])
def test_a_fighter_that_sees_or_remembers_more_than_a_person_says_nothing_about_its_ticks(
    fights: Any, tmp_path: Path, seen: dict[str, Any]
) -> None:
    opponent = {"name": "it", "kind": "zip", "opponent": saved(random_model(0, **seen), tmp_path, "it")}
    players = [{"name": "you", "kind": PERSON, "opponent": ""}, opponent]
    start = {"seed": 1, "deterministic": False, "reset_params": None, "consent": True}
    assert "fault" not in fights({"begin": 0, "players": players, **start})
    fights({"step": 0, "orders": []})
    mine = live_worker._fights[0].running.fighters[PERSON_SEAT]
    after = fights({"end": 0})
    assert "figures" in after and mine.model is None


def test_what_a_person_has_seen_comes_in_parts_however_long_the_fight_is(
    monkeypatch: pytest.MonkeyPatch, worker_of: Any
) -> None:
    worker_of("LaneClashPixels-v0")
    monkeypatch.setattr(live_worker, "PART", 1000)
    players = [
        {"name": "you", "kind": PERSON, "opponent": ""},
        {"name": "it", "kind": "script", "opponent": "noop"},
    ]
    start = {"seed": 1, "deterministic": False, "reset_params": None, "consent": True}
    run: Any = lambda job: live_worker.play(job, lambda number: None)  # noqa: E731
    for job in ({"begin": 0, "players": players, **start}, *2 * [{"step": 0, "orders": []}]):
        assert "fault" not in (reply := next(run(job))), reply
    seen = live_worker._fights[0].running.fighters[PERSON_SEAT].observations
    replies = [*run({"end": 0})]
    assert len(replies) > 5 and max(len(str(value)) for each in replies[1:] for value in each.values()) == 1000
    process: Any = SimpleNamespace(sandbox=SimpleNamespace(run=lambda job: iter(replies)))
    after = FightProcess._answer(process, {})
    fight: Any = SimpleNamespace(
        order=SimpleNamespace(person=SimpleNamespace(delay=0, randomness=0.0), second="it"),
        header={"outcomes": ["lost", "won"], "seed": 1, "build": None},
        events=[],
        names=["you", "it"],
    )
    kept = person_fight(fight, after, Challenge(name="here", game="LaneClashPixels-v0"))
    assert kept.observations is not None and kept.masks is not None
    assert seen.any() and (kept.observations.reshape(seen.shape) == seen).all()
    bomb = {**after, "masks": b64encode(zlib.compress(bytes(1 << 24))).decode()}
    with pytest.raises(ValueError, match="reshape"):
        person_fight(fight, bomb, Challenge(name="here", game="LaneClashPixels-v0"))
