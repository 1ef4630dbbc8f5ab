"""Starting and stopping servers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sb3_pvp.games.osrs.remote import RemoteError, RemoteWorld, RspsServer, launcher
from tests.games.osrs.remote.served import hear_interrupts, logged_in
from tests.paths import ROOT
from tests.waiting import is_alive, wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="servers are started on POSIX systems")

#: What a launcher sees of a server: it prints its environment, and listens after a while.
_LISTENER = """
import os, socket, sys, time
print("listener", os.getpid(), flush=True)
names = "REMOTE_ENV_PORT GAME_PORT SYNC_TRAINING TICK_RATE TRAIN RUN_EVAL_BOTS SHOW_ENV_DEBUGGER MORE"
print(*(f"{name}={os.environ.get(name)}" for name in names.split()), flush=True)
time.sleep(float(sys.argv[1]))
server = socket.create_server(("127.0.0.1", int(os.environ["REMOTE_ENV_PORT"])))
while True:
    server.accept()
"""

#: Starts a server in the background, a process in another session, and one that ignores SIGTERM.
_SCRIPT = """
trap '' TERM
echo script $$
setsid sleep 1000 & echo sleeper $!
sh -c 'trap "" TERM; echo stubborn $$; while :; do sleep 0.1; done' &
{python} listener.py 0.2 &
{end}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clean environment, and a working directory with the listener's script."""
    monkeypatch.chdir(tmp_path)
    for name in ("REMOTE_ENV_PORT", "GAME_PORT", "SYNC_TRAINING", "TICK_RATE", "TRAIN", "RUN_EVAL_BOTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(launcher, "SAVING_GRACE", 0.5)
    (tmp_path / "listener.py").write_text(_LISTENER)
    return tmp_path


def listener(seconds: float = 0.2) -> list[str]:
    """Returns the command of a server that listens after ``seconds``."""
    return [sys.executable, "listener.py", str(seconds)]


def script(end: str) -> list[str]:
    """Returns the command of a shell script that starts the listener and other processes."""
    Path("start.sh").write_text(_SCRIPT.format(python=sys.executable, end=end))
    return ["sh", "start.sh"]


def logged_pids(log: Path) -> dict[str, int]:
    """Returns the process ids printed to the log, by name."""
    words = [line.split() for line in log.read_text().splitlines()]
    return {line[0]: int(line[1]) for line in words if len(line) == 2 and line[1].isdigit()}


def variables(server: RspsServer) -> dict[str, str]:
    """Returns the environment variables that the listener has printed."""
    lines = [line for line in server.log_file.read_text().splitlines() if "=" in line]
    return dict(pair.split("=", 1) for pair in lines[0].split())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {"SYNC_TRAINING": "true", "TICK_RATE": "1", "GAME_PORT": "43595", "MORE": "None"}),
        ({"sync": False, "game_port": 5}, {"SYNC_TRAINING": "false", "TICK_RATE": "None", "GAME_PORT": "5"}),
        ({"sync": False, "tick_rate": 600}, {"SYNC_TRAINING": "false", "TICK_RATE": "600"}),
        ({"env": {"MORE": "yes", "TRAIN": "false"}}, {"MORE": "yes", "TRAIN": "false"}),
    ],
)
def test_the_environment_of_a_server(arguments: dict[str, Any], expected: dict[str, str]) -> None:
    with RspsServer(listener(), port=0, **arguments) as server:
        assert server.log_file == Path(f"rsps-{server.port}.log").absolute()
        assert server.address == f"rsps://127.0.0.1:{server.port}"
        seen = variables(server)
    always = {"REMOTE_ENV_PORT": str(server.port), "TRAIN": "true", "RUN_EVAL_BOTS": "false"}
    always |= {"SHOW_ENV_DEBUGGER": "false"}
    assert {name: seen[name] for name in {**always, **expected}} == {**always, **expected}


def test_the_callers_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("REMOTE_ENV_PORT", str(port))
    monkeypatch.setenv("SYNC_TRAINING", "False")
    with RspsServer(listener(), port=7, log_file="log.txt") as server:
        assert server.port == port
        assert variables(server)["SYNC_TRAINING"] == "False"
        assert variables(server)["TICK_RATE"] == "None"


