"""``python -m benchmarks chess_lessons``: games of an engine, and what is learnt from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from benchmarks import chess_lessons
from sb3_pvp import PvpPPO
from sb3_pvp.common.errors import Refusal
from tests.games.chess.engine_programs import need


@pytest.fixture
def games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need("stockfish")
    monkeypatch.setattr(chess_lessons, "_MOST_PLIES", 12)
    monkeypatch.setattr(chess_lessons, "_BOARDS", 8)
    monkeypatch.setattr(chess_lessons, "_STEPS", 4)
    path = tmp_path / "games.npz"
    chess_lessons.play(path, positions=20, engine="stockfish?nodes=1", seed=0)
    return path


def test_games_go_on_where_they_stopped(games: Path, tmp_path: Path) -> None:
    before = chess_lessons.read_games(games)
    assert [len(each) for each in before] == [12, 12] and all(each[:, 2].tolist() == [0] * 12 for each in before)
    chess_lessons.play(games, positions=40, engine="stockfish?nodes=1", seed=0)
    after = chess_lessons.read_games(games)
    assert len(after) == 4 and all(map(np.array_equal, before, after))
    (tmp_path / "wrong.npz").write_bytes(b"no file of games")
    with pytest.raises(ValueError, match="is no file of games"):
        chess_lessons.read_games(tmp_path / "wrong.npz")


@pytest.mark.parametrize("game", ["ChessPvP-v0", "ChessPixelsPvP-v0"])
@pytest.mark.slow
def test_parts_learn_what_one_run_learns(games: Path, tmp_path: Path, game: str) -> None:
    settings: dict[str, Any] = {"minutes": 5, "learning_rate": 1e-3, "batch_size": 16, "game": game, "seed": 0}
    settings["masked"] = game == "ChessPvP-v0"
    chess_lessons.learn(games, tmp_path / "whole", samples=64, **settings)
    for _ in range(2):  # each part ends after a block, as its time is over
        chess_lessons.learn(games, tmp_path / "parts", samples=64, **settings | {"minutes": 1e-9})
    whole, parts = (PvpPPO.load(tmp_path / name / "model.zip") for name in ("whole", "parts"))
    assert whole.num_timesteps == parts.num_timesteps == 64
    for name, weights in whole.policy.state_dict().items():
        assert th.equal(weights, parts.policy.state_dict()[name]), name
    line = json.loads((tmp_path / "whole" / "lessons.jsonl").read_text().splitlines()[-1])
    assert line["samples"] == 64 and 0 <= line["legal"] <= 1 and 0 <= line["agreement"] <= 1
    with pytest.raises(Refusal, match="give more --samples"):
        chess_lessons.learn(games, tmp_path / "whole", samples=64, **settings)
