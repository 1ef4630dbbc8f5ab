"""A server in a thread, for clients that block."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sb3_pvp.games.osrs.remote.fight_pool import WorldFactory
from sb3_pvp.games.osrs.remote.wire_server import serve
from tests.games.osrs.remote.living_world import LivingWorld

TIMEOUT = 20
#: Runs until it is cancelled; calls its argument with the port when it listens.
Main = Callable[[Callable[[int], object]], Awaitable[None]]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def in_thread(main: Main, port: int = 0) -> Iterator[int]:
    """Runs the server and yields its port."""
    listening = threading.Event()
    loop = asyncio.new_event_loop()
    task = loop.create_task(main(lambda bound: (ports.append(bound), listening.set())))  # type: ignore[arg-type]
    ports: list[int] = []

    def run() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            pass
        finally:
            loop.run_until_complete(_cancel_the_rest())
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not listening.wait(0.1):  # as long as it takes: the rules may have to be compiled first
        assert thread.is_alive()
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(TIMEOUT)


async def _cancel_the_rest() -> None:
    """Cancels the other tasks of the loop, e.g. open connections, and waits for them."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def world_server(make_world: WorldFactory = LivingWorld, port: int = 0) -> Iterator[int]:
    """Runs our own server, and yields its port."""
    with in_thread(lambda announce: serve(port=port, make_world=make_world, on_listening=announce)) as bound:
        yield bound


@contextmanager
def handler_server(handler: Handler) -> Iterator[int]:
    """Runs a server that calls ``handler`` for every connection, and yields its port."""

    async def main(announce: Callable[[int], object]) -> None:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        announce(server.sockets[0].getsockname()[1])
        await asyncio.Event().wait()

    with in_thread(main) as port:
        yield port


def ask(port: int, action: str, agent: str = "debugger", body: Any = None) -> Any:
    """Sends one request over a new connection, and returns its reply."""
    line = json.dumps({"action": action, "body": body, "meta": {"id": agent}}).encode() + b"\n"
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as connection:
        connection.sendall(line)
        return json.loads(connection.makefile().readline())


def hear_interrupts() -> None:
    """Restores SIGINT, as the ``preexec_fn`` of a process: background jobs of a shell and their children ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def logged_in(port: int) -> list[str]:
    """Returns the ids of all agents on the server."""
    return [agent["id"] for agent in ask(port, "debug")["body"]]
