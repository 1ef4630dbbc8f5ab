"""The keeper of a chess engine: talks UCI with it, and ends it whatever happens. Run as a script, on POSIX systems.

It is a process between us and the engine. An engine that hangs is ended by the keeper; if we are gone, even if we were
killed, the keeper's stdin ends, and it kills the engine. All that it takes are positions: a stranger's code in a
sandbox that has the pipe cannot tell an engine, which is outside, to write files.

``python keeper.py SECONDS LIMIT OPTIONS PROGRAM [ARGUMENT ...]``. One line comes out first, ``ready`` or ``error ...``;
then for each line ``startpos moves e2e4`` or ``fen FEN moves e7e5`` one with ``move e2e4`` or ``error ...``, which is
the last one.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from typing import NoReturn

_POSITION = re.compile(r"(?:startpos|fen [\w/ -]{10,100}?)(?: moves(?: [a-h][1-8][a-h][1-8][qrbn]?){0,9999})?")
_SPIN = re.compile(r"option name (.+) type spin .*min (-?\d+) max (-?\d+)")
_MOST_BYTES = 1 << 20  # of what an engine says at once, or of a request


class Keeper:
    """Talks with one engine; whatever goes wrong ends both.

    Args:
        seconds: the engine may take for a move, and to start.
        limit: of what it may think for a move, such as ``nodes 1000``.
        command: program and arguments.
    """

    def __init__(self, seconds: float, limit: str, command: list[str]) -> None:
        self._seconds, self._limit, self._name = seconds, limit, os.path.basename(command[0])
        self._heard, self._asked = bytearray(), bytearray()
        try:
            self._engine = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )
        except OSError as error:
            self.fail(f"cannot be started: {error}")

    def set_up(self, options: dict[str, str]) -> None:
        """Sets those options that are given; one that the engine does not have, or out of range, is an error."""
        ranges: dict[str, tuple[int, int]] = {}
        others = set[str]()
        for line in self._answers("uci", "uciok"):
            if spin := _SPIN.match(line):
                ranges[spin[1]] = int(spin[2]), int(spin[3])
            elif line.startswith("option name "):
                others.add(line.removeprefix("option name ").partition(" type ")[0])
        for name, value in options.items():
            low, high = ranges.get(name, (0, 0))
            if name not in others | {*ranges}:
                self.fail(f"has no option {name}")
            if name in ranges and not low <= int(value) <= high:
                self.fail(f"has {name} from {low} to {high}, not {value}")
            self._tell(f"setoption name {name} value {value}")
        if "OwnBook" in others:
            self._tell("setoption name OwnBook value false")  # it is to think
        self._tell("ucinewgame")
        self._answers("isready", "readyok")
        _say("ready")

    def serve(self) -> None:
        """Answers positions until there are no more."""
        while True:
            while b"\n" not in self._asked:
                self._read_request()
            line, _, self._asked = self._asked.partition(b"\n")
            position = line.decode(errors="replace")
            if not _POSITION.fullmatch(position):
                self.fail("was asked for a move in what is no position")
            self._tell(f"position {position}")
            words = self._answers(f"go {self._limit}", "bestmove")[-1].split()
            _say(f"move {words[1] if len(words) > 1 else '0000'}")

    def fail(self, why: str) -> NoReturn:
        """Says why there is no answer, and ends the engine and itself."""
        _say(f"error {self._name} {why}")
        _end()

    def _tell(self, text: str) -> None:
        assert self._engine.stdin is not None
        try:
            self._engine.stdin.write(f"{text}\n".encode())
        except OSError:
            self.fail("has ended")

    def _answers(self, text: str, last: str) -> list[str]:
        """Returns what the engine says until a line begins with the word ``last``."""
        self._tell(text)
        lines, deadline = list[str](), time.monotonic() + self._seconds
        while not lines or lines[-1].split(maxsplit=1)[:1] != [last]:
            while b"\n" not in self._heard:
                self._listen(text, deadline)
            line, _, self._heard = self._heard.partition(b"\n")
            lines = [*lines[-999:], line.decode(errors="replace").strip()]
        return lines

    def _listen(self, text: str, deadline: float) -> None:
        assert self._engine.stdout is not None
        output = self._engine.stdout.fileno()
        ready = select.select([0, output], [], [], max(deadline - time.monotonic(), 0))[0]
        if 0 in ready:
            self._read_request()
        if output in ready:
            heard = os.read(output, 1 << 16)
            if not heard:
                self.fail("has ended")
            self._heard += heard
        if time.monotonic() > deadline or len(self._heard) > _MOST_BYTES:
            self.fail(f"did not answer {text.split()[0]!r} within {self._seconds:g} seconds")

    def _read_request(self) -> None:
        """Reads some of a request; at the end of stdin everything ends."""
        asked = os.read(0, 1 << 16)
        if not asked or len(self._asked) > _MOST_BYTES:
            _end()
        self._asked += asked


def _say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def _end() -> NoReturn:
    """Kills this process with the engine and all that is in their group, which nobody else is in."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    sys.exit("the keeper of an engine leads a group of its own")


def main(seconds: str, limit: str, options: str, *command: str) -> None:
    """Starts an engine and serves; ``options`` are ``name=value``, with ``;`` between them."""
    keeper = Keeper(float(seconds), limit, [*command])
    keeper.set_up(dict(each.split("=", 1) for each in options.split(";") if each))
    keeper.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
