"""Engines and models of chess in the arena."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from sb3_pvp.arena.arena import Arena
from sb3_pvp.arena.challenge import Challenge
from sb3_pvp.players.league import Player
from tests.games.chess.chess_models import save_model
from tests.games.chess.engine_programs import need

ENGINES = ("stockfish?elo=1350&nodes=1000", "fairy-stockfish?skill=-5&nodes=1")


def test_an_engine_with_parameters_is_a_player() -> None:
    player = Player.parse("stockfish?elo=1350&nodes=1000")
    assert (player.name, player.step, str(player)) == (str(player), None, "stockfish?elo=1350&nodes=1000")
    with pytest.raises(ValueError, match="a player's name must be"):
        Player.parse("stockfish?elo=1350/../x")


def test_what_is_no_engine_makes_no_arena(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown script 'fritz"):
        Arena.create(tmp_path / "arena", Challenge(name="x", game="ChessPvP-v0", scripts=("fritz?elo=1",)))


@pytest.mark.slow
def test_two_engines_and_two_models_meet(tmp_path: Path) -> None:
    need(*(each.partition("?")[0] for each in ENGINES))
    before = {*psutil.Process().children(recursive=True)}
    challenge = Challenge(name="chess", game="ChessPvP-v0", scripts=(*ENGINES, "random"), deterministic=True)
    arena = Arena.create(tmp_path / "arena", challenge)
    try:
        for number in range(2):
            (report,) = arena.add(str(save_model(tmp_path / f"model-{number}.zip", number)), trusted=True)
            assert not report.refusal, report.refusal
        names = {*ENGINES, "random", "model-0", "model-1"}
        assert {each.name for each in arena.players if not each.reason} == names
        rounds = [arena.run_once() for _ in range(6)]
        assert all(each is not None and each.is_over and not each.faults and not each.failed for each in rounds)
        table = {str(each.player): each for each in arena.table()}
        assert {*table} == names and all(each.fights > 0 for each in table.values())
        assert table[ENGINES[0]].losses == 0  # nobody else is as strong
    finally:
        arena.close()
    assert {*psutil.Process().children(recursive=True)} <= before
