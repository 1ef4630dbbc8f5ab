"""The remote environment protocol, JSON lines over TCP (``protocol.md``): a server of the embedded world, a client
(`RemoteWorld`) for fights on any such server, and a launcher for servers."""

from sb3_pvp.games.osrs.remote.address import RemoteSettings
from sb3_pvp.games.osrs.remote.client_errors import RemoteError
from sb3_pvp.games.osrs.remote.launcher import RspsServer
from sb3_pvp.games.osrs.remote.remote_world import RemoteWorld
from sb3_pvp.games.osrs.remote.wire_server import run_server, serve

__all__ = ["RemoteError", "RemoteSettings", "RemoteWorld", "RspsServer", "run_server", "serve"]
