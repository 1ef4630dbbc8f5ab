"""Chess from pixels: pictures show the same position as planes, from the side of each player."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stable_baselines3.common.torch_layers import NatureCNN

from sb3_pvp import PvpPPO
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.chess import CHESS, CHESS_PIXELS
from sb3_pvp.games.chess.layout import CONTRACT, PIXELS, TILE
from sb3_pvp.games.chess.pixels import DARK, GLYPHS, LIGHT, MOVED, OTHER, OWN
from sb3_pvp.games.chess.world import ChessWorld
from sb3_pvp.policies import AutoregressivePolicy
from tests.games.chess.positions import SPECIAL, play_randomly


def tiles(world: ChessWorld, fight: int, seat: int) -> NDArray[np.float32]:
    """Returns what a seat sees of each square, ``(64, 8, 8)``, the own left corner first."""
    picture = world.obs[fight, seat].reshape(8, TILE, 8, TILE)[::-1]
    return picture.swapaxes(1, 2).reshape(64, TILE, TILE)


def pieces(world: ChessWorld, fight: int, seat: int) -> NDArray[np.int64]:
    """Reads the pieces in a picture, by comparison with their shapes: the other ones are negative."""
    seen = tiles(world, fight, seat)
    signed = (seen == OWN).astype(int) - (seen == OTHER)
    assert np.isin(seen[signed == 0], [DARK, LIGHT, DARK + MOVED, LIGHT + MOVED]).all()
    shapes = np.concatenate([GLYPHS, -GLYPHS[1:].astype(int)])
    is_like = (signed[:, None] == shapes).all(axis=(2, 3))
    assert (is_like.sum(axis=1) == 1).all()
    number = is_like.argmax(axis=1)
    return np.where(number > 6, 6 - number, number)


@given(st.integers(0, 2**32), st.integers(0, 60))
@settings(max_examples=25, deadline=None)
def test_both_contracts_describe_the_same_position(seed: int, plies: int) -> None:
    worlds = [game.make_world("sim", len(SPECIAL), 0, {}) for game in (CHESS, CHESS_PIXELS)]
    for world in worlds:
        world.reset(options=[{"seed": seed + fight, "reset_params": {"fen": fen}} for fight, fen in enumerate(SPECIAL)])
        rng = np.random.default_rng(seed)
        for _ in range(plies):
            play_randomly(world, rng)
    by_planes, by_pixels = worlds
    assert np.array_equal(by_planes.positions, by_pixels.positions)
    assert np.array_equal(by_planes.masks, by_pixels.masks)
    for fight in range(len(SPECIAL)):
        views = [pieces(by_pixels, fight, seat) for seat in (0, 1)]
        for seat, view in enumerate(views):
            planes = by_planes.obs[fight, seat].reshape(CONTRACT.shape)[:12].reshape(2, 6, 64)
            own, other = (np.arange(1, 7) @ side for side in planes)
            assert np.array_equal(view, own - other)
        # Who sits opposite sees the same board with the ranks and the sides exchanged, and the same squares lit up.
        assert np.array_equal(views[0], -views[1].reshape(8, 8)[::-1].ravel())
        lit = [
            np.isin(tiles(by_pixels, fight, seat), [DARK + MOVED, LIGHT + MOVED]).any(axis=(1, 2)) for seat in (0, 1)
        ]
        assert np.array_equal(lit[0], lit[1].reshape(8, 8)[::-1].ravel())
        assert lit[0].sum() == (2 if by_pixels.last[fight] >= 0 else 0)


def test_shapes_differ_and_leave_a_rim_for_the_ground() -> None:
    flat = GLYPHS[1:].reshape(6, -1)
    assert min((one != other).sum() for index, one in enumerate(flat) for other in flat[:index]) >= 8
    assert not GLYPHS[:, -1].any() and len({OWN, OTHER, DARK, LIGHT, DARK + MOVED, LIGHT + MOVED}) == 6


def test_the_world_of_pixels_keeps_the_rules_of_worlds() -> None:
    check_world(CHESS_PIXELS.make_world("sim", 3, 0, {}), ticks=60)


@pytest.mark.slow
def test_a_network_for_images_learns_from_it() -> None:
    env = PvpVecEnv(4, game="ChessPixelsPvP-v0", opponent="random", seed=0)
    seen = env.reset()["observation"]
    assert seen.dtype == np.uint8 and seen.shape == (4, *PIXELS.shape)
    network = {"features_extractor_class": NatureCNN, "net_arch": [], "autoregressive": False}
    model = PvpPPO(AutoregressivePolicy, env, n_steps=8, batch_size=16, policy_kwargs=network, seed=0)
    before = model.policy.state_dict()["extractors.0.0.extractor.cnn.0.weight"].clone()
    model.learn(3 * 32)  # the first rollout is for statistics
    after = model.policy.state_dict()["extractors.0.0.extractor.cnn.0.weight"]
    assert not after.equal(before)
    single = gym.make("ChessPixelsPvP-v0", opponent="random")
    assert single.reset(seed=0)[0]["observation"].shape == PIXELS.shape
