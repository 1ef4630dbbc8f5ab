"""The remote environment protocol, JSON lines over TCP (``protocol.md``): the embedded world behind a socket that
speaks it, and a world whose fights are on a server that speaks it, and a launcher for such servers."""

from sb3_pvp.rsps.address import RemoteSettings
from sb3_pvp.rsps.client_errors import RemoteError
from sb3_pvp.rsps.launcher import RspsServer
from sb3_pvp.rsps.remote_world import RemoteWorld
from sb3_pvp.rsps.server import run_server, serve

__all__ = ["RemoteError", "RemoteSettings", "RemoteWorld", "RspsServer", "run_server", "serve"]
