"""The process of `sb3_pvp.games.osrs.remote.guard`: logs agents out when the process that plays them is gone.

It is started as a file and imports only the standard library, so that it costs little. Its arguments are the process id
of its parent, host and port of the server, and descriptor and path of the journal
(`sb3_pvp.games.osrs.remote.journal`). At the end of its input, or when it gets another parent, it logs out the agents
left in the journal, each over a new connection, since an old one may be stuck (``protocol.md`` §8).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time

#: State of an agent, the first letter of a line in a journal.
LOGGING_IN, LOGGED_IN, LOGGED_OUT = "+", "=", "-"

POLL_SECONDS = 1.0
#: Seconds for connecting, and for the reply to a log-out.
TIMEOUT = 5.0
#: Maximum bytes of a reply.
MAX_REPLY = 1 << 20
THREADS = 32
#: Seconds after which agents that cannot be logged out are given up.
GIVE_UP_SECONDS = 600.0


def agents_in(journal: int) -> dict[str, str]:
    """Returns the agents left in a journal (a descriptor) with their state, `LOGGING_IN` or `LOGGED_IN`."""
    text = os.pread(journal, os.fstat(journal).st_size, 0).decode("ascii", "replace")
    agents: dict[str, str] = {}
    for line in text.split("\n")[:-1]:  # The last one may be incomplete, if the writer was killed.
        if line[:1] == LOGGED_OUT:
            agents.pop(line[1:], None)
        else:
            agents[line[1:]] = line[:1]
    return agents


def main(parent: int, host: str, port: int, journal: int, path: str) -> None:
    """Waits until the parent is gone, and logs out its agents."""
    # A signal to all processes of a job must not end the guard before its work is done.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wait_for_parent_exit(parent)
    log_out_all((host, port), agents_in(journal))
    with contextlib.suppress(OSError):
        os.unlink(path)


def wait_for_parent_exit(parent: int) -> None:
    """Returns when the input ends or the parent dies."""
    # Both are needed: a forked child of the parent may hold the pipe open.
    while os.getppid() == parent:
        if select.select([0], [], [], POLL_SECONDS)[0] and not os.read(0, 1 << 16):
            return


def log_out_all(server: tuple[str, int], agents: dict[str, str]) -> None:
    """Logs out the agents, many at once: a server with a clock answers only in its next tick."""
    from concurrent.futures import ThreadPoolExecutor  # Most guards do not need it.

    deadline = time.monotonic() + GIVE_UP_SECONDS
    with ThreadPoolExecutor(THREADS) as pool:
        # A blocked synchronous server carries out pending log-ins later, and does not know these agents until then.
        left = set(agents)
        while left and time.monotonic() < deadline:
            gone = {agent: pool.submit(log_out, server, agent, agents[agent] == LOGGED_IN) for agent in left}
            left = {agent for agent, answer in gone.items() if not answer.result()}
            if left:
                time.sleep(POLL_SECONDS)


def log_out(server: tuple[str, int], agent: str, is_logged_in: bool) -> bool:
    """Sends a log-out and returns whether the agent is off the server for good: if its log-in was not answered
    (``is_logged_in`` is false), a server that does not know it may still carry that out."""
    line = json.dumps({"action": "logout", "body": None, "meta": {"id": agent}}).encode() + b"\n"
    try:
        with socket.create_connection(server, TIMEOUT) as connection, connection.makefile("rb") as replies:
            connection.settimeout(TIMEOUT)
            connection.sendall(line)
            reply = json.loads(replies.readline(MAX_REPLY))
    except ConnectionRefusedError:  # No server runs there any more.
        return True
    except (OSError, ValueError, RecursionError):  # RecursionError: JSON that is nested too deeply.
        return False
    if reply == {}:
        return True
    # "No player found": it is gone, or not there yet. Any other error may be due to a corrupted request.
    return isinstance(reply, dict) and bool(reply.get("error")) and is_logged_in and "No player found" in str(reply)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
