"""Machines of a small network on this one: each has its own network, processes, ``/tmp`` and shared memory.

Needs root on Linux, with ``ip`` (iproute2), ``unshare`` and ``nsenter`` (util-linux).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HOME = "/tmp/home"  #: The home folder on a machine.
#: What a machine does first. The home folder of root may have Python in it, so that another one is made.
_BEGINNING = f"""
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mkdir {HOME}
sed 's#^\\(root:[^:]*:[^:]*:[^:]*:[^:]*\\):[^:]*#\\1:{HOME}#' /etc/passwd > /tmp/passwd
mount --bind /tmp/passwd /etc/passwd

exec env --ignore-signal=CHLD sleep infinity  # nobody waits for processes that lost their parents
"""
TOOLS = ("ip", "unshare", "nsenter")


def can_make() -> bool:
    """Whether machines can be made here."""
    return hasattr(os, "geteuid") and os.geteuid() == 0 and all(map(shutil.which, TOOLS))


@dataclass
class Machine:
    """A machine with an address in the network; ``pid`` is its first process, with which all others end."""

    name: str
    address: str
    pid: int

    def command(self, *words: str) -> list[str]:
        """Returns the command that runs a command there."""
        return ["nsenter", "--target", str(self.pid), "--all", "--wd=.", *words]

    def run(
        self, *words: str, variables: Mapping[str, str] | None = None, text: str = "", timeout: float = 300.0
    ) -> str:
        """Runs a command there with ``text`` as its input; returns its output, or raises `AssertionError`."""
        env = {**os.environ, "HOME": HOME, **(variables or {})}
        command = self.command(*words)
        done = subprocess.run(command, env=env, input=text, capture_output=True, text=True, timeout=timeout)
        assert not done.returncode, f"{words} on {self.name}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Writes a file that only its owner may read."""
        self.run("sh", "-c", f"umask 077; mkdir -p $(dirname {path}); cat > {path}", text=text)

    def unplug(self) -> None:
        """Pulls its network cable."""
        _ip("-n", self.name, "link", "set", "eth0", "down")


@contextmanager
def network(count: int) -> Iterator[list[Machine]]:
    """Makes machines that are connected by a switch."""
    tag = f"sp{os.getpid() % 100000}"
    switch = f"{tag}sw"
    with ExitStack() as stack:
        _ip("netns", "add", switch)
        stack.callback(_ip, "netns", "del", switch)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        yield [
            stack.enter_context(_machine(f"{tag}m{number}", switch, f"10.77.0.{number + 1}")) for number in range(count)
        ]


@contextmanager
def _machine(name: str, switch: str, address: str) -> Iterator[Machine]:
    with ExitStack() as stack:
        _ip("netns", "add", name)
        stack.callback(_ip, "netns", "del", name)
        _ip("-n", switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("-n", switch, "link", "set", name, "master", "br0", "up")
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", name, "link", "set", device, "up")
        _ip("-n", name, "route", "add", "default", "dev", "eth0")  # by which Ray finds out its address
        unshare = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-ec", _BEGINNING]
        process = subprocess.Popen(["ip", "netns", "exec", name, *unshare], stdin=subprocess.DEVNULL)
        stack.callback(process.wait)
        stack.callback(process.kill)  # with it the kernel kills all of its processes
        yield Machine(name, address, _first_process(process))


def _first_process(unshare: subprocess.Popen[bytes]) -> int:
    """Returns the first process of the machine, when that is ready."""
    children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
    while True:
        assert unshare.poll() is None, "unshare has failed"
        pids = children.read_text().split()
        if pids and Path(f"/proc/{pids[0]}/comm").read_text().strip() == "sleep":
            return int(pids[0])
        time.sleep(0.02)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
