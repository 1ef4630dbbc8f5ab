"""What is told to a person's page: nothing that the contract of the game hides, over thousands of ticks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.arena.page import live_worker
from sb3_pvp.arena.page.live_fight import PERSON, PERSON_SEAT
from sb3_pvp.matches.replay.record import KEPT

TOLD = {"scene", "decisions", "rewards", "can", "why", "played"}


@pytest.fixture
def fights(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plays in this process what a sandbox plays otherwise."""
    challenge = Challenge(name="here", game="NhEnv").model_dump(mode="json")
    threads = torch.get_num_threads()
    live_worker.prepare({"challenge": challenge, "folder": ".", "nice": 0})
    yield lambda job: next(live_worker.play(job, lambda number: None))
    torch.set_num_threads(threads)
    live_worker._fights.clear()


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
