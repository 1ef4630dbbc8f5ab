"""The process behind `sb3_pvp.rsps.guard`: logs agents out when the process that plays them is gone.

It is started as a file, with the standard library only, so that it costs little. Its input is one JSON array per line,
``["+" or "-", host, port, agent id]``; at the end of the input, or when its parent is another one, it logs out the
agents that are left, each over a fresh connection, for an old one may be stuck (``protocol.md`` §8).
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

Place = tuple[str, int]

POLL_SECONDS = 1.0
TIMEOUT = 5.0
#: After so much time it gives up.
LIMIT = 60.0


def main(parent: int) -> None:
    """Keeps the list until the parent is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    agents = watch(parent)
    deadline = time.monotonic() + LIMIT
    # A server that stands still carries out the log-ins it was sent later; until then it does not know the agents.
    while agents and time.monotonic() < deadline:
        agents = [(place, agent_id) for place, agent_id in agents if not log_out(place, agent_id)]
        if agents:
            time.sleep(POLL_SECONDS)


def watch(parent: int) -> list[tuple[Place, str]]:
    """The agents that are left when the input ends or the parent dies."""
    agents: dict[tuple[Place, str], None] = {}
    buffer = b""
    while True:
        if not select.select([0], [], [], POLL_SECONDS)[0]:
            # A forked child of the parent may hold the other end of the pipe open.
            if os.getppid() == parent:
                continue
            break
        data = os.read(0, 1 << 16)
        if not data:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            sign, host, port, agent_id = json.loads(line)
            key = ((host, port), agent_id)
            if sign == "+":
                agents[key] = None
            else:
                agents.pop(key, None)
    return list(agents)


def log_out(place: Place, agent_id: str) -> bool:
    """Sends the log-out and returns whether it was done; a server that is gone needs none."""
    line = json.dumps({"action": "logout", "body": None, "meta": {"id": agent_id}}).encode() + b"\n"
    try:
        with socket.create_connection(place, TIMEOUT) as connection:
            connection.settimeout(TIMEOUT)
            connection.sendall(line)
            return b"error" not in connection.recv(64)
    except ConnectionError:
        return True
    except OSError:
        return False


if __name__ == "__main__":
    main(int(sys.argv[1]))
