"""The sandbox: whatever its process does, who asked it gets replies or a cause."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from sb3_pvp.common.sandbox import walls
from sb3_pvp.common.sandbox.sandbox import Sandbox, SandboxDied, SandboxLimits, missing_walls

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the sandbox is for POSIX")

PLAY = "tests.common.sandbox.sandbox_targets:play"
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = f"""
from sb3_pvp.common.sandbox.sandbox import SandboxLimits, Sandbox, missing_walls
print(*missing_walls(), sep="\\n")
print(list(Sandbox({PLAY!r}, {{}}, SandboxLimits()).run({{"do": "count", "with": [1]}})))
"""
SHORT = SandboxLimits(memory_mb=256, call_seconds=3.0)


def need(*words: str) -> None:
    """Skips the test where a wall is missing, or one whose description has one of these words."""
    if missing := [wall for wall in missing_walls() if not words or any(word in wall for word in words)]:
        pytest.skip(f"missing here: {missing}")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with closing(Sandbox(PLAY, {"word": "hello"}, SHORT)) as made:
        yield made


def do(sandbox: Sandbox, name: str, *args: Any) -> list[dict[str, Any]]:
    return list(sandbox.run({"do": name, "with": args}))


def death(sandbox: Sandbox, name: str, *args: Any) -> tuple[str, int | None]:
    with pytest.raises(SandboxDied) as died:
        do(sandbox, name, *args)
    assert do(sandbox, "count", 1) == [{"number": 0, "prepared": "hello"}], "the next job has a new process"
    return died.value.cause, died.value.marked


def test_one_process_does_job_after_job(sandbox: Sandbox) -> None:
    first, second = do(sandbox, "describe"), do(sandbox, "describe")
    assert do(sandbox, "count", 3) == [{"number": each, "prepared": "hello"} for each in range(3)]
    assert first == second


def test_replies_come_as_they_are_made(sandbox: Sandbox) -> None:
    replies = sandbox.run({"do": "hang", "with": [7]})
    assert next(replies) == {}
    with pytest.raises(SandboxDied, match="hung, in 7"):
        next(replies)


def test_who_stops_listening_ends_the_process(sandbox: Sandbox) -> None:
    before = do(sandbox, "describe")
    replies = sandbox.run({"do": "count", "with": [1000]})
    assert next(replies)["number"] == 0
    replies.close()
    assert do(sandbox, "describe")[0]["born"] > before[0]["born"]


def test_a_call_that_lasts_too_long_has_hung(sandbox: Sandbox) -> None:
    assert death(sandbox, "hang", 5) == ("hung", 5)


def test_many_short_calls_last_as_long_as_they_like(sandbox: Sandbox) -> None:
    assert do(sandbox, "take_turns", 0.5, 8) == [{}]


def test_silence_ends_too() -> None:
    with closing(Sandbox(PLAY, {}, SandboxLimits())) as made:
        do(made, "count", 1)  # it has started
        made._limits = SandboxLimits(silence_seconds=1)
        with pytest.raises(SandboxDied) as died:
            do(made, "be_silent")
    assert (died.value.cause, died.value.marked) == ("hung", None)


def test_memory_is_limited() -> None:
    need("limits")
    with closing(Sandbox(PLAY, {"word": "hello"}, SandboxLimits(memory_mb=256, call_seconds=60))) as made:
        assert death(made, "allocate", "numpy") == ("out of memory", 1)
        assert do(made, "catch_memory_error") == [{"forfeits": True}]


@pytest.mark.parametrize(("name", "args"), [("leave", [0]), ("leave", [3]), ("crash", [])])
def test_who_ends_the_process_has_crashed(sandbox: Sandbox, name: str, args: list[int]) -> None:
    assert death(sandbox, name, *args) == ("crashed", 1)


def test_an_error_of_the_function_is_raised_here_and_costs_nothing_else(sandbox: Sandbox) -> None:
    before = do(sandbox, "describe")
    replies = sandbox.run({"do": "fail", "with": ["odd"]})
    assert next(replies) == {"first": 1}
    with pytest.raises(RuntimeError, match="ValueError: odd") as raised:
        next(replies)
    assert not isinstance(raised.value, SandboxDied)
    assert do(sandbox, "describe") == before


def test_an_error_while_preparing_is_raised_here() -> None:
    with closing(Sandbox(PLAY, {"fail": "no such game"}, SHORT)) as made:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="ValueError: no such game"):
                do(made, "count", 1)
    with (
        closing(Sandbox("tests.common.sandbox.nothing:play", {}, SHORT)) as made,
        pytest.raises(RuntimeError, match="nothing"),
    ):
        do(made, "count", 1)


def test_what_is_printed_is_no_reply(sandbox: Sandbox, capfd: pytest.CaptureFixture[str]) -> None:
    assert do(sandbox, "print_garbage", 1 << 20) == [{"fine": True}]
    printed = capfd.readouterr()
    assert "garbage {]" in printed.err and "\x1b" not in printed.err and len(printed.err) < 10_000
    assert not printed.out


@pytest.mark.parametrize(
    "text",
    ["no JSON\n", '{"reply": {"value": NaN}}\n', '{"reply": ' + '{"a":' * 5000 + "0" + "}" * 5000 + "}\n", "\n",
     *(pytest.param(text, marks=pytest.mark.slow) for text in (
        '{"reply": [1]}\n', "[]\n", '{"reply": {}, "done": true}\n', "ÿ\n", '{"done": "' + "[" * 5000 + "\n",
        '{"other": {}}\n', '{"lacking": [[]]}\n', '{"error": 1}\n'))],
)  # fmt: skip
def test_nonsense_ends_the_process(sandbox: Sandbox, text: str) -> None:
    assert death(sandbox, "write_replies", text, 1) == ("nonsense", 1)


@pytest.mark.slow
def test_replies_may_be_large_but_not_endless(sandbox: Sandbox) -> None:
    # orjson reserves eight times a text's size.
    with closing(Sandbox(PLAY, {"word": "hello"}, SandboxLimits(memory_mb=1024))) as made:
        (large,) = do(made, "reply", {"text": "x" * (15 << 20)})
        assert len(large["text"]) == 15 << 20
        assert death(made, "reply", {"text": "x" * (17 << 20)}) == ("nonsense", None)
    assert death(sandbox, "write_replies", "x" * (1 << 20), 20) == ("nonsense", 1)


def test_replies_are_json(sandbox: Sandbox) -> None:
    assert do(sandbox, "reply_nan") == [{"value": None, "array": [0, 1, 2]}]
    assert death(sandbox, "reply", [1]) == ("nonsense", None)


def test_a_death_can_be_pickled() -> None:
    found = pickle.loads(pickle.dumps(SandboxDied("hung", 1)))
    assert (found.cause, found.marked, str(found)) == ("hung", 1, "a match's process is gone: hung, in 1")


def test_many_replies_cost_little(sandbox: Sandbox) -> None:
    def seconds(number: int) -> float:
        start = time.process_time()
        assert len(do(sandbox, "count", number)) == number
        return time.process_time() - start

    few, many = (min(seconds(number) for _ in range(3)) for number in (1_000, 10_000))
    assert many < 40 * max(few, 0.001), "each reply costs about the same, however many there are"


@pytest.mark.parametrize(("unnoticed", "possible"), [([], set()), (["_filter_calls"], {"socket in a file", "fork"})])
def test_nothing_outside_can_be_reached(tmp_path: Path, unnoticed: list[str], possible: set[str]) -> None:
    need()
    secret, folder = tmp_path / "secret" / "token", tmp_path / "shared"
    folder.mkdir()
    secret.parent.mkdir()
    secret.write_text("of root")
    for each in (tmp_path, secret.parent, folder):
        each.chmod(0o777)
    secret.chmod(0o666)
    received = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: received.append(number))
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as in_file,
        closing(Sandbox(PLAY, {"unnoticed": unnoticed}, SHORT, readable=[folder])) as made,
    ):
        port = server.getsockname()[1]
        abstract.bind(f"\0test.{port}")
        in_file.bind(f"{secret}.socket")
        Path(f"{secret}.socket").chmod(0o777)
        for each in (abstract, in_file):
            each.listen()
        folders = ["/tmp", "/dev/shm", "/var/tmp", str(folder), str(ROOT), sys.prefix]
        (found,) = do(made, "attempt", port, os.getpid(), str(secret), folders)
    signal.signal(signal.SIGUSR1, before)
    assert not received and secret.read_text() == "of root" and not list(folder.iterdir())
    assert {"connect", "abstract", "signal", "environ", "write /tmp", "overwrite"} < {*found}
    assert {name for name, error in found.items() if error is None} == possible


def test_tokens_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "WANDB_API_KEY", "SB3_PVP_STORAGE"):
        monkeypatch.setenv(name, "secret")
    with closing(Sandbox(PLAY, {}, SHORT)) as made:
        (found,) = do(made, "describe")
    assert found["environment"]["OMP_NUM_THREADS"] == "1" and "secret" not in found["environment"].values()


def test_each_process_has_a_user_of_its_own(sandbox: Sandbox) -> None:
    need("user")
    with closing(Sandbox(PLAY, {}, SHORT)) as other:
        (one,), (two,) = do(sandbox, "describe"), do(other, "describe")
    assert one["user"] in walls.USERS and two["user"] in walls.USERS and one["user"] != two["user"]
    assert one["groups"] == two["groups"] == []


def of_user(user: int) -> list[psutil.Process]:
    return [
        each for each in psutil.process_iter() if each.uids().real == user and each.status() != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize(
    "unnoticed", [pytest.param(["_filter_calls"], marks=pytest.mark.slow), ["_filter_calls", "fork_apart"]]
)
def test_a_fork_bomb_leaves_nothing(unnoticed: list[str]) -> None:
    need()
    # Without process numbers of their own, its processes are found by their user.
    with closing(Sandbox(PLAY, {"unnoticed": unnoticed}, SHORT)) as made:
        user = do(made, "describe")[0]["user"]
        replies = made.run({"do": "fork_bomb", "with": [100]})
        counts = next(replies)
        assert 0 < counts["made"] < 20 and counts["made"] + counts["refused"] == 100
        assert len(of_user(user)) > counts["made"]
        with pytest.raises(SandboxDied, match="hung, in 0"):
            next(replies)
        assert not of_user(user)


@pytest.mark.parametrize("job", [{"do": "count", "with": [1]}, {"do": "be_silent"}])
def test_when_the_parent_is_killed_everything_ends(job: dict[str, Any]) -> None:
    script = f"""
