"""Snapshots of the embedded world."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.games.osrs.sim import SimWorld

FIGHTS = 3
PARAMS = {"randomizeGear": True, "randomizeBuild": True, "randomizeFightType": True}


def play(world: SimWorld, ticks: int) -> list[bytes]:
    """What every tick shows; fights that end begin anew."""
    shown = []
    for _ in range(ticks):
        world.step(world.random_actions())
        ended = np.flatnonzero(world.outcome.any(1))
        if ended.size:
            world.reset(ended, {"bots": (None, "baseline")})
        shown.append(b"".join(getattr(world, name).tobytes() for name in ("obs", "masks", "meta", "outcome")))
    return shown


def started(seed: int = 0, **options: Any) -> SimWorld:
    world = SimWorld(FIGHTS, seed, PARAMS, **options)
    world.reset(options={"bots": (None, "baseline")})
    return world


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), before=st.integers(0, 80), threads=st.sampled_from([1, 2]))
def test_a_restored_world_goes_on_bit_for_bit(seed: int, before: int, threads: int) -> None:
    world = started(seed)
    play(world, before)
    state = pickle.loads(pickle.dumps(world.get_state()))
    expected = play(world, 40)
    world.set_state(state)
    assert play(world, 40) == expected
    other = started(seed + 1, num_threads=threads)
    play(other, 7)
    other.set_state(state)
    assert play(other, 40) == expected
    other.close()


def test_a_snapshot_is_a_copy() -> None:
    world = started()
    state = world.get_state()
    kept = pickle.dumps(state)
    play(world, 3)
    assert pickle.dumps(state) == kept
    world.set_state(state)
    play(world, 3)
    assert pickle.dumps(state) == kept


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "Chess"}, "no snapshot of SimWorld"),
        ({"version": 99}, "has version 99, but this SimWorld has 1"),
        ({"contract": "DharokEnv"}, "has contract 'DharokEnv'"),
        ({"num_fights": 4}, "has num_fights 4, but this SimWorld has 3"),
        ({"obs": np.zeros((FIGHTS, 2, 5), np.float32)}, "'obs' in the snapshot has another layout"),
        ({"state": None}, "'state' in the snapshot has another layout"),
    ],
)
def test_a_foreign_snapshot_is_refused_and_changes_nothing(change: dict[str, Any], message: str) -> None:
    world = started()
    before = pickle.dumps(world.get_state())
    wrong = {**started(5).get_state(), **change}
    with pytest.raises(ValueError, match=message):
        world.set_state(wrong)
    with pytest.raises(ValueError, match="no snapshot"):
        world.set_state(None)  # type: ignore[arg-type]
    assert pickle.dumps(world.get_state()) == before