@pytest.mark.parametrize("end", ["wait", "exit 0"], ids=["in front", "in the background"])
def test_everything_that_was_started_is_stopped(end: str) -> None:
    with RspsServer(script(end), port=0, log_file="log") as server:
        pids = logged_pids(server.log_file)
        assert pids.keys() == {"script", "sleeper", "stubborn", "listener"}
        assert all(is_alive(pid) for name, pid in pids.items() if (name, end) != ("script", "exit 0"))
    assert not any(map(is_alive, pids.values()))
    server.close()


_USER = """
import sys, time
from sb3_pvp.games.osrs.remote import RspsServer, launcher
launcher.SAVING_GRACE = 0.2
with RspsServer(["sh", "start.sh"], port=0, log_file="log") as server:
    print("ready", flush=True)
    if sys.argv[1] == "error":
        raise SystemError
    time.sleep(100)
"""


@pytest.mark.parametrize("end", ["error", "SIGINT", "SIGTERM", "SIGKILL"])
def test_a_server_ends_with_its_user(end: str) -> None:
    script("wait")
    process = subprocess.Popen(
        [sys.executable, "-c", _USER, end],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=hear_interrupts,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    if end != "error":
        process.send_signal(getattr(signal, end))
    process.wait()
    pids = logged_pids(Path("log"))
    assert len(pids) == 4
    wait_until(lambda: not any(map(is_alive, pids.values())))


def test_the_process_in_between_may_be_killed() -> None:
    with RspsServer(script("wait"), port=0, log_file="log") as server:
        pids = logged_pids(server.log_file)
        assert server._process is not None
        server._process.kill()
    assert not any(map(is_alive, pids.values()))


def test_a_server_that_ends_too_early() -> None:
    command = ["sh", "-c", "seq 30; echo no such world >&2; exit 3"]
    with pytest.raises(RemoteError, match=r"(?s)ended with exit code 3 .*\n  17\n.*\n  no such world$") as error:
        RspsServer(command, port=0).start()
    assert "\n  15\n" not in str(error.value)


def test_a_server_that_is_too_slow() -> None:
    server = RspsServer(listener(100), port=0, start_timeout=1.0)
    with pytest.raises(RemoteError, match=r"(?s)did not listen within 1 s .*TRAIN=true"):
        server.start()
    assert not is_alive(logged_pids(server.log_file)["listener"])


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(RemoteError, match="in use"):
        RspsServer(listener(), port=other.getsockname()[1]).start()
    assert not list(Path().glob("*.log"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"command": "sh start.sh"}, "must be a list"),
        ({"command": []}, "must be a list"),
        ({"command": ["no-such-command"]}, "no such command: no-such-command"),
        ({"command": ["./start.sh"]}, "no such command"),
        ({"port": 70000}, "from 0 to 65535"),
        ({"start_timeout": 0}, "more than 0"),
        ({"tick_rate": 0}, "more than 0"),
    ],
)
def test_wrong_arguments_start_nothing(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RspsServer(**{"command": ["sh"], **arguments})


@pytest.fixture
def console() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``sb3-pvp rsps`` with these arguments; kills it after the test."""
    processes = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "sb3_pvp.cli", "rsps", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def test_the_command_line(console: Callable[..., subprocess.Popen[str]]) -> None:
    process = console("--port", "0", "--log-file", "log", "--", *listener())
    assert process.stdout is not None
    assert process.stdout.readline().startswith("rsps://127.0.0.1:")
    pid = logged_pids(Path("log"))["listener"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 128 + signal.SIGTERM
    assert not is_alive(pid)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--port", "0", "--", "sh", "-c", "echo too bad; exit 3"], 1, "exit code 3"),
        (["--port", "0", "--", "no-such-command"], 2, "no such command"),
        (["--port", "0"], 2, "Missing argument 'COMMAND'"),
    ],
)
def test_bad_usage_of_the_command_line(
    arguments: list[str], code: int, message: str, console: Callable[..., subprocess.Popen[str]]
) -> None:
    process = console(*arguments)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert message in said


def test_our_own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with RspsServer([sys.executable, "-m", "sb3_pvp.cli", "sim-server"], port=0) as server:
        world = RemoteWorld(server.address)
        world.reset(options={"bots": (None, "baseline")})
        world.step(np.zeros((1, 2, world.contract.num_heads), np.int64))
        assert len(logged_in(server.port)) == 1
        world.close()
        assert logged_in(server.port) == []


def test_ports_in_a_command() -> None:
    server = RspsServer(["sh", "-c", "run {port} {game_port} ${HOME} {}"], port=5, game_port=6)
    assert server._command == ["sh", "-c", "run 5 6 ${HOME} {}"]
