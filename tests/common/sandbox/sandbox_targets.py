"""What runs in sandboxes in these tests: jobs that behave, and jobs that do not."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sb3_pvp.common.sandbox import walls

Mark = Callable[[int], None]
Replies = Iterator[dict[str, Any]]
PREPARED: dict[str, Any] = {}


def prepare(setup: dict[str, Any]) -> None:
    def fail(*args: object) -> None:
        raise OSError

    PREPARED.update(setup, born=time.time_ns())
    if text := setup.get("fail"):
        raise ValueError(text)
    for name in setup.get("without", ()):  # as if the kernel did not have it
        setattr(walls, name, fail)
    for name in setup.get("unnoticed", ()):  # as if the kernel had it, but in vain
        setattr(walls, name, lambda *args, forks=name == "fork_apart": os.fork() if forks else None)
    for name in setup.get("import", ()):
        __import__(name)
    if "numba" in setup.get("import", ()):
        PREPARED["triple"] = sys.modules["numba"].njit(cache=True)(triple)


def play(job: dict[str, Any], mark: Mark) -> Replies:
    """Does what the job says: a name of a function below, and its arguments."""
    yield from globals()[job["do"]](mark, *job.get("with", ()))


def count(mark: Mark, most: int) -> Replies:
    for number in range(most):
        mark(number % 2)
        yield {"number": number, **({"prepared": PREPARED["word"]} if "word" in PREPARED else {})}


def hang(mark: Mark, number: int) -> Replies:
    mark(number)
    yield {}
    mark(number)
    while True:
        pass


def be_silent(mark: Mark) -> Replies:
    mark(-1)
    time.sleep(600)
    yield {}


def take_turns(mark: Mark, seconds: float, calls: int) -> Replies:
    for _ in range(calls):
        mark(3)
        time.sleep(seconds)
    yield {}


def allocate(mark: Mark, how: str) -> Replies:
    mark(1)
    if how == "numpy":
        kept = [np.ones(1 << 20) for _ in range(1 << 12)]
    else:
        import torch

        kept = [torch.ones(1 << 21) for _ in range(1 << 12)]
    yield {"kept": len(kept)}


def catch_memory_error(mark: Mark) -> Replies:
    try:
        np.ones(1 << 40)
    except MemoryError:
        yield {"forfeits": True}


def fork_bomb(mark: Mark, depth: int) -> Replies:
    mark(0)
    made = refused = 0
    for _ in range(depth):
        try:
            child = os.fork()
        except OSError:
            refused += 1
            continue
        if child == 0:
            os.setsid()
            break
        made += 1
    else:
        yield {"made": made, "refused": refused}
        mark(0)
    while True:
        time.sleep(60)


def leave(mark: Mark, code: int) -> Replies:
    mark(1)
    os._exit(code)
    yield {}


def crash(mark: Mark) -> Replies:
    mark(1)
    ctypes.string_at(0)
    yield {}


def fail(mark: Mark, text: str) -> Replies:
    yield {"first": 1}
    raise ValueError(text)


def print_garbage(mark: Mark, size: int) -> Replies:
    mark(0)
    print("\x1b[2Jgarbage {]" * (size // 12))
    sys.stdout.flush()
    os.write(1, b"more\n")
    yield {"fine": True}


def write_replies(mark: Mark, text: str, times: int) -> Replies:
    """Writes to whatever is open, as machine code of a stranger could."""
    mark(1)
    for number in range(3, 30):
        try:
            for _ in range(times):
                os.write(number, text.encode("utf-8", "surrogateescape"))
        except OSError:
            pass
    time.sleep(600)
    yield {}


def reply(mark: Mark, value: Any) -> Replies:
    yield value


def reply_nan(mark: Mark) -> Replies:
    yield {"value": float("nan"), "array": np.arange(3)}


def attempt(mark: Mark, port: int, parent: int, secret: str, folders: list[str]) -> Replies:
    """Attempts what is forbidden; says for each attempt which error it has met, or ``None``."""

    def write(path: str) -> None:
        with open(path, "wb") as file:
            file.write(b"x" * 10)

    def ptrace() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(16, parent, 0, 0) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def connect(address: str) -> None:
        with socket.socket(socket.AF_UNIX) as made:
            made.connect(address)

    tried: dict[str, Callable[[], object]] = {
        "connect": lambda: socket.create_connection(("127.0.0.1", port), 5),
        "abstract": lambda: connect(f"\0test.{port}"),
        "socket in a file": lambda: connect(f"{secret}.socket"),
        "fork": lambda: os.fork() or os._exit(0),
        "read": Path(secret).read_bytes,
        "list": lambda: os.listdir(Path(secret).parent),
        "passwd": Path("/etc/passwd").read_bytes,
        "environ": Path(f"/proc/{parent}/environ").read_bytes,
        "signal": lambda: os.kill(parent, signal.SIGUSR1),
        "ptrace": ptrace,
        "exec": lambda: os.execv(sys.executable, ["python", "-c", "pass"]),
        **{f"write {folder}": lambda folder=folder: write(f"{folder}/x") for folder in folders},  # type: ignore[misc]
        "overwrite": lambda: write(secret),
        "truncate": lambda: os.truncate(secret, 0),
        "chown": lambda: os.setuid(0),
    }
    outcomes: dict[str, str | None] = {}
    for name, act in tried.items():
        try:
            act()
            outcomes[name] = None
        except OSError as error:
            outcomes[name] = type(error).__name__
    yield outcomes


def describe(mark: Mark) -> Replies:
    yield {
        "environment": dict(os.environ),
        "user": os.getuid(),
        "groups": os.getgroups(),
        "born": PREPARED["born"],
    }


def triple(value: float) -> float:
    return 3 * value


def use_libraries(mark: Mark, graph: str) -> Replies:
    import numba
    import onnxruntime
    import torch

    @numba.njit(cache=True)
    def double(value: float) -> float:
        return 2 * value

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.ones((1, 2), np.float32)})
    layer = torch.nn.Linear(2, 2)
    yield {
        "numba": [double(1.5), PREPARED["triple"](1.5)],
        "torch": list(layer(torch.ones(1, 2)).shape),
        "onnx": result.tolist(),
    }


def import_lazily(mark: Mark, name: str) -> Replies:
    yield {"before": name in sys.modules, "name": __import__(name).__name__}
