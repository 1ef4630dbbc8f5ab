"""The process behind `sb3_pvp.games.osrs.remote.guard`: logs agents out when the process that plays them is gone.

It is started as a file, with the standard library only, so that it costs little. Its arguments are the process id of
its parent, host and port of the server, and the journal (`sb3_pvp.games.osrs.remote.journal`): descriptor and path. At
the end of its input, or when its parent is another one, it logs out the agents left in the journal, each over a
fresh connection, for an old one may be stuck (``protocol.md`` §8).
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

#: What an agent does, as the first letter of a line of a journal.
LOGGING_IN, LOGGED_IN, LOGGED_OUT = "+", "=", "-"

POLL_SECONDS = 1.0
TIMEOUT = 5.0
#: Bytes of an answer.
MAX_REPLY = 1 << 20
THREADS = 32
#: After so much time it gives up.
GIVE_UP_SECONDS = 600.0


def agents_in(journal: int) -> dict[str, str]:
    """Who is left in a journal, given as a descriptor: `ENTERING` or `INSIDE` for each agent."""
    text = os.pread(journal, os.fstat(journal).st_size, 0).decode("ascii", "replace")
    agents: dict[str, str] = {}
    for line in text.split("\n")[:-1]:
        if line[:1] == LOGGED_OUT:
            agents.pop(line[1:], None)
        else:
            agents[line[1:]] = line[:1]
    return agents


def main(parent: int, host: str, port: int, journal: int, path: str) -> None:
    """Waits until the parent is gone, and logs out its agents."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wait_for_parent_exit(parent)
    log_out_all((host, port), agents_in(journal))
    with contextlib.suppress(OSError):
        os.unlink(path)


def wait_for_parent_exit(parent: int) -> None:
    """Returns when the input ends or the parent dies; a forked child of the parent may hold the pipe open."""
    while os.getppid() == parent:
        if select.select([0], [], [], POLL_SECONDS)[0] and not os.read(0, 1 << 16):
            return


def log_out_all(server: tuple[str, int], agents: dict[str, str]) -> None:
    """Logs out the agents, many at once: a server with a clock answers in its next tick only."""
    from concurrent.futures import ThreadPoolExecutor  # not needed by most guards

    deadline = time.monotonic() + GIVE_UP_SECONDS
    with ThreadPoolExecutor(THREADS) as pool:
        # A server that stands still carries out later the log-ins it was sent; until then it does not know the agents.
        left = set(agents)
        while left and time.monotonic() < deadline:
            gone = {agent: pool.submit(log_out, server, agent, agents[agent] == LOGGED_IN) for agent in left}
            left = {agent for agent, answer in gone.items() if not answer.result()}
            if left:
                time.sleep(POLL_SECONDS)


def log_out(server: tuple[str, int], agent: str, is_logged_in: bool) -> bool:
    """Sends the log-out and returns whether the agent is not on the server; a server that is gone has none."""
    line = json.dumps({"action": "logout", "body": None, "meta": {"id": agent}}).encode() + b"\n"
    try:
        with socket.create_connection(server, TIMEOUT) as connection, connection.makefile("rb") as replies:
            connection.settimeout(TIMEOUT)
            connection.sendall(line)
            reply = json.loads(replies.readline(MAX_REPLY))
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError, RecursionError):
        return False
    if reply == {}:
        return True
    # The server does not know the agent, or does not know it yet; any other answer is no word on the agent.
    return isinstance(reply, dict) and bool(reply.get("error")) and is_logged_in and "No player found" in str(reply)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