import sys
from sb3_pvp.common.sandbox.sandbox import SandboxLimits, Sandbox
made = Sandbox({PLAY!r}, {{}}, SandboxLimits())
list(made.run({{"do": "count", "with": [1]}}))
print("ready", flush=True)
list(made.run({job!r}))
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) == 2, "a guard, and what it guards"
        process.kill()
    gone, alive = psutil.wait_procs(family, timeout=30)
    assert len(gone) == 2 and not alive


def test_when_the_guard_is_killed_what_it_guards_ends_and_the_next_job_works() -> None:
    with closing(Sandbox(PLAY, {}, SHORT)) as made:
        do(made, "count", 1)
        alive = (each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE)
        guards = [each for each in alive if "sb3_pvp.common.sandbox.guard" in each.cmdline()]
        guard = max(guards, key=psutil.Process.create_time)
        (guarded,) = guard.children()
        guard.kill()
        gone, _ = psutil.wait_procs([guarded], timeout=30)
        assert gone == [guarded] and do(made, "count", 1) == [{"number": 0}]


@pytest.mark.slow
def test_libraries_work_behind_walls(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Neg", ["x"], ["y"])], "graph", [x], [y])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "player.onnx")
    setup = {"import": ["numba", "onnxruntime", "torch"]}
    with closing(Sandbox(PLAY, setup, SandboxLimits(call_seconds=120), readable=[tmp_path])) as made:
        assert do(made, "use_libraries", str(tmp_path / "player.onnx")) == [
            {"numba": [3.0, 4.5], "torch": [1, 2], "onnx": [[-1.0, -1.0]]}
        ]
        assert do(made, "import_lazily", "wave")[0]["before"] is False
        with pytest.raises(SandboxDied, match="out of memory, in 1"):
            do(made, "allocate", "torch")


@pytest.mark.parametrize(
    ("wall", "words"),
    [("_landlock", "read your files"), ("_become", "rights"), ("_limit", "halt"), ("_filter_calls", "other programs")],
)
def test_nothing_runs_where_a_wall_is_gone_that_stood_before(wall: str, words: str) -> None:
    need(words)
    with closing(Sandbox(PLAY, {"without": [wall]}, SHORT)) as made, pytest.raises(RuntimeError, match=words):
        do(made, "count", 1)


#: Gives up what a container's root has not: CAP_SYS_ADMIN, also for what it starts.
IN_CONTAINER = "ctypes.CDLL(None).prctl(24, 21, 0, 0, 0)"
#: Becomes a user who is not root, but in a namespace, so that Python can be read wherever it is.
AS_USER = """
assert ctypes.CDLL(None).unshare(0x10000000) == 0
for name, text in {"setgroups": "deny", "uid_map": "1000 0 1", "gid_map": "1000 0 1"}.items():
    open(f"/proc/self/{name}", "w").write(text)
assert os.geteuid() == 1000
"""


@pytest.mark.parametrize(("become", "words"), [(IN_CONTAINER, "no network"), (AS_USER, "only root can give one")])
def test_a_wall_that_does_not_stand_is_named(become: str, words: str) -> None:
    need()
    script = f"""
import ctypes, os, sys
{become}
os.execv(sys.executable, [sys.executable, "-c", {SCRIPT!r}])
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    *walls_missing, reply = run.stdout.splitlines()
    assert len(walls_missing) == 1 and words in walls_missing[0]
    assert reply == "[{'number': 0}]", "its own players may play nevertheless"


def test_where_there_is_no_linux_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert missing_walls.__wrapped__() == (walls.NO_LINUX,)
