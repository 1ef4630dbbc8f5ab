"""The world of chess: what both players see, starts, resume, scripts and the viewer."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sb3_pvp.common.arguments import to_plain
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.game import controls_of, find_game, seen_scene
from sb3_pvp.game.checks import check_world
from sb3_pvp.games.chess import CHESS
from sb3_pvp.games.chess.layout import CONTRACT, NUM_ACTIONS, PLANES, SQUARES, move_squares
from sb3_pvp.games.chess.world import ChessWorld
from tests.games.chess.positions import SPECIAL, play, play_randomly


def planes(world: ChessWorld, seat: int, fight: int = 0) -> dict[str, Any]:
    """Returns what a seat sees: by plane the squares with a number, or the number if it is everywhere."""
    seen = world.obs[fight, seat].reshape(CONTRACT.shape)
    every = {name: set(plane.flat) for name, plane in zip(PLANES, seen, strict=True)}
    return {
        name: {SQUARES[square] for square in np.flatnonzero(plane)} if 0 in every[name] else float(plane[0, 0])
        for name, plane in zip(PLANES, seen, strict=True)
        if plane.any()
    }


def board(**params: Any) -> ChessWorld:
    world = CHESS.make_world("sim", 1, 0, {"white": "first", **params})
    world.reset()
    return world


def test_the_world_keeps_the_rules_of_worlds() -> None:
    check_world(CHESS.make_world("sim", 3, 0, {}), ticks=150)


def test_there_are_4672_actions_and_the_first_is_to_wait() -> None:
    assert CONTRACT.num_flat_actions == NUM_ACTIONS == 4672 and CONTRACT.flat_index("wait") == 0
    assert move_squares(0)[1] < 0  # no piece can ever play it
    assert sum(not each.id.startswith(("none", "wait")) for each in CONTRACT.heads[0].actions) == 1858
    assert CONTRACT.observation_shape == (len(PLANES), 8, 8)


def test_both_see_the_board_from_their_own_side() -> None:
    world = board(fen="4k2r/8/8/8/3p4/8/4P3/R3K3 w Qk - 30 40")
    play(world, "e2e4")
    black = planes(world, 1)
    assert black == {
        "own_pawn": {"d5"},
        "own_rook": {"h1"},
        "own_king": {"e1"},
        "its_pawn": {"e5"},
        "its_rook": {"a8"},
        "its_king": {"e8"},
        "own_short": 1.0,
        "its_long": 1.0,
        "en_passant": {"e6"},
        "turn": 1.0,
    }
    white = planes(world, 0)
    assert white["own_pawn"] == {"e4"} and white["its_king"] == {"e8"} and white["en_passant"] == {"e3"}
    assert white["own_long"] == white["its_short"] == white["white"] == 1.0 and "turn" not in white


def test_clock_and_repetition_are_seen() -> None:
    world = board()
    for _ in range(2):
        play(world, "g1f3", "g1f3", "f3g1")
        assert "repeated" not in planes(world, 0) or world.ticks[0] > 4
        if world.ticks[0] < 4:
            play(world, "f3g1")
            assert planes(world, 0)["repeated"] == planes(world, 1)["repeated"] == 0.5
    assert planes(world, 0)["clock"] == pytest.approx(0.07)


def test_who_has_white_is_told_or_left_to_the_seed() -> None:
    for white, seat in (("first", 0), ("second", 1)):
        world = CHESS.make_world("sim", 2, 0, {"white": white})
        world.reset()
        assert world.white.tolist() == [seat, seat] and world.masks[0, seat].sum() == 20
    world = CHESS.make_world("sim", 64, 0, {})
    world.reset(options={"seed": 5})
    first = world.white.copy()
    assert 16 < first.sum() < 48
    world.reset(options={"seed": 5})
    assert np.array_equal(first, world.white)


def test_an_illegal_choice_is_replaced_by_the_first_legal_one() -> None:
    world = board()
    first = CONTRACT.heads[0].actions[int(np.argmax(world.masks[0, 0]))].id
    other = board()
    play(other, first)
    world.step(np.zeros((1, 2, 1), np.int64))
    assert world.fen(0) == other.fen(0)


def test_a_game_that_is_over_cannot_begin() -> None:
    world = board()
    for fen, why in (
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "stalemate"),
        ("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", "checkmate"),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 100 80", "50 moves"),
    ):
        with pytest.raises(ValueError, match=rf"^a game cannot begin at .*: it is over \({why}\)$"):
            world.reset(options={"reset_params": {"fen": fen}})
    with pytest.raises(ValueError, match="reset parameter"):
        world.reset(options={"reset_params": {"elo": 1}})
    world.reset(options={"reset_params": {"fen": "7k/8/6K1/8/8/8/8/5Q2 w - - 100 80", "claims": False}})
    assert world.outcome.tolist() == [[0, 0]]


@given(st.integers(0, 2**32), st.integers(0, 120), st.integers(1, 60))
@settings(max_examples=15, deadline=None)
def test_a_restored_world_goes_on_alike(seed: int, before: int, after: int) -> None:
    world, other = (CHESS.make_world("sim", len(SPECIAL), number, {}) for number in (0, 99))
    world.reset(options=[{"seed": seed, "reset_params": {"fen": fen}} for fen in SPECIAL])
    other.reset()
    rng = np.random.default_rng(seed)
    for _ in range(before):
        play_randomly(world, rng)
    state = pickle.loads(pickle.dumps(world.get_state()))
    other.set_state(state)
    for each in (world, other):
        chance = np.random.default_rng(seed + 1)
        for _ in range(after):
            play_randomly(each, chance)
            each.reset(each.outcome[:, 0] > 0)
    one, two = world.get_state()["arrays"], other.get_state()["arrays"]
    assert {name: each.tobytes() for name, each in one.items()} == {name: each.tobytes() for name, each in two.items()}
    assert {"positions", "keys", "known", "white", "claims", "last", "endings"} <= one.keys()


def test_what_moves_win_is_reported_and_rewarded_if_asked_for() -> None:
    world = board(fen="n3k3/1P6/8/3pP3/8/8/8/4K3 w - d6 0 1")
    gains = []
    for move in ("e5d6", "e1d1", "b7a8", "d1d2", "a8d5"):
        play(world, move)
        gains.append(world.report["material"][0].tolist())
    assert gains == [[1, -1], [0, 0], [11, -11], [0, 0], [0, 0]]
    world.reset()
    assert not world.report["material"].any()
    env = PvpVecEnv(2, game=CHESS, opponent="self", seed=0, rewards={"material": 0.1, "tie": -0.5})
    env.reset()
    rng, ends, gained = np.random.default_rng(0), list[float](), 0.0
    while len(ends) < 2:
        masks = env.env_method("action_masks")
        _, rewards, over, infos = env.step(np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])[:, None])
        if over.any():
            ends = [
                each - {"won": 1, "lost": -1, "tied": -0.5}[info["outcome"]]
                for each, info in zip(rewards, infos, strict=True)
            ]
            rewards = np.array(ends)
        assert rewards[0] == pytest.approx(-rewards[1])
        gained += abs(rewards[0])
    assert gained > 1


def test_gymnasium_and_scripts_know_it() -> None:
    assert find_game("ChessPvP-v0") is CHESS and pickle.loads(pickle.dumps(CHESS)) is CHESS
    env: Any = gym.make("ChessPvP-v0", opponent="random")
    for seed in range(2):
        env.reset(seed=seed)
        over = False
        while not over:
            mask = env.unwrapped.action_masks()
            assert mask.shape == (4672,)
            _, _, over, cut, _ = env.step(np.flatnonzero(mask)[-1:])
            assert not cut
    env.close()


def test_boards_as_text_and_pictures() -> None:
    world = board()
    play(world, "e2e4")
    scene = CHESS.viewer.scene(world, 0, ["ann", "bob"])
    assert CHESS.viewer.text(scene, color=False).splitlines() == [
        "ply 1, ann (White) against bob (Black): running",
        "8 r n b q k b n r",
        "7 p p p p p p p p",
        "6 . . . . . . . .",
        "5 . . . . . . . .",
        "4 . . . . P . . .",
        "3 . . . . . . . .",
        "2 P P P P . P P P",
        "1 R N B Q K B N R",
        "  a b c d e f g h",
        "e2e4, Black to move",
    ]
    assert "\x1b[" in CHESS.viewer.text(scene)
    turned = CHESS.viewer.text(seen_scene(CHESS.viewer, world, 0, ["ann", "bob"], 1), color=False).splitlines()
    assert turned[1] == "1 R N B K Q B N R" and turned[5] == "5 . . . . . . . ."
    assert turned[4] == "4 . . . P . . . ." and turned[9] == "  h g f e d c b a"
    play(world, "e2e4", "d1h5", "a2a3", "f1c4", "b1c3", "h5f7")
    assert CHESS.viewer.text(CHESS.viewer.scene(world, 0, "ab"), color=False).endswith("h5f7, checkmate")
    pytest.importorskip("pygame")
    picture = CHESS.viewer.picture(scene)
    assert picture.shape == (512, 512, 3) and len(np.unique(picture.reshape(-1, 3), axis=0)) > 4


def told(moves: tuple[str, ...], **params: Any) -> list[dict[str, Any]]:
    """Returns the events of a game of these moves, each from its own side."""
    world = board(**params)
    scenes = [CHESS.viewer.scene(world, 0, "ab")]
    for move in moves:
        play(world, move)
        scenes.append(CHESS.viewer.scene(world, 0, "ab"))
    assert [CHESS.viewer.read_scene(to_plain(each)) for each in scenes] == scenes
    return CHESS.viewer.events(scenes)


def test_moves_are_told_in_long_notation() -> None:
    moves = ("e5d6", "a1a8", "e1e2", "h1h8", "b7b8r", "e1f2")
    events = told(moves, fen="r3k2r/1P6/8/3pP3/8/8/8/R3K2R w KQkq d6 0 1", white="second")
    texts = ["e5xd6", "Ra8xa1+", "Ke1-e2", "Rh8xh1", "b7-b8=R+", "Ke8-f7"]
    assert [each["text"] for each in events] == texts and [each["seat"] for each in events] == [1, 0] * 3
    assert [each["kind"] for each in events[:3]] == ["capture", "check", "move"]
    castling = told(("e1g1", "e1c1"), fen="r3k3/8/8/8/8/8/8/R3K2R w KQq - 0 1")
    assert [each["text"] for each in castling] == ["O-O", "O-O-O"]
    mate = told(("e2e4", "e2e4", "d1h5", "b1c3", "f1c4", "a2a3", "h5f7"))
    assert [each["text"] for each in mate[-2:]] == ["Qh5xf7#", "checkmate, a wins"]


def test_all_moves_are_controls_of_the_board() -> None:
    (group,) = controls_of(CHESS.viewer, CONTRACT)
    assert group.shape == "picture" and len(group.controls) == 1858
