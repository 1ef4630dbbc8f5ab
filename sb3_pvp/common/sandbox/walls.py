"""Walls around a process that runs strangers' code: what Linux offers, through ctypes; each says if it does not stand.

The order is part of them. Namespaces are entered first, since a process with several threads enters them for one
of these only, or not at all. Landlock holds for one thread too, so a child is forked, which has one, and locks itself.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import psutil

#: Numbers for users that nobody has; systemd gives services some of them while they run.
USERS = range(61184, 65520)
NO_LINUX = "this system is not Linux, which alone has walls that hold: players' code may do all that you may"
_NO_NETWORK = (
    "no network and no process numbers of their own for matches (Linux lets only root, or users who may create user "
    "namespaces, divide them): players' code could reach the network, and what it starts could outlive its match"
)
_NO_LANDLOCK = "no Landlock (Linux 6.2 or newer has it, unless it is turned off): players' code could read your files"
_NO_USER = "no user of their own for matches (only root can give one): players' code has your rights"
_NO_FILTER = "no filter of system calls (seccomp, on x86-64 and ARM64): players' code could talk to other programs here"
_NO_LIMITS = "no limits on memory, processes and files: players' code could bring this machine to a halt"

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_IPC, _NEW_USER, _NEW_PID, _NEW_NET = 0x08000000, 0x10000000, 0x20000000, 0x40000000  # of unshare(2)
_PDEATHSIG, _KEEPCAPS, _SECCOMP, _NO_NEW_PRIVS = 1, 8, 22, 38  # of prctl(2)
_CAPABILITIES_VERSION, _DAC_READ_SEARCH = 0x20080522, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # everywhere the same
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_EXTRA_THREADS, _OPEN_FILES = 8, 128
#: Numbers of system calls by processor: clone, and those that are refused, in this order: socket, for sockets in files,
#: which no namespace divides; ptrace, process_vm_readv, process_vm_writev; shmget, semget, msgget, mq_open, which have
#: memory that no limit counts; add_key, request_key, keyctl; unshare, setns, mount; bpf, perf_event_open, userfaultfd;
#: open_by_handle_at; inotify_init1, fanotify_init; io_uring_setup, which gets round all this; and, on x86-64 only,
#: fork, vfork, inotify_init.
_CALLS = {
    "x86_64": (56, (41, 101, 310, 311, 29, 64, 68, 240, 248, 249, 250, 272, 308, 165, 321, 298, 323, 304, 294, 300, 425,
                    57, 58, 253)),
    "aarch64": (220, (198, 117, 270, 271, 194, 190, 186, 180, 217, 218, 219, 97, 268, 40, 280, 241, 282, 265, 26, 262,
                      425)),
}  # fmt: skip
_CLONE3, _THREAD = 435, 0x00010000
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
#: What the loader of libraries, time zones and ONNX Runtime's look at the processor need.
_OF_SYSTEM = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/ld.so.cache",
    "/etc/localtime", "/dev/null", "/dev/zero", "/dev/urandom", "/sys/devices/system/cpu", "/proc/cpuinfo",
)  # fmt: skip


def enter_namespaces() -> list[str]:
    """Leaves the network, for a process with one thread; returns what is lacking."""
    user, group = os.geteuid(), os.getegid()
    try:
        _check(_LIBC.unshare(_NEW_NET | _NEW_IPC | (_NEW_USER if user else 0)))
        if user:  # it stays who it is
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except (OSError, AttributeError):
        return [_NO_NETWORK]
    return []


def fork_apart(lacking: list[str]) -> int:
    """Forks a child whose descendants all end with it; returns as ``os.fork`` and adds what is lacking."""
    try:
        _check(_LIBC.unshare(_NEW_PID))
    except (OSError, AttributeError):
        lacking += [_NO_NETWORK] if _NO_NETWORK not in lacking else []
    return os.fork()


def lock(user: int | None, readable: Iterable[str], memory_mb: int) -> list[str]:
    """Locks this process, which has one thread, for good; returns what is lacking.

    Args:
        user: the number that it gets; ``None``: it is not root, and stays who it is.
        readable: files and folders.
        memory_mb: how much more than now it may use.
    """
    os.setsid()
    with suppress(OSError):  # the first to be ended if the whole machine runs out of memory
        Path("/proc/self/oom_score_adj").write_text("1000")
    _LIBC.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    lacking = _stands(_limit, _NO_LIMITS, memory_mb)
    without_landlock = _stands(_landlock, _NO_LANDLOCK, readable)
    # May root's process still read what is root's? Only where Landlock says what: players and Python may lie in a
    # folder that is closed to all others.
    lacking += without_landlock + _stands(_become, _NO_USER, user, not without_landlock)
    _LIBC.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after that: a new user resets it
    return lacking + _stands(_filter_calls, _NO_FILTER)


def end_all_of(user: int | None, seconds: float = 5.0) -> None:
    """Ends all processes of one of `USERS`, those too that start while they are ended."""
    deadline = time.monotonic() + seconds
    while user in USERS and time.monotonic() < deadline:
        left = [each for each in psutil.process_iter(["uids", "status"]) if _is_of(each, user)]
        if not left:
            return
        for each in left:
            with suppress(psutil.Error):
                each.kill()


def _is_of(process: psutil.Process, user: int | None) -> bool:
    uids = process.info["uids"]
    return uids is not None and uids.real == user and process.info["status"] != psutil.STATUS_ZOMBIE


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _syscall(*args: object) -> int:
    return _check(_LIBC.syscall(*(ctypes.c_long(each) if isinstance(each, int) else each for each in args)))


def _stands(wall: Callable[..., None], otherwise: str, *args: object) -> list[str]:
    try:
        wall(*args)
    except (OSError, ValueError, AttributeError, KeyError):  # no such call, or no such processor
        return [otherwise]
    return []


def _limit(memory_mb: int) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    threads = len(os.listdir("/proc/self/task"))
    for kind, most in (
        (resource.RLIMIT_AS, used + (memory_mb << 20)),
        (resource.RLIMIT_NPROC, threads + _EXTRA_THREADS),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _landlock(readable: Iterable[str]) -> None:
    abi = _syscall(_CREATE_RULESET, None, 0, 1)
    if abi < 3:  # files could be emptied
        raise OSError
    files = (1 << 15) - 1 | (1 << 15 if abi >= 5 else 0)  # all rights that there are
    network, scopes = 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0  # TCP; abstract sockets and signals
    handled = (ctypes.c_uint64 * 3)(files, network, scopes)
    size = 8 * (1 + (abi >= 4) + (abi >= 6))
    ruleset = _syscall(_CREATE_RULESET, ctypes.byref(handled), size, 0)
    for path in {*_python(), *_OF_SYSTEM, *readable}:
        with suppress(FileNotFoundError, PermissionError):
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rights = _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
            rule = rights.to_bytes(8, sys.byteorder) + opened.to_bytes(4, sys.byteorder)
            _syscall(_ADD_RULE, ruleset, 1, ctypes.c_char_p(rule), 0)
            os.close(opened)
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _python() -> set[str]:
    """Returns where Python, its packages and this one are."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return paths | {sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])}


