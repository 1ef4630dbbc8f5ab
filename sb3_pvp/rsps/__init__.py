"""The remote environment protocol: the embedded world behind a TCP socket that speaks JSON lines (``protocol.md``)."""

from sb3_pvp.rsps.server import run_server, serve

__all__ = ["run_server", "serve"]
