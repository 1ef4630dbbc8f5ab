"""Clients of a prediction server that ask as fast as they get replies, with as little work of their own as possible."""

from __future__ import annotations

import select
import socket
import time
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

#: Seconds to wait for any reply.
_REPLY_TIMEOUT = 30.0


@dataclass(frozen=True)
class Exchange:
    """A request line, and how the right reply to it begins."""

    request: bytes
    reply: bytes


@dataclass(frozen=True)
class Outcome:
    """What a load measured: seconds from each request to its reply, seconds in total, and wrong replies."""

    latencies: array[float]
    wall: float
    wrong: int


def ask(port: int, exchanges: Sequence[Exchange], clients: int, seconds: float) -> Outcome:
    """Lets ``clients`` connections ask at once, each for the next exchange as soon as it has a reply.

    Raises `OSError` if the server closes a connection or does not reply.
    """
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        sockets: dict[int, socket.socket] = {}
        for _ in range(clients):
            made = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            poll.register(made, select.EPOLLIN)
            sockets[made.fileno()] = made
        return _ask(poll, sockets, exchanges, seconds)


def _ask(
    poll: select.epoll, sockets: dict[int, socket.socket], exchanges: Sequence[Exchange], seconds: float
) -> Outcome:
    now, count = time.perf_counter, len(exchanges)
    latencies, wrong = array("d"), 0
    turn, sent = dict.fromkeys(sockets, 0), dict.fromkeys(sockets, 0.0)
    partial: dict[int, bytes] = {}
    start = now()
    for index, (number, own) in enumerate(sockets.items()):
        turn[number], sent[number] = index % count, now()
        own.sendall(exchanges[index % count].request)
    while True:
        ready = poll.poll(_REPLY_TIMEOUT)
        if not ready:
            raise OSError("the server does not reply")
        for number, _ in ready:
            own = sockets[number]
            reply = partial.pop(number, b"") + own.recv(65536)
            at = now()
            if not reply.endswith(b"\n"):
                if not reply:
                    raise OSError("the server has closed a connection")
                partial[number] = reply
                continue
            latencies.append(at - sent[number])
            asked = turn[number]
            wrong += not reply.startswith(exchanges[asked].reply)
            turn[number] = asked = (asked + 1) % count
            sent[number] = at
            own.sendall(exchanges[asked].request)
        if at - start > seconds:
            return Outcome(latencies, at - start, wrong)
