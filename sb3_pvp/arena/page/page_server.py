"""The server of an arena's page, beside the rounds that the same process plays."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sb3_pvp.arena.arena import Arena
from sb3_pvp.common.errors import extra

HOST, PORT = "127.0.0.1", 8400
#: Connections at the same time, and bytes of a message of a viewer, who has nothing to say.
MOST_CONNECTIONS, MOST_MESSAGE = 1000, 1024
UNREAD = 30_000  #: Milliseconds for which somebody may take nothing of what is sent to them before they are cut off.


@contextmanager
def serving_page(
    arena: Arena, host: str = HOST, port: int = PORT, public_hosts: Sequence[str] = (), **settings: bool
) -> Iterator[str]:
    """Serves the page in a thread of its own; yields its address. ``port`` 0 is a free one; settings of `make_app`.

    ``public_hosts`` are the names that a proxy on this machine has for it, without ports.

    Raises `Refusal` if its packages are missing, and `OSError` if nothing can listen there.
    """
    with extra("arena", "pages of an arena, which --no-page leaves out,"):
        import uvicorn

        from sb3_pvp.arena.page.app import make_app
    family, name = (socket.AF_INET6, f"[{host}]") if ":" in host else (socket.AF_INET, host)
    is_dual = host == "::" and socket.has_dualstack_ipv6()
    listener = socket.create_server((host, port), family=family, dualstack_ipv6=is_dual)
    is_open = host in ("0.0.0.0", "::")  # then anybody may have a name for it
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; elsewhere what is unread is kept as long as its reader wishes
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD)
    config = uvicorn.Config(
        make_app(arena, ["*"] if is_open else ["127.0.0.1", "localhost", name, *public_hosts], **settings),
        log_level="warning",
        limit_concurrency=MOST_CONNECTIONS,
        ws="websockets-sansio",
        ws_max_size=MOST_MESSAGE,
        ws_per_message_deflate=False,  # each viewer would have its own window of 50 kB, and each message be packed anew
        timeout_keep_alive=15,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.02)
    try:
        yield f"http://{name if not is_open else '127.0.0.1'}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
