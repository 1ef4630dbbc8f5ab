"""`RspsServer`: starts a server with the environment variables it expects, and stops it with all its processes."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from sb3_pvp.common.processes import LOOK_SECONDS, SAVING_GRACE, WatchedProcess
from sb3_pvp.games.osrs.remote.address import DEFAULT_PORT, PORT_VARIABLE, SCHEME
from sb3_pvp.games.osrs.remote.client_errors import RemoteError

HOST = "127.0.0.1"
DEFAULT_GAME_PORT = 43595
#: Lines of the log in the error of a server that does not come up.
LAST_LINES = 15


class RspsServer:
    """A server process as a context manager: ``with RspsServer(["./gradlew", "run"]) as server: ...``.

    The command gets the original system's environment variables for training (protocol.md §7); variables that are set
    already take precedence. However this process ends, the server is stopped, with all processes that it has started.
    Needs a POSIX system.

    Args:
        command: the program and its arguments; a relative path is resolved from ``cwd``. In them, ``{port}`` and
            ``{game_port}`` stand for these ports.
        port: for agents (``REMOTE_ENV_PORT``); 0 picks a free one.
        game_port: for players (``GAME_PORT``); 0 picks a free one.
        sync: whether each tick waits for all agents (``SYNC_TRAINING``); else the world has a clock.
        tick_rate: milliseconds per tick (``TICK_RATE``); default: 1 if synchronous, else the server's own.
        log_file: file for the server's output; default: ``rsps-PORT.log`` in the working directory.
        start_timeout: seconds within which it must listen.
        env: more variables for the server, which override all others.
        cwd: working directory of the command; default: that of this process.

    Attributes:
        port: the port for agents.
        environment: all environment variables of the server.
        log_file: path of the file with its output.

    Raises:
        ValueError: if the command does not exist or a value is impossible.
        RuntimeError: on a system that is not POSIX.
    """

    def __init__(
        self,
        command: Sequence[str],
        port: int = DEFAULT_PORT,
        game_port: int = DEFAULT_GAME_PORT,
        sync: bool = True,
        tick_rate: int | None = None,
        log_file: str | os.PathLike[str] | None = None,
        start_timeout: float = 300.0,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        if os.name != "posix":
            raise RuntimeError("starting a server needs a POSIX system; start it by hand")
        if start_timeout <= 0 or (tick_rate is not None and tick_rate <= 0):
            raise ValueError("start_timeout and tick_rate must be more than 0")
        settings = {
            PORT_VARIABLE: str(_resolved_port(port)),
            "GAME_PORT": str(_resolved_port(game_port)),
            "SYNC_TRAINING": str(sync).lower(),
            "TRAIN": "true",
            "RUN_EVAL_BOTS": "false",
            "SHOW_ENV_DEBUGGER": "false",
        }
        # The caller's environment overrides the settings, as with the reference launcher (protocol.md §7).
        self.environment = {**settings, **os.environ, **(env or {})}
        if tick_rate is None and self.environment["SYNC_TRAINING"].lower() == "true":
            tick_rate = 1
        if tick_rate is not None:
            self.environment.setdefault("TICK_RATE", str(tick_rate))
        self.port = _resolved_port(self.environment[PORT_VARIABLE])  # Not `port`, which may be overridden.
        self.log_file = Path(log_file or f"rsps-{self.port}.log").absolute()
        ports = {"{port}": str(self.port), "{game_port}": self.environment["GAME_PORT"]}
        self._command = [_filled_in(each, ports) for each in _validated_command(command, self.environment, cwd)]
        self._cwd = cwd
        self._start_timeout = start_timeout
        self._process: WatchedProcess | None = None

    @property
    def address(self) -> str:
        """The address of this world, for ``NhEnv(world=...)``."""
        return f"{SCHEME}://{HOST}:{self.port}"

    def start(self) -> None:
        """Starts the server and returns when it listens. Raises `RemoteError`, and leaves no process, if its port is in
        use, or if it ends or does not listen in time; then with the last lines of its log."""
        if self._process is not None:
            raise RemoteError("the server was started already; close it first")
        if _accepts_connections(self.port):  # Else another server would be taken for this one.
            raise RemoteError(f"port {self.port} is in use: is a server running already? Give another port, or 0")
        self.log_file.write_bytes(b"")
        self._process = WatchedProcess(self._command, self.log_file, self.environment, self._cwd, SAVING_GRACE)
        try:
            self._wait_until_it_listens(self._process)
        except BaseException:  # Also after Ctrl-C: `__exit__` is not called if `__enter__` fails.
            self.close()
            raise

    def poll(self) -> int | None:
        """Returns the exit code of a server that has ended on its own, ``None`` while it runs or after `close`."""
        return None if self._process is None else self._process.poll()

    def wait(self) -> int:
        """Waits until the server ends on its own, and returns its exit code."""
        if self._process is None:
            raise RemoteError("the server was not started; call start first")
        return self._process.wait()

    def close(self) -> None:
        """Stops the server and all its processes, first with SIGTERM; later calls do nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def __enter__(self) -> RspsServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_until_it_listens(self, process: WatchedProcess) -> None:
        deadline = time.monotonic() + self._start_timeout
        while True:
            listens, code = _accepts_connections(self.port), process.poll()
            if code is not None:  # also if another server listens there
                reason = f"it ended with exit code {code}"
            elif time.monotonic() > deadline:
                reason = f"it did not listen within {self._start_timeout:g} s"
            elif listens:
                return
            else:
                time.sleep(LOOK_SECONDS)
                continue
            raise RemoteError(self.with_log(f"the server did not come up on port {self.port}: {reason}"))

    def with_log(self, what: str) -> str:
        """Returns an error message with the last lines of the log."""
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()[-LAST_LINES:]
        except OSError:  # such as of a server that has outlived its log, see `own_server.KEPT_LOGS`
            return f"{what} ({self.log_file}, which is gone)"
        log = "\n  ".join(["; the last lines of its log:", *lines]) if lines else "; it has printed nothing"
        return f"{what} ({self.log_file}){log}"


def _resolved_port(port: object) -> int:
    """Returns the port, or for 0 one that is free now."""
    try:
        number = int(str(port))
    except ValueError:
        number = -1
    if not 0 <= number < 2**16:
        raise ValueError(f"a port must be a number from 0 to 65535, got {port!r}")
    if number:
        return number
    with socket.socket() as probe:  # The port is free again afterwards; `start` notices if it is taken meanwhile.
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _filled_in(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():  # not `str.format`: a command may have braces of its own
        text = text.replace(name, value)
    return text


def _validated_command(
    command: Sequence[str], environment: Mapping[str, str], cwd: str | os.PathLike[str] | None
) -> list[str]:
    if isinstance(command, str) or not command:
        raise ValueError(f'the command must be a list such as ["./gradlew", "run"], got {command!r}')
    program = command[0]
    # As `Popen` resolves it: a path from the new working directory, a name by the PATH of the server's environment.
    if os.path.dirname(program):
        found = shutil.which(os.path.join(cwd or ".", program))
    else:
        found = shutil.which(program, path=environment.get("PATH"))
    if found is None:
        raise ValueError(f"there is no such command: {program}")
    return list(command)


def _accepts_connections(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), 1.0):
            return True
    except OSError:
        return False
