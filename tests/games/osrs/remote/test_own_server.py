"""Servers that worlds start for themselves."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import psutil
import pytest

from sb3_pvp.games.osrs.remote import RemoteError, RemoteSettings, RemoteWorld, launcher, own_server
from sb3_pvp.games.osrs.remote.own_server import OwnServer
from tests.paths import ROOT
from tests.waiting import is_alive, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="servers are started on POSIX systems")

#: A server of fights without rules, which starts sooner than the embedded world. Its argument is its port.
_SERVER = """
import asyncio, os, sys
from sb3_pvp.games.osrs.remote.wire_server import serve
from tests.games.osrs.remote.living_world import LivingWorld
print("server", os.getpid(), os.environ["REMOTE_ENV_PORT"], os.environ["GAME_PORT"], flush=True)
asyncio.run(serve(port=int(sys.argv[1]), make_world=LivingWorld))
"""


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the servers' logs; the working directory has the script of a server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(launcher, "SAVING_GRACE", 0.5)
    (tmp_path / "server.py").write_text(_SERVER)
    return tmp_path / "sb3_pvp" / "servers"


def settings(*command: str, **others: Any) -> RemoteSettings:
    """Returns settings that start a server; by default the script."""
    return RemoteSettings(launch=shlex.join(command or (sys.executable, "server.py", "{port}")), **others)


def started(logs: Path) -> list[list[int]]:
    """Returns process, port and game port of all servers, in the order in which they were started."""
    texts = [path.read_text() for path in sorted(logs.iterdir(), key=os.path.getmtime)]
    return [[int(word) for word in text.split()[1:4]] for text in texts if text.startswith("server")]


def play(world: RemoteWorld, ticks: int = 1) -> None:
    for _ in range(ticks):
        world.step(np.zeros((world.num_fights, 2, world.contract.num_heads), np.int64))


@pytest.mark.slow
def test_each_world_has_a_server_of_its_own_for_as_long_as_it_is_open(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Variables that are set already would be the ports of both.
    monkeypatch.setenv("REMOTE_ENV_PORT", "7")
    monkeypatch.setenv("GAME_PORT", "8")
    options = urlencode({"launch": settings().launch, "step_timeout": 9, "launch_cwd": os.getcwd()})
    worlds = [RemoteWorld(f"rsps://?{options}") for _ in range(2)]
    worlds[1].close()
    assert not logs.exists()  # before the first reset there is none
    for world in worlds:
        world.reset(options={"bots": (None, "baseline")})
        play(world)
    servers = started(logs)
    assert len({port for _, *ports in servers for port in ports} - {7, 8}) == 4
    worlds[0].close()
    assert [is_alive(pid) for pid, *_ in servers] == [False, True]
    play(worlds[1])
    worlds[1].close()
    assert not is_alive(servers[1][0])
    worlds[1].reset(options={"bots": (None, "baseline")})
    assert len(started(logs)) == 3
    worlds[1].close()


@pytest.mark.slow
def test_a_server_that_ends_is_started_again_unless_it_ends_at_once(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = RemoteWorld(settings(), num_fights=2)
    world.reset(options={"bots": (None, "baseline")})
    pid, *ports = started(logs)[0]
    monkeypatch.setattr(own_server, "SHORT_LIFE", 0.0)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: world._server is not None and world._server.fault() is not None)
    with pytest.warns(UserWarning, match="(?s)exit code 137.*It is started again"):
        play(world)
    assert world.outcome.all()  # the fights of the first server have broken off
    world.reset(options={"bots": (None, "baseline")})
    play(world, 2)
    assert not world.outcome.any()
    again, *same = started(logs)[1]
    assert same == ports
    monkeypatch.setattr(own_server, "SHORT_LIFE", 60.0)
    os.kill(again, signal.SIGKILL)
    wait_until(lambda: world._server is not None and world._server.fault() is not None)
    with pytest.raises(RemoteError, match=r"(?s)server of a world ended with exit code 137 \(.*\n  server \d+"):
        play(world)
    with pytest.raises(RemoteError, match="reset the world first"):
        play(world)


def test_a_server_ends_with_the_process_that_it_was_started_for(logs: Path) -> None:
    code = "import sys, time; from sb3_pvp.games.osrs.remote import *; world = RemoteWorld(sys.argv[1]); "
    code += "world.reset(options={'bots': (None, 'baseline')}); time.sleep(100)"
    address = f"rsps://?{urlencode({'launch': settings().launch})}"
    process = psutil.Popen([sys.executable, "-c", code, address])
    wait_until(lambda: logs.exists() and bool(started(logs)))
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(started(logs)[0][0]))


def test_a_forked_process_leaves_the_server_alone() -> None:
    server = OwnServer(settings())
    child = os.fork()
    if not child:
        server._server._process.poll()  # type: ignore[union-attr]  # in a child it seems to have ended
        server.keep_running()
        server.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert server.fault() is None
    server.close()


def test_ports_that_are_taken(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_server._reserved_port() as one, own_server._reserved_port() as other:
        assert one != other
    first = OwnServer(settings())
    free = own_server._reserved_port

    @contextmanager
    def taken() -> Any:
        monkeypatch.setattr(own_server, "_reserved_port", free)
        yield first.settings.port

    monkeypatch.setattr(own_server, "_reserved_port", taken)
    second = OwnServer(settings())
    assert first.settings.port != second.settings.port
    second.close()
    # Another program that takes the port of a server before this listens is not taken for it.
    with own_server._reserved_port() as port:
        command = settings(sys.executable, "server.py", str(first.settings.port))
        with pytest.raises(RemoteError, match="(?s)did not come up.*exit code 1.*address already in use"):
            OwnServer(command)
        assert own_server._is_free(port)
    first.close()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["sh", "-c", "echo no such world; exit 3"], "(?s)did not come up on port .* exit code 3 .*no such world$"),
        (["no-such-command"], "cannot start a server: there is no such command: no-such-command"),
    ],
)
def test_a_server_that_cannot_be_started(command: list[str], message: str) -> None:
    world = RemoteWorld(settings(*command))
    with pytest.raises(RemoteError, match=message):
        world.reset()


def test_the_newest_logs_are_kept(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_server, "KEPT_LOGS", 2)
    paths = []
    for port in (1, 2, 3):
        paths.append(Path(own_server._new_log(port)))
        os.utime(paths[-1], (port, port))
    own_server._new_log(4)
    assert [path.exists() for path in paths] == [False, False, True]
    assert paths[2].parent == logs


def test_a_server_whose_log_is_gone_tells_how_it_ended(logs: Path) -> None:
    server = OwnServer(settings())
    ((process, _, _),) = started(logs)
    next(logs.iterdir()).unlink()
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: server.fault() is not None)
    assert re.search(r"ended with exit code -?\d+ \(.*\.log, which is gone\)$", str(server.fault()))
    server.close()
