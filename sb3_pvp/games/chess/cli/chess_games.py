"""Games of chess between players, with their moves, and the files that keep them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.envs.settings import FightSettings
from sb3_pvp.game import Game, Outcome, find_game
from sb3_pvp.games.chess import ChessGame
from sb3_pvp.games.chess.engines import Engine, engine, is_engine
from sb3_pvp.games.chess.fen import move_name, write_fen
from sb3_pvp.games.chess.layout import NAME
from sb3_pvp.games.chess.notation import legal_by_name, walk
from sb3_pvp.games.chess.params import START
from sb3_pvp.games.chess.rules import BLACK, ENDINGS
from sb3_pvp.matches.play import PlannedFight, PlayedFight, Referee, play_fights
from sb3_pvp.players.league import Player
from sb3_pvp.players.opponents import OpponentChoice, playing_like
from sb3_pvp.players.pool import Members
from sb3_pvp.players.search.search_settings import SEARCH_OF, read_search
from sb3_pvp.policies.acting import Decision
from sb3_pvp.policies.files.model_files import game_of, load
from sb3_pvp.policies.files.shipped import find_model

PARALLEL_GAMES = 32  #: Games beside each other: those that are not over are lost if the command is stopped.
MOST_PLIES = 1000  #: Of a game, which is drawn then.


@dataclass(frozen=True)
class ChessFight:
    """A game that is to be played; the first player has White."""

    players: tuple[str, str]  #: Names among the choices.
    seed: int
    moves: tuple[str, ...] = ()  #: With which it begins, as UCI writes them.


@dataclass(frozen=True)
class ChessResult:
    """A game that is over."""

    moves: tuple[str, ...]  #: Those of the beginning too.
    result: str  #: As PGN writes it, such as ``1-0``.
    ending: str  #: Such as ``checkmate``.


def find_player(name: str, deterministic: bool) -> tuple[OpponentChoice, Game]:
    """Returns a player of chess and its game, which may be another one of the same rules.

    It is a script or a model's file, or ``mcts:`` and a file: a model that searches.

    Raises `FileNotFoundError`, and `ValueError` for a model of another game.
    """
    game = find_game(NAME)
    if name in (*game.scripts, "noop") or is_engine(name):
        return playing_like(name, deterministic, game=game), game
    searches = name.startswith(SEARCH_OF)
    path = find_model(read_search(name)[0] if searches else name)
    found = game_of(load(path))
    if not isinstance(found, ChessGame):
        raise ValueError(f"{name} plays {found.name}, not chess")
    return playing_like(name if searches else str(path), deterministic, game=found), found


def play_games(
    games: Sequence[ChessFight], choices: Mapping[str, OpponentChoice], game: Game
) -> Iterator[tuple[int, ChessResult]]:
    """Plays games; yields the number and the result of each as it ends. Engines know what has been before."""
    players = {name: Player(f"player{number}") for number, name in enumerate(choices)}
    planned = {}
    for number, each in enumerate(games):
        positions = [position for position, _ in walk(each.moves)]
        params = {"fen": write_fen(positions[-1]) if positions else START, "white": "first"}
        pair = players[each.players[0]], players[each.players[1]]
        planned[number] = PlannedFight(pair, each.seed, params)
    seated = {players[name]: choice for name, choice in choices.items()}
    settings = FightSettings(game=game, max_episode_ticks=MOST_PLIES)
    if planned:
        yield from play_fights(planned, seated, settings, PARALLEL_GAMES, _Scorer(games))


class _Scorer(Referee):
    """Writes down the moves of games; asks engines itself, with these, since players only see the board."""

    def __init__(self, games: Sequence[ChessFight]) -> None:
        self._games, self._moves = games, dict[int, list[str]]()

    def watch(self, world: Any) -> None:
        """See `Referee.watch`."""
        self._world = world

    def begin(self, rows: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """See `Referee.begin`."""
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            self._moves[row] = [*self._games[number].moves]

    def ask(self, seat: int, predict: Callable[..., Decision], members: Members, *seen: Any) -> Decision:
        """See `Referee.ask`."""
        (opponent, rows), states = members[0], seen[1]
        name = str(getattr(opponent, "name", ""))
        if not is_engine(name):
            return super().ask(seat, predict, members, *seen)
        actions = [self._choice(engine(name), seat, row) for row in rows.tolist()]
        return np.array(actions, np.int64).reshape(-1, 1), states

    def ends(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """See `Referee.ends`."""
        for row in rows.tolist():
            self._moves[row].append(move_name(int(self._world.last[row])))
        return super().ends(rows)

    def result(self, row: int, fight: PlayedFight) -> ChessResult:
        """See `Referee.result`; the first player has White."""
        result = {Outcome.WON.name: "1-0", Outcome.LOST.name: "0-1"}.get(fight.outcome.upper(), "1/2-1/2")
        ending = ENDINGS[self._world.endings[row]] or f"{MOST_PLIES} plies"
        return ChessResult(tuple(self._moves[row]), result, ending)

    def _choice(self, asked: Engine, seat: int, row: int) -> int:
        position = self._world.positions[row]
        if self._world.outcome[row, 0] or (self._world.white[row] ^ position[BLACK]) != seat:
            return 0
        moves = " ".join(["moves", *self._moves[row]] if self._moves[row] else [])
        return asked.choose(f"startpos {moves}".strip(), legal_by_name(position))


_TAG = r'\[(\w+) "((?:[^"\\]|\\.)*)"\]\n'
_GAME = re.compile(rf"(?:{_TAG})+\n(?:[^\[\n].*\n)+\n")
_CUT_OFF = re.compile(rf"(?:{_TAG})*(?:\[.*|\n(?:[^\[\n].*\n)*(?:[^\[\n].*)?)?")  # how a game of ours may begin


class GameFile:
    """A PGN file to which games are appended; one that was cut off, by a full disk, is left out.

    Raises `ValueError` for a file with anything else than games as we write them: to append would remove it.

    Attributes:
        games: the tags of each game.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.games, end = path, list[dict[str, str]](), 0
        text = path.read_bytes().decode("utf-8", errors="replace") if path.exists() else ""
        while (found := _GAME.match(text, end)) is not None:
            tags = re.findall(_TAG, found[0])
            self.games.append({name: re.sub(r"\\(.)", r"\1", value) for name, value in tags})
            end = found.end()
        if text and not end and not text.startswith('[Event "sb3-pvp'):
            raise ValueError(f"{path} is no file of these games: choose another --output")
        if _CUT_OFF.fullmatch(text, end) is None:
            at = f"game {len(self.games) + 1}"
            raise ValueError(f"{path} has games that cannot be read, from {at} on: choose another --output")
        self._size = len(text[:end].encode())

    def append(self, game: str) -> None:
        """Appends a game; if that fails, the file stays as it was, and `OSError` names it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        data = game.encode()
        try:
            with self.path.open("r+b" if self.path.exists() else "xb") as file:
                file.truncate(self._size)
                file.seek(self._size)
                file.write(data)
        except OSError as error:
            if self.path.is_file():
                with self.path.open("r+b") as file:
                    file.truncate(self._size)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._size += len(data)
