"""Engines as scripts of chess: what they are asked, and what happens to those that misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.games.chess import CHESS, CHESS_PIXELS, engines
from sb3_pvp.games.chess.engines import Engine, EngineFailed, engine
from sb3_pvp.games.chess.fen import read_fen, write_fen
from sb3_pvp.games.chess.notation import legal_by_name, position_of
from sb3_pvp.games.chess.params import START
from sb3_pvp.games.chess.rules import BLACK
from sb3_pvp.players.opponents import make_opponent
from tests.games.chess.engine_programs import fake_engine, need
from tests.games.chess.positions import SPECIAL, play_randomly
from tests.paths import ROOT

LEGAL = legal_by_name(read_fen(START))


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No engine is shared with another test."""
    monkeypatch.setattr(engines, "PATIENCE", 30.0)
    engine.cache_clear()
    yield
    engine.cache_clear()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which programs are found first."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def has_ended(pid: int) -> bool:
    """Waits for a process to end, but not for ever."""
    for _ in range(600):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False


def test_positions_are_read_from_what_players_see() -> None:
    world = CHESS.make_world("sim", 2 * len(SPECIAL), 0, {})
    world.reset(options=[{"seed": row, "reset_params": {"fen": SPECIAL[row // 2]}} for row in range(2 * len(SPECIAL))])
    rng = np.random.default_rng(0)
    for _ in range(30):
        for row in np.flatnonzero(world.outcome[:, 0] == 0).tolist():
            mover = world.white[row] ^ world.positions[row, BLACK]
            expected = world.fen(row).split()
            assert write_fen(position_of(world.obs[row, mover])).split()[:5] == expected[:5]
        play_randomly(world, rng)


@pytest.mark.parametrize("name", ["stockfish?skill=0&nodes=1", "fairy-stockfish?skill=-5&nodes=1", "gnuchess?depth=1"])
def test_engines_play_whole_games_as_opponents(name: str) -> None:
    need(name.partition("?")[0])
    env = PvpVecEnv(4, game=CHESS, opponent=name, max_episode_ticks=40)
    env.reset()
    rng, ends = np.random.default_rng(0), 0
    while ends < 4:
        masks = env.action_masks()
        _, _, dones, _ = env.step(np.array([[rng.choice(np.flatnonzero(mask))] for mask in masks]))
        ends += int(dones.sum())
    env.close()


def test_of_pictures_an_engine_knows_too_little(path: Path) -> None:
    fake_engine(path, on_go="echo bestmove e2e4")
    env = PvpVecEnv(1, game=CHESS_PIXELS, opponent="stockfish", reset_params={"white": "second"})
    env.reset()
    with pytest.raises(EngineFailed, match="stockfish reads planes, not pictures: play ChessPvP-v0"):
        env.step(np.array([[0]]))
    env.close()


def test_a_parameter_changes_what_an_engine_is_told(path: Path) -> None:
    fake_engine(path, on_go=f'echo "$word $rest" >> {path}/told; echo bestmove e2e4')
    assert engine("stockfish?skill=3&depth=2&nodes=7").choose("startpos", LEGAL) == LEGAL["e2e4"]
    assert (path / "told").read_text() == "go nodes 7 depth 2\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stockfish?elo=1350&skill=0", "give one of them"),
        ("stockfish?eloo=1350", "did you mean 'elo'"),
        ("stockfish?elo", r"write stockfish\?elo=1350&nodes=100"),
        ("stockfish?elo=x", "valid integer"),
        ("stockfish?nodes=0", "greater than or equal to 1"),
        ("stockfish?nodes=1&nodes=2", "twice"),
        ("stockfish?skill=21", "less than or equal to 20"),
        ("stockfish?skill=-3", "has Skill Level from 0 to 20, not -3"),
        ("stockfish?elo=1350", "has no option UCI_LimitStrength"),
        ("gnuchess?nodes=5", "does not obey a limit of nodes: give depth"),
    ],
)
def test_wrong_parameters_are_refused_in_a_line(path: Path, name: str, words: str) -> None:
    fake_engine(path, on_go="echo bestmove e2e4")
    fake_engine(path, on_go="echo bestmove e2e4", name="gnuchess")
    with pytest.raises(ValueError, match=words) as refused:
        make_opponent(name, CHESS.contract, CHESS)
    assert "\n" not in str(refused.value)


def test_an_engine_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(engines, "_PLACES", str(tmp_path))
    with pytest.raises(ValueError, match="gnuchess is not installed: apt-get install gnuchess"):
        make_opponent("gnuchess", CHESS.contract, CHESS)
    with pytest.raises(ValueError, match="unknown opponent 'fritz'"):
        make_opponent("fritz", CHESS.contract, CHESS)


@pytest.mark.parametrize(
    ("on_go", "words"),
    [
        pytest.param("while true; do sleep 1; done", "did not answer 'go' within 3 seconds", marks=pytest.mark.slow),
        ("while true; do echo info nonsense; done", "did not answer 'go' within 3 seconds"),
        ("exit 1", "has ended"),
        ("kill -9 $$", "has ended"),
        ("echo bestmove e2e5", "e2e5, which is no legal move"),
        ("echo bestmove", "0000, which is no legal move"),
        ("echo 'bestmove (none)'", "which is no legal move"),
    ],
)
def test_an_engine_that_hangs_ends_or_cheats_gives_one_line(
    path: Path, monkeypatch: pytest.MonkeyPatch, on_go: str, words: str
) -> None:
    monkeypatch.setattr(engines, "PATIENCE", 3.0)
    pid = fake_engine(path, on_go)
    with pytest.raises(EngineFailed, match=words) as failed:
        engine("stockfish").choose("startpos", LEGAL)
    assert "\n" not in str(failed.value) and has_ended(int(pid.read_text()))
    fake_engine(path, on_go="echo bestmove e2e4")
    assert engine("stockfish").choose("startpos", LEGAL) == LEGAL["e2e4"]  # started anew


@pytest.mark.parametrize("on_uci", ["true", "exit 1"])
def test_what_is_no_engine_gives_one_line(path: Path, monkeypatch: pytest.MonkeyPatch, on_uci: str) -> None:
    monkeypatch.setattr(engines, "PATIENCE", 3.0)
    pid = fake_engine(path, on_go="true", on_uci=on_uci)
    with pytest.raises(EngineFailed, match="did not answer 'uci' within 3 seconds|has ended"):
        make_opponent("stockfish", CHESS.contract, CHESS)
    assert has_ended(int(pid.read_text()))


def test_only_positions_reach_an_engine(path: Path) -> None:
    fake_engine(path, on_go=f"touch {path}/asked; echo bestmove e2e4")
    made = engine("stockfish")
    with pytest.raises(EngineFailed, match="was asked for a move in what is no position"):
        made.choose("startpos setoption name Debug Log File value /tmp/x", LEGAL)
    assert not (path / "asked").exists()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, None])
def test_a_hanging_engine_ends_with_its_owner(path: Path, how: signal.Signals | None) -> None:
    hang = "sleep 1000 & while true; do sleep 1; done"
    pid = fake_engine(path, on_go=hang, at_end="while true; do sleep 1; done")
    code = (
        "from sb3_pvp.games.chess.engines import Engine\nmade = Engine('stockfish')\nmade.start()\n"
        "print('started', flush=True)\n" + ("" if how is None else "made.choose('startpos', {})")
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    assert owner.stdout is not None and owner.stdout.readline() == b"started\n"
    number = int(pid.read_text())
    if how is not None:
        time.sleep(0.5)  # until it thinks
        owner.send_signal(how)
    owner.wait()
    owner.stdout.close()
    assert has_ended(number)


def test_an_engine_ends_with_its_object(path: Path) -> None:
    pid = fake_engine(path, on_go="echo bestmove e2e4", at_end="while true; do sleep 1; done")
    made = Engine("stockfish")
    made.start()
    number = int(pid.read_text())
    assert psutil.pid_exists(number)
    made.close()
    made.close()
    assert has_ended(number)