def _become(user: int | None, may_read: bool) -> None:
    kept = 0
    if user is not None:
        _check(_LIBC.prctl(_KEEPCAPS, 1, 0, 0, 0))
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        kept = 1 << _DAC_READ_SEARCH if may_read else 0
    # Also of somebody else, who has all capabilities in a user namespace.
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)  # effective, permitted, inheritable; then the high halves
    _check(_LIBC.capset(ctypes.byref(header), ctypes.byref(sets)))
    if user is None:
        raise OSError


def _filter_calls() -> None:
    """Refuses what `_CALLS` lists, and new processes, so that one process has all the memory that there is for them."""
    machine = os.uname().machine
    clone, refused = _CALLS[machine]
    load, equal, at_least, any_of, reply = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, no_such_call, no_permission, kill = 0x7FFF0000, 0x00050000 | 38, 0x00050000 | 1, 0x80000000
    # Each step: what to do, how many steps to skip if so, and if not, and a value.
    steps = [(load, 0, 0, 4), (equal, 1, 0, _ARCHITECTURES[machine]), (reply, 0, 0, kill), (load, 0, 0, 0)]
    steps += [(at_least, 0, 1, 1 << 30), (reply, 0, 0, no_permission)]  # the numbers of x86-64's 32-bit pointers
    for number in refused:
        steps += [(equal, 0, 1, number), (reply, 0, 0, no_permission)]
    steps += [(equal, 0, 1, _CLONE3), (reply, 0, 0, no_such_call)]  # then libraries use clone, whose flags are seen
    steps += [(equal, 0, 3, clone), (load, 0, 0, 16), (any_of, 1, 0, _THREAD), (reply, 0, 0, no_permission)]
    steps += [(reply, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(code)))
    _check(_LIBC.prctl(_SECCOMP, 2, program, 0, 0))
