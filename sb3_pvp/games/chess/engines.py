"""Chess engines as scripts of the game, such as ``stockfish?elo=1350&nodes=1000``, by UCI."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sb3_pvp.common.arguments import read_model, split_parameters
from sb3_pvp.common.processes import OwnedProcess
from sb3_pvp.game.contract.turn import Turn
from sb3_pvp.games.chess import keeper
from sb3_pvp.games.chess.layout import CONTRACT

PATIENCE = 60.0  #: Seconds that an engine may take to start, and for a move, before it counts as hanging.
_PLACES = "/usr/games:/usr/local/games:/usr/local/bin"  # besides those of the path


class Program(NamedTuple):
    """An engine that we know."""

    package: str  #: Of Debian.
    arguments: tuple[str, ...] = ()
    limits: tuple[str, ...] = ("nodes", "depth")  #: Those of `Strength` that it obeys, the default first.


ENGINES = {
    "stockfish": Program("stockfish"),
    "fairy-stockfish": Program("fairy-stockfish"),
    "gnuchess": Program("gnuchess", ("--uci",), ("depth",)),
}
_DEFAULTS = {"nodes": 1000, "depth": 3}


class Strength(BaseModel):
    """How strong an engine plays: limits of nodes or depth, never of time, which would depend on the machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    nodes: int | None = Field(None, ge=1, le=10**9)  #: Positions that it may look at for a move.
    depth: int | None = Field(None, ge=1, le=100)  #: Plies that it looks ahead.
    elo: int | None = Field(None, ge=0, le=5000)  #: ``UCI_Elo``, on the scale of a pool of engines.
    skill: int | None = Field(None, ge=-20, le=20)  #: ``Skill Level``.


class EngineFailed(ValueError):
    """Raised for an engine that does not start, hangs, ends, or plays no legal move; the next turn starts it anew."""


class Engine:
    """An engine, as a script of the game; its process starts with the first turn and ends with this object, or with us.

    What it plays depends on the position alone, as a player sees it: it does not know what has been before.

    Attributes:
        name: with its parameters, such as ``stockfish?elo=1350&nodes=1000``.
        elo: its ``UCI_Elo``, if that is given.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        program = name.partition("?")[0]
        known = ENGINES[program]
        given = split_parameters(name, f"{program}?elo=1350&{known.limits[0]}=100")[1]
        strength = read_model(Strength, given, f"{program}'s")
        wrong = [each for each in ("nodes", "depth") if getattr(strength, each) and each not in known.limits]
        if wrong:
            raise ValueError(f"{program} does not obey a limit of {wrong[0]}: give {' or '.join(known.limits)}")
        if strength.elo is not None and strength.skill is not None:
            raise ValueError(f"{name!r} has a UCI_Elo and a Skill Level: give one of them")
        found = shutil.which(program) or shutil.which(program, path=_PLACES)
        if found is None:
            raise ValueError(f"{program} is not installed: apt-get install {known.package}")
        self.elo, self._lock = strength.elo, threading.Lock()
        self._process: OwnedProcess | None = None
        limits = {each: getattr(strength, each) for each in known.limits if getattr(strength, each)}
        first = known.limits[0]
        limit = " ".join(f"{each} {value}" for each, value in (limits or {first: _DEFAULTS[first]}).items())
        options: dict[str, object] = {"Threads": 1} if "stockfish" in program else {}
        if strength.elo is not None:
            options |= {"UCI_LimitStrength": "true", "UCI_Elo": strength.elo}
        if strength.skill is not None:
            options["Skill Level"] = strength.skill
        written = ";".join(f"{each}={value}" for each, value in options.items())
        self._command = [limit, written, found, *known.arguments]

    def __call__(self, turn: Turn) -> None:
        """Chooses a move in each fight in which the own side is to move."""
        from sb3_pvp.games.chess.fen import write_fen  # here, because it imports Numba
        from sb3_pvp.games.chess.notation import legal_by_name, position_of

        self.start()  # also where nobody is to move: before the walls of a sandbox go up, see `ScriptedOpponent`
        rows = np.flatnonzero(~turn.can("wait")).tolist()
        if rows and turn.observation.shape[1] != CONTRACT.num_observations:
            # Not before: the ladder seats engines here too, and then asks them itself.
            raise EngineFailed(f"{self.name} reads planes, not pictures: play {CONTRACT.name}")
        for row in rows:
            position = position_of(turn.observation[row])
            action = self.choose(f"fen {write_fen(position)}", legal_by_name(position))
            turn.choose(CONTRACT.heads[0].actions[action].id, np.arange(len(turn.observation)) == row)

    def start(self) -> None:
        """Starts the engine, unless it runs; raises `EngineFailed`."""
        with self._lock:
            self._start()

    def choose(self, position: str, legal: Mapping[str, int]) -> int:
        """Returns its action in ``fen FEN`` or ``startpos``, maybe with ``moves e2e4 ...`` behind it.

        ``legal`` are the actions by move. Raises `EngineFailed`, also if it plays none of them.
        """
        with self._lock:
            self._start()
            word, _, move = self._ask(position).partition(" ")
            if word != "move":
                raise self._failed(move)
            if move not in legal:
                raise self._failed(f"it plays {move}, which is no legal move, in {position[-200:]}")
            return legal[move]

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.close()
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def _start(self) -> None:
        if self._process is not None:
            return
        command = [sys.executable, "-I", "-S", keeper.__file__, str(PATIENCE), *self._command]
        try:
            self._process = OwnedProcess(command, {}, stdout=subprocess.PIPE, bufsize=0)
        except OSError as error:
            raise EngineFailed(f"{self.name} cannot be started: {error}") from error
        if (said := self._heard()) != "ready":
            raise self._failed(said.removeprefix("error "))

    def _ask(self, position: str) -> str:
        assert self._process is not None and self._process.stdin is not None
        with suppress(OSError):  # then there is no answer either
            self._process.stdin.write(f"{position}\n".encode())
        return self._heard()

    def _heard(self) -> str:
        assert self._process is not None and self._process.stdout is not None
        said = self._process.stdout.readline().decode().strip()
        return said or f"error {self.name} has ended"

    def _failed(self, why: str) -> EngineFailed:
        self.close()
        return EngineFailed(f"{why} (as {self.name})" if why else f"{self.name} has ended")


def is_engine(name: object) -> bool:
    """Returns whether a name is that of an engine, with or without parameters."""
    return str(name).partition("?")[0] in ENGINES


@lru_cache(64)
def engine(name: str) -> Engine:
    """Returns the engine of this name, the same object each time; `ValueError` if it is none, or not installed."""
    return Engine(name)


class ChessScripts(Mapping[str, Any]):
    """The scripts of chess by name: ``random``, and engines, of which there are too many to be listed."""

    _listed: Mapping[str, Callable[[Turn], None]] = {"random": Turn.choose_at_random}

    def __contains__(self, name: object) -> bool:
        return name in self._listed or is_engine(name)

    def __getitem__(self, name: str) -> Callable[[Turn], None]:
        if name not in self:
            raise KeyError(name)
        return self._listed[name] if name in self._listed else engine(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)
