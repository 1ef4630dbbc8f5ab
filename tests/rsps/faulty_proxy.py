"""Stands between a client and a server and spoils one answer."""

from __future__ import annotations

import asyncio
import random

#: What happens to the answer to the spoiled request.
FAULTS = ("close", "silence", "garbage", "half", "twice", "unasked", "error", "other_contract", "flood", "reset")

_ERROR = b'{"error":true,"message":"java.lang.IllegalStateException: Can\'t attack target\\n\\tat Some.java:1"}\n'


class FaultyProxy:
    """Forwards all lines, but spoils the answer to the ``at``-th line that asks for ``action``; once.

    With a ``share`` it spoils that part of all answers, each with some fault.
    """

    def __init__(self, port: int, fault: str, at: int = 3, action: str = "step") -> None:
        self._port = port
        self._fault = fault
        self._left = at
        self._action = f'"{action}"'.encode()
        self._random = random.Random(0)
        self.share = 0.0
        self.spoiled = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection."""
        server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            while line := await reader.readline():
                to_server.write(line)
                answer = await server.readline()
                self._left -= self._action in line
                if self._left == 0 and self._action in line:
                    self._spoil(self._fault, answer, writer)
                elif self._random.random() < self.share:
                    self._spoil(self._random.choice(FAULTS), answer, writer)
                else:
                    writer.write(answer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            to_server.close()

    def _spoil(self, fault: str, answer: bytes, writer: asyncio.StreamWriter) -> None:
        self.spoiled += 1
        if fault in ("close", "reset"):
            if fault == "reset":
                writer.transport.abort()
            raise ConnectionError
        replacement = {
            "silence": b"",
            "garbage": b"\x00\xff{{\n",
            "half": answer[: len(answer) // 2] + b"\n",
            "twice": answer * 2,
            "unasked": answer + b"{}\n",
            "error": _ERROR,
            "other_contract": b'{"body":{"obs":[1],"actionMasks":[],"meta":{}}}\n',
            "flood": b"x" * 3_000_000,
        }
        writer.write(replacement[fault])
