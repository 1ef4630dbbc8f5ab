"""``sb3-pvp chess`` and ``sb3-pvp uci``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from sb3_pvp.cli import main
from sb3_pvp.games.chess.cli.chess_games import GameFile, find_player
from sb3_pvp.games.chess.cli.ladder import Rung, elo_together, in_words, rung_of
from sb3_pvp.games.chess.cli.opening_shares import models_of
from sb3_pvp.games.chess.cli.uci import UciSession
from sb3_pvp.games.chess.engines import engine
from sb3_pvp.games.chess.fen import read_fen
from sb3_pvp.games.chess.notation import legal_by_name, walk
from sb3_pvp.games.chess.params import START
from sb3_pvp.players.league.payoff import Counts
from tests.disks import files_below
from tests.games.chess.chess_models import save_model
from tests.games.chess.engine_programs import fake_engine, need
from tests.paths import ROOT

SKILL_0 = "stockfish?skill=0&nodes=1"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "main_64_steps.zip")


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of its own, and engines that no other test has."""
    monkeypatch.chdir(tmp_path)
    engine.cache_clear()
    yield
    engine.cache_clear()


def run(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """What a command prints to stdout; of a mistake, its line on stderr."""
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments)])
    printed = capsys.readouterr()
    assert exit_info.value.code == code, printed.err
    return printed.err.splitlines()[-1] if code else printed.out


def ladder(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    return run(capsys, "chess", "ladder", *arguments, code=code)


def games_in(path: Path) -> list[list[str]]:
    """The moves of each game, each of which is legal, as SAN."""
    texts = path.read_text("utf-8").split("\n\n")[1::2]
    found = [[each for each in text.split()[:-1] if not each.endswith(".")] for text in texts]
    assert all([text for _, text in walk(moves)] == moves for moves in found)
    return found


@pytest.mark.slow
def test_a_ladder_against_random(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "games.pgn"
    options = (model, "--rung", "random", "--output", file)
    found = json.loads(ladder(capsys, *options, "--games", 4, "--json"))
    (rung,) = found["rungs"]
    assert rung["wins"] + rung["ties"] + rung["losses"] == 4 and found["elo"] is None
    assert "not FIDE" in rung["scale"] and rung["lead"]["low"] < rung["lead"]["rating"] < rung["lead"]["high"]
    kept = GameFile(file).games
    assert {each["Round"] for each in kept} == {"1", "2", "3", "4"}
    assert all((each["White"] == str(model)) == (int(each["Round"]) % 2 == 1) for each in kept)
    moves = dict(zip([int(each["Round"]) for each in kept], games_in(file), strict=True))
    # Both games of a pair begin alike, and pairs differently.
    assert moves[1][:4] == moves[2][:4] != moves[3][:4] == moves[4][:4]
    before = file.read_bytes()
    assert "score" in ladder(capsys, *options, "--games", 4) and file.read_bytes() == before
    ladder(capsys, *options, "--games", 6)
    assert file.read_bytes().startswith(before) and len(games_in(file)) == 6


def test_a_file_of_another_model_or_game_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "games.pgn"
    ladder(capsys, "random", "--rung", "random", "--games", 2, "-o", file)
    before = file.read_bytes()
    assert "has games of random, not of" in ladder(capsys, model, "--rung", "random", "-o", file, code=2)
    (tmp_path / "notes.txt").write_text("dear diary")
    assert "no file of these games" in ladder(capsys, model, "--rung", "random", "-o", "notes.txt", code=2)
    assert file.read_bytes() == before and (tmp_path / "notes.txt").read_text() == "dear diary"


def test_a_ladder_goes_on_only_as_it_was_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "games.pgn"
    options = ("random", "--rung", "random", "-o", file)
    ladder(capsys, *options, "--games", 2)
    # Earlier versions wrote no such tag.
    file.write_text(re.sub(r'\[Manner "[^"]*"\]\n', "", before := file.read_text()))
    assert file.read_text() != before
    ladder(capsys, *options, "--games", 4)
    assert "are deterministic, seed 0, not deterministic, seed 1" in ladder(capsys, *options, "--seed", 1, code=2)
    assert "not stochastic, seed 0: choose" in ladder(capsys, *options, "--stochastic", code=2)
    assert len(games_in(file)) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.zip"], "There is no model file nothing.zip"),
        (["random", "--rung", "fritz"], "There is no model file fritz"),
        (["random", "--rung", "stockfish?elo=3&skill=1"], "give one of them"),
        (["random", "--games", "3"], "must be even, not 3"),
        (["fast"], "plays NhEnv, not chess"),
    ],
)
def test_bad_usage_of_the_ladder_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in ladder(capsys, *arguments, code=2)


