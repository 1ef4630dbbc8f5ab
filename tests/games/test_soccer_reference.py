"""What agents see, against frames of an independent model of Unity's rays (soccer-facts.md).

The folder in SB3_PVP_GOLDEN may hold other numbers of the same layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sb3_pvp.games.soccer import SOCCER_TWOS
from sb3_pvp.games.soccer.pitch import BOXES
from tests.games.soccer.golden import golden_file

Arrays = dict[str, NDArray[Any]]
FRONT, BACK, TOLERANCE = 88, 24, 1e-4
#: Positions of the newest frame of both sensors in a stack of three.
NEWEST = np.r_[2 * FRONT : 3 * FRONT, 3 * FRONT + 2 * BACK : 3 * (FRONT + BACK)]


@pytest.fixture(scope="module")
def golden() -> Arrays:
    with np.load(golden_file("soccer-obs-golden.npz")) as file:
        return dict(file)


def from_boxes(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances of points ``(N, 2)`` from the nearest box."""
    x, z, half_x, half_z, cos, sin, _ = BOXES.T
    away = points[:, None] - np.stack([x, z], axis=1)
    own = np.stack([cos * away[..., 0] + sin * away[..., 1], cos * away[..., 1] - sin * away[..., 0]], axis=-1)
    outside = np.maximum(np.abs(own) - np.stack([half_x, half_z], axis=1), 0.0)
    nearest: NDArray[np.float64] = np.hypot(outside[..., 0], outside[..., 1]).min(axis=1)
    return nearest


def seen(golden: Arrays) -> NDArray[np.float32]:
    """What the agent of each row sees, the newest frame ``(rows, 112)``."""
    rows = len(golden["agent_index"])
    world = SOCCER_TWOS.make_world("sim", rows, 0, {})
    world.places[:, :4], world.places[:, 4] = golden["agents_xz"], golden["ball_xz"]
    world.yaws[:] = golden["agents_yaw_deg"]
    world.look(np.arange(rows))
    stacks: NDArray[np.float32] = world.obs.reshape(rows, 4, -1)[np.arange(rows), golden["agent_index"].astype(int)]
    return stacks[:, NEWEST]


def check(golden: Arrays) -> None:
    """Raises `AssertionError` unless everything in the file agrees, with our rays and in itself."""
    assert np.array_equal(golden["agent_index"], golden["agent_index"].astype(int))
    frames = np.concatenate([golden["frame_front_88"], golden["frame_back_24"]], axis=1)
    own = golden["agents_xz"][np.arange(len(frames)), golden["agent_index"].astype(int)]
    # Whether a cast sees a wall that it touches or overlaps at its start, nobody knows.
    free = from_boxes(own) > 0.501
    assert free.mean() > 0.9
    np.testing.assert_allclose(seen(golden)[free], frames[free], atol=TOLERANCE)
    np.testing.assert_array_equal(golden["stacked_obs_336"][:, NEWEST], frames)
    # The network's choices of each branch: what a network gives for these stacks is in test_unity_fighters.py.
    np.testing.assert_allclose(np.exp(golden["official_log_probs_3x3"]).sum(axis=-1), 1.0, atol=1e-4)


def test_agents_see_what_the_independent_model_saw(golden: Arrays) -> None:
    check(golden)


@pytest.mark.parametrize(
    "name", ["agent_index", "agents_xz", "agents_yaw_deg", "ball_xz", "frame_front_88", "frame_back_24",
             "stacked_obs_336", "official_log_probs_3x3"],
)  # fmt: skip
def test_each_array_counts(name: str, golden: Arrays) -> None:
    with pytest.raises(AssertionError):
        check({**golden, name: golden[name] * 1.01})
