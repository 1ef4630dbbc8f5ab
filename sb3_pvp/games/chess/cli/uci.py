"""A fighter as a chess engine, by UCI, so that any chess program can play it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sb3_pvp.game import Game
from sb3_pvp.games.chess.notation import legal_by_name, walk
from sb3_pvp.games.chess.params import START
from sb3_pvp.games.chess.rules import BLACK
from sb3_pvp.players.opponents import OpponentChoice
from sb3_pvp.players.pool import OpponentPool

_SEAT_OF_WHITE = 0
_NO_MOVE = "bestmove 0000"
_SILENT = ("", "debug", "register", "ucinewgame")  # without an answer
_LIMITS = ("wtime", "btime", "winc", "binc", "movestogo", "depth", "nodes", "mate", "movetime", "perft")


class UciSession:
    """Answers what a chess program says, line by line. How long it thinks depends on nothing: limits are taken as read.

    Args:
        name: of the player, as programs show it.
        choice: the player.
        game: of chess, whose contract the player has.
        seed: of what it decides by chance.
    """

    def __init__(self, name: str, choice: OpponentChoice, game: Game, seed: int = 0) -> None:
        self._name, self._choice, self._game, self._seed = name, choice, game, seed
        self._world: Any = game.make_world("sim", 1, seed, {})
        self._fen, self._moves, self._placed = START, list[str](), True  # the position that was given
        self._known: tuple[str, int] = "", -1  # the start of the game that the player has seen, and its seat
        self._seen, self._decided = list[str](), False  # moves of it; whether it has decided in the last position
        self._pool: OpponentPool | None = None
        self._actions = np.zeros((1, 2, 1), np.int64)
        self._held = ""  # a move that waits for ``stop``

    def answers(self, line: str) -> Iterator[str]:
        """Yields the answers to a line; ``info string ...`` for one that makes no sense."""
        word, *rest = line.split() or [""]
        found: dict[str, Callable[[Sequence[str]], Iterator[str]]] = {
            "uci": self._introduce, "isready": lambda _: iter(["readyok"]), "position": self._place, "go": self._go,
            "stop": self._stop, "ponderhit": self._stop,
            "setoption": lambda _: iter(["info string there are no options"]),
        }  # fmt: skip
        try:
            if word not in _SILENT:
                yield from found[word](rest) if word in found else [f"info string unknown command {word[:80]}"]
        except ValueError as error:
            yield f"info string error: {' '.join(str(error).split())[:300]}"
            if word == "go":  # it waits for one
                yield _NO_MOVE

    def _introduce(self, words: Sequence[str]) -> Iterator[str]:
        yield from (f"id name sb3-pvp {self._name}", "id author the sb3_pvp authors", "uciok")

    def _place(self, words: Sequence[str]) -> Iterator[str]:
        """Takes a position, also one in which a game has ended; raises `ValueError` if it is none."""
        self._placed, self._held = False, ""  # a move of the position before is none of this one
        if not words or words[0] not in ("startpos", "fen"):
            raise ValueError("write position startpos or position fen FEN, and maybe moves e2e4 e7e5 behind it")
        end = words.index("moves") if "moves" in words else len(words)
        fen, moves = START if words[0] == "startpos" else " ".join(words[1:end]), [*words[end + 1 :]]
        if words[0] == "startpos" and end > 1:
            raise ValueError(f"behind startpos comes moves, not {words[1]!r}")
        list(walk(moves, fen))
        self._game.make_world("sim", 1, 0, {"fen": fen, "claims": False})
        self._fen, self._moves, self._placed = fen, moves, True
        return iter(())

    def _go(self, words: Sequence[str]) -> Iterator[str]:
        if not self._placed:
            raise ValueError("the last position was refused: there is none to play in")
        wrong = [each for each in words if not each.lstrip("-").isdecimal() and each not in _LIMITS]
        waits = {"infinite", "ponder"} & {*wrong}
        answer = f"bestmove {self._move()}"
        if unknown := [each for each in wrong if each not in ("infinite", "ponder", "searchmoves")]:
            yield f"info string ignored: {' '.join(unknown)[:200]}"
        if waits:  # an engine must not answer before it is stopped
            self._held = answer
        else:
            yield answer

    def _stop(self, words: Sequence[str]) -> Iterator[str]:
        if self._held:
            yield self._held
        self._held = ""

    def _move(self) -> str:
        """Returns the player's move in the position; it sees all positions of the game, one after another."""
        positions = [position for position, _ in walk(self._moves, self._fen)]
        black = int(positions[-1][BLACK]) if positions else int(self._fen.split()[1] == "b")
        self._catch_up(_SEAT_OF_WHITE + black)
        if self._world.outcome[0, 0]:
            return "0000"
        assert self._pool is not None
        if not self._decided:
            self._pool.act(self._actions)
            self._decided = True
        legal = legal_by_name(self._world.positions[0])
        by_action = {action: move for move, action in legal.items()}
        # Whoever chooses no legal move plays the first one, as in the world.
        return by_action.get(int(self._actions[0, black, 0]), by_action[min(by_action)])

    def _catch_up(self, seat: int) -> None:
        """Shows the player the moves that it has not seen; from the start, if it is another game."""
        common = self._moves[: len(self._seen)] == self._seen
        if self._pool is None or self._known != (self._fen, seat) or not common:
            params = {"fen": self._fen, "white": "first", "claims": False}
            self._world.reset([0], {"seed": self._seed, "reset_params": params})
            self._pool = OpponentPool(self._world, self._choice, self._game, seat)
            self._pool.begin(np.array([0]), [self._seed])
            self._known, self._seen, self._decided = (self._fen, seat), [], False
        for move in self._moves[len(self._seen) :]:
            if not self._decided and not self._world.outcome[0, 0]:
                self._pool.act(self._actions)
            mover = int(self._world.positions[0, BLACK])
            self._actions[0, mover] = legal_by_name(self._world.positions[0]).get(move, 0)
            self._world.step(self._actions)
            self._pool.advance()
            self._seen.append(move)
            self._decided = False
