"""Scripted fights of two agents over loopback, tick by tick against recordings of the same scripts.

An entry is *fixed* in a scenario when it never differed between repeats of a matched tick in the recordings. Every
fixed entry of every matched tick must have the recorded value.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Iterator

import pytest

from sb3_pvp.games.osrs.remote import serve
from tests.games.osrs.faithfulness.reference import SCENARIOS, Json, read
from tests.games.osrs.faithfulness.scenario_scripts import SCRIPTS
from tests.games.osrs.faithfulness.stage import Over, Stage
from tests.games.osrs.faithfulness.wire_entries import Key, Sides, same

RECORDED = read(SCENARIOS)
#: Some entries are "fixed" only because few repeats were recorded, for example in a scripted attack that never killed.
#: The agents act in a fixed order, so that a seed decides everything; this one shows no such rare event.
SEED = 1
#: Fixed entries in matched ticks: how many are compared at least.
FEWEST_COMPARED = 5000
Address = tuple[str, int]


@pytest.fixture
def server() -> Iterator[Address]:
    """A server with fresh fights in a thread."""
    started: queue.Queue[int] = queue.Queue()
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve(port=0, seed=SEED, on_listening=started.put))

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield "127.0.0.1", started.get(timeout=300)
    loop.call_soon_threadsafe(task.cancel)
    thread.join()


def play(address: Address, name: str) -> list[tuple[Key, Sides]]:
    """Plays a scenario, one fight after the other."""
    script = SCRIPTS[name]
    gear = RECORDED[name]["episode_ids"]
    ticks: list[tuple[Key, Sides]] = []
    runs = [(build, case) for build in script.builds for case in script.cases for _ in range(script.repeats)]
    for number, (build, case) in enumerate(runs, start=1):
        stage = Stage(address, number, build, case, gear.get(build))
        with contextlib.suppress(Over):
            script.play(stage, case)
        stage.close()
        ticks.extend(stage.ticks)
    return ticks


def expected_entries(recorded: Json) -> dict[Key, Sides]:
    """The fixed entries by tick; what a recorded reply leaves out is ``None``."""
    of_a, of_b = recorded["names"]
    return {
        tuple(key): (dict(zip(of_a, a, strict=True)), dict(zip(of_b, b, strict=True)))
        for *key, a, b in recorded["ticks"]
    }


@pytest.mark.parametrize("name", SCRIPTS)
def test_scenarios(server: Address, name: str) -> None:
    expected = expected_entries(RECORDED[name])
    compared, wrong = 0, []
    for key, sides in play(server, name):
        for side, fixed in enumerate(expected.get(key, ())):
            compared += len(fixed)
            wrong += [
                (key, "AB"[side], entry, value, sides[side].get(entry))
                for entry, value in fixed.items()
                if not same(value, sides[side].get(entry))
            ]
    assert wrong == []
    assert compared > FEWEST_COMPARED