def test_an_engine_that_dies_in_a_game_costs_no_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    fake_engine(tmp_path, on_go="exit 1")
    options = ("random", "--rung", "random", "--rung", "stockfish", "--games", 2, "-o", "games.pgn")
    assert ladder(capsys, *options, code=2) == "sb3-pvp: error: stockfish has ended (as stockfish)"
    assert len(games_in(Path("games.pgn"))) == 2


@pytest.mark.slow
def test_a_full_disk_in_a_ladder_is_one_line_and_what_was_played_stays(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("random", "--rung", "random", "-o", "games.pgn")
    ladder(capsys, *options, "--games", 2)
    before = Path("games.pgn").read_bytes()
    with files_below(len(before) + 100):
        assert "make room" in ladder(capsys, *options, "--games", 6, code=2)
    assert Path("games.pgn").read_bytes() == before
    with Path("games.pgn").open("ab") as file:  # as if nothing could be taken back
        file.write(b'[Event "sb3-pvp chess ladder"]\n[Site')
    ladder(capsys, *options, "--games", 6)
    assert Path("games.pgn").read_bytes().startswith(before + b'[Event "sb3') and len(games_in(Path("games.pgn"))) == 6


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_file_with_games_that_cannot_be_read_is_refused_and_keeps_them(
    place: int, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("random", "--rung", "random", "-o", "games.pgn")
    ladder(capsys, *options, "--games", 4)
    texts = Path("games.pgn").read_text("utf-8").split("[Event ")
    texts[place + 1] = texts[place + 1].replace("\n1. ", "\n{ a chess program's\n[%eval 0.1] } 1. ")
    for changed in ("[Event ".join(texts), Path("games.pgn").read_text("utf-8").replace("\n", "\r\n")):
        Path("games.pgn").write_bytes(changed.encode())
        assert "games that cannot be read" in ladder(capsys, *options, "--games", 6, code=2)
        assert Path("games.pgn").read_bytes() == changed.encode()


def test_one_that_was_cut_off_anywhere_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("games.pgn")
    ladder(capsys, "random", "--rung", "random", "-o", file, "--games", 2)
    whole = file.read_bytes()
    first = whole.index(b"[Event", 1)
    for end in [*range(first, first + 40), *range(first + 40, len(whole), 7), len(whole) - 1]:
        file.write_bytes(whole[:end])
        assert len(GameFile(file).games) == 1


def test_a_rating_says_what_it_is() -> None:
    names = {"Rung": "stockfish?elo=1500", "Result": "1-0"}
    games = [{**names, "Round": "1"}, {**names, "Round": "2"}, {**names, "Round": "3", "Result": "1/2-1/2"}]
    need("stockfish")
    rung = rung_of("x", "stockfish?elo=1500", games)
    assert rung.counts == Counts(1, 1, 1) and rung.elo is not None and rung.elo.rating == 1500
    assert in_words(rung.elo) == f"Elo 1500 [{rung.elo.low:.0f}, {rung.elo.high:.0f}] (engine pool, not FIDE)"
    assert elo_together([rung, Rung("random", Counts(9, 0, 0), None, False)]) == rung.elo
    assert elo_together([]) is None and in_words(None) == "not rated"


@pytest.mark.slow
def test_openings_over_training(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    (folder / "players").mkdir(parents=True)
    for steps in (64, 128):
        (folder / "players" / f"main_{steps}_steps.zip").write_bytes(model.read_bytes())
    found = json.loads(run(capsys, "chess", "openings", folder, "--games", 3, "-o", tmp_path / "seen", "--json"))
    assert [each["steps"] for each in found["models"]] == [64, 128]
    assert all(abs(sum(each["shares"].values()) - 1) < 1e-9 for each in found["models"])
    assert len(games_in(tmp_path / "seen.pgn")) == 6 and (tmp_path / "seen.png").read_bytes()[1:4] == b"PNG"
    assert "%" in run(capsys, "chess", "openings", model, "--games", 2)
    assert Path("openings-main_64_steps.png").is_file()
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ValueError, match="has no checkpoints"):
        models_of(str(tmp_path / "nothing"))


@pytest.mark.parametrize("exploiters", [1, 2])
def test_openings_of_a_league_are_those_of_its_fighter(exploiters: int, tmp_path: Path) -> None:
    names = ["main_1024_steps.zip", "main_2048_steps.zip"]
    names += [f"main-exploiter-0_{1024 * number}_steps.zip" for number in range(1, 1 + exploiters)]
    for name in names:
        (tmp_path / name).touch()
    assert [Path(each).name for each in models_of(str(tmp_path))] == names[:2]


def session(model: Path | str, deterministic: bool = True) -> UciSession:
    return UciSession("fighter", *find_player(str(model), deterministic))


@pytest.mark.slow
def test_a_fighter_plays_whole_games_by_uci(model: Path) -> None:
    talks, rng = session(model), np.random.default_rng(0)
    assert [*talks.answers("uci")][-1] == "uciok" and [*talks.answers("isready")] == ["readyok"]
    for game in range(2):
        assert [*talks.answers("ucinewgame")] == []
        moves, legal = list[str](), legal_by_name(read_fen(START))
        while legal and len(moves) < 120:
            if len(moves) % 2 == game:
                place = f"position startpos moves {' '.join(moves)}" if moves else "position startpos"
                assert [*talks.answers(place)] == []
                (answer,) = talks.answers("go wtime 1000 btime 1000")
                moves.append(answer.removeprefix("bestmove "))
            else:
                moves.append(str(rng.choice(sorted(legal))))
            legal = legal_by_name([*walk(moves)][-1][0])  # raises if a move was not legal


def test_a_fighter_does_not_depend_on_how_a_game_is_told(model: Path) -> None:
    moves = ["e2e4", "e7e5", "g1f3", "b8c6"]
    whole, steps = session(model), session(model)
    for end in (0, 2, 4):
        [*steps.answers(f"position startpos moves {' '.join(moves[:end])}".removesuffix(" moves "))]
        answer = [*steps.answers("go")]
    [*whole.answers(f"position startpos moves {' '.join(moves)}")]
    assert [*whole.answers("go")] == answer == [*whole.answers("go")]


def test_bad_input_to_uci_is_one_line() -> None:
    talks = session("random")
    for line, words in (
        ("position", "write position startpos"),
        ("position startpos e2e4", "behind startpos comes moves"),
        ("position startpos moves e2e5", "'e2e5' is no legal move"),
        ("position fen 8/8 w", "is no position of chess"),
        ("dance", "unknown command dance"),
        ("setoption name Hash value 1", "there are no options"),
    ):
        (answer,) = talks.answers(line)
        assert answer.startswith("info string") and words in answer
    error, move = talks.answers("go")
    assert "there is none to play in" in error and move == "bestmove 0000"
    [*talks.answers("position startpos moves f2f3 e7e5 g2g4 d8h4")]
    assert [*talks.answers("go")] == ["bestmove 0000"]
    [*talks.answers("position fen 4k3/8/8/8/8/8/4q3/4K3 w - - 0 1")]
    assert [*talks.answers("go infinite")] == []
    assert [*talks.answers("stop")] == ["bestmove e1e2"] and [*talks.answers("stop")] == []
    assert [*talks.answers("go foo")] == ["info string ignored: foo", "bestmove e1e2"]


def test_what_was_pondered_is_played_on_a_hit_and_only_in_its_position() -> None:
    talks = session("random")
    [*talks.answers("position fen 4k3/8/8/8/8/8/4q3/4K3 w - - 0 1")]
    assert [*talks.answers("go ponder")] == []
    assert [*talks.answers("ponderhit")] == ["bestmove e1e2"] and [*talks.answers("stop")] == []
    assert [*talks.answers("go ponder")] == [] == [*talks.answers("position startpos")]
    assert [*talks.answers("stop")] == [] == [*talks.answers("ponderhit")]


@pytest.mark.slow
def test_uci_by_pipes(model: Path) -> None:
    lines = (
        "uci\nisready\nposition startpos moves e2e4\ngo nodes 1\nposition startpos moves e2e4 e7e9\n\nquit\nisready\n"
    )
    command = [sys.executable, "-m", "sb3_pvp.cli", "uci", str(model)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=ROOT, check=True)
    *_, ok, ready, move, wrong = done.stdout.splitlines()
    assert (ok, ready) == ("uciok", "readyok") and re.fullmatch("bestmove [a-h][1-8][a-h][1-8]", move)
    assert "'e7e9' is no legal move" in wrong and done.stderr == ""


@pytest.mark.slow
def test_stockfish_beats_random_on_the_ladder(capsys: pytest.CaptureFixture[str]) -> None:
    need("stockfish")
    found = json.loads(
        ladder(capsys, "random", "--rung", SKILL_0, "--rung", "stockfish?elo=1350&nodes=1000", "--games", 4, "--json")
    )
    assert all(each["wins"] == 0 for each in found["rungs"]) and found["elo"]["rating"] < 1350


@pytest.fixture
def display(tmp_path: Path) -> Iterator[str]:
    """A screen that nobody sees."""
    xvfb = need("Xvfb")["Xvfb"]
    read, write = os.pipe()
    server = subprocess.Popen(
        [xvfb, "-displayfd", str(write), "-nolisten", "tcp"], pass_fds=[write], stderr=subprocess.DEVNULL
    )
    os.close(write)
    yield f":{os.read(read, 16).decode().strip()}"
    server.terminate()
    server.wait()
    os.close(read)


@pytest.mark.slow
def test_a_fighter_plays_stockfish_under_xboard(model: Path, tmp_path: Path, display: str) -> None:
    programs = need("xboard", "polyglot", "stockfish")
    fighter = tmp_path / "fighter.sh"
    fighter.write_text(
        f"#!/bin/sh\ncd {ROOT} && exec {sys.executable} -m sb3_pvp.cli uci {model} 2> {tmp_path}/errors\n"
    )
    fighter.chmod(0o755)
    for name, command in (("fighter", fighter), ("stockfish", programs["stockfish"])):
        text = f"[PolyGlot]\nEngineDir = {tmp_path}\nEngineCommand = {command}\nResign = false\n[Engine]\n"
        (tmp_path / f"{name}.ini").write_text(text)
    players = ["-fcp", "polyglot fighter.ini", "-scp", "polyglot stockfish.ini"]
    match = ["-mm", "-mg", "1", "-sgf", "game.pgn", "-depth", "1", "-tc", "60"]
    settings = {**os.environ, "DISPLAY": display, "PATH": f"{os.environ['PATH']}:{Path(programs['polyglot']).parent}"}
    with (tmp_path / "xboard.log").open("wb") as log:
        board = subprocess.Popen(
            [programs["xboard"], *players, *match],
            cwd=tmp_path,
            env=settings,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        game = tmp_path / "game.pgn"
        for _ in range(6000):  # starting takes minutes on a busy machine
            if game.exists() and game.read_text().rstrip().endswith(("1-0", "0-1", "1/2-1/2")):
                break
            assert board.poll() is None, (tmp_path / "xboard.log").read_text()
            time.sleep(0.1)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(board.pid, signal.SIGKILL)
        board.wait()
    tags, text = game.read_text().split("\n\n")[:2]
    assert 'White "sb3-pvp main_64_steps"' in tags and "Stockfish" in tags
    text = re.sub(r"\{[^}]*\}", "", text)
    assert "illegal" not in game.read_text().lower() and "forfeit" not in game.read_text().lower()
    moves = [each for each in text.split()[:-1] if not each.endswith(".")]
    assert len([*walk(moves)]) == len(moves) > 4  # all legal
    assert (tmp_path / "errors").read_text() == ""
