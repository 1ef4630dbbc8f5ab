"""Training on a server that stops, and trainers that stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sb3_contrib import MaskablePPO

from sb3_pvp import zoo
from sb3_pvp.callbacks import FightMetricsCallback
from sb3_pvp.envs import NhEnv
from sb3_pvp.game import WorldError
from sb3_pvp.games.osrs.remote import RspsServer
from sb3_pvp.zoo.worker_vec_env import WorkerVecEnv
from tests.games.osrs.remote.served import hear_interrupts, logged_in, world_server
from tests.paths import ROOT
from tests.waiting import wait_until

RUN = Path("logs/maskable_ppo/NhEnv_1")
NH = ["--algo", "maskable_ppo", "--env", "NhEnv", "--eval-freq", "-1", "--num-threads", "1"]
TINY = ["n_steps:32", "batch_size:64", "n_epochs:1"]
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def options(port: int, n_envs: int, address_options: str = "", opponent: str = "baseline") -> list[str]:
    world = f"world:'rsps://127.0.0.1:{port}?{address_options}'"
    save = ["--save-freq", str(n_envs * 32)]
    return [*NH, *save, "--env-kwargs", world, f"opponent:'{opponent}'", "-params", f"n_envs:{n_envs}", *TINY]


def has_checkpoint() -> bool:
    return any(RUN.glob("rl_model_*.zip"))


def check_models() -> None:
    """Everything that was saved can be loaded and has learned finite weights."""
    for path in RUN.glob("*.zip"):
        parameters = MaskablePPO.load(path, device="cpu").policy.state_dict().values()
        assert all(np.isfinite(values.numpy()).all() for values in parameters), path


@contextmanager
def at_the_first_checkpoint(event: Callable[[], object]) -> Iterator[None]:
    """Calls ``event`` in a thread when training has got that far."""

    def run() -> None:
        wait_until(has_checkpoint)
        event()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()


def test_a_server_that_goes_ends_the_training_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    server = ExitStack()
    port = server.enter_context(world_server())
    with at_the_first_checkpoint(server.close), pytest.raises(SystemExit, match="1"):
        zoo.train([*options(port, 4, "restart_timeout=0.2"), "-n", "1000000"])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("train: error")]
    assert f"no server can be reached at 127.0.0.1:{port}" in line
    assert line.endswith(f"the model so far was saved as {RUN}/interrupted_model.zip")
    assert (RUN / "interrupted_model.zip").is_file()
    check_models()


def test_fights_that_break_off_end_the_training_with_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: FightMetricsCallback) -> None:
        raise WorldError("9 of the 9 fights broke off")

    monkeypatch.setattr(FightMetricsCallback, "_on_rollout_end", broken)
    with pytest.raises(SystemExit, match="1"):
        zoo.train([*NH, "-n", "1000000", "-params", "n_envs:2", *TINY])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("train: error")]
    assert (
        line == f"train: error: 9 of the 9 fights broke off; the model so far was saved as {RUN}/interrupted_model.zip"
    )


def test_training_continues_when_the_server_comes_back() -> None:
    with ExitStack() as again:
        first, restarted = ExitStack(), threading.Event()
        port = first.enter_context(world_server())

        def restart() -> None:
            first.close()
            time.sleep(0.3)
            again.enter_context(world_server(port=port))
            restarted.set()

        with at_the_first_checkpoint(restart):
            zoo.train([*options(port, 4, "restart_timeout=60&backoff=0.05"), "-n", "1024"])
            assert restarted.is_set(), "the training has ended before"
        assert (RUN / "NhEnv.zip").is_file()
        assert logged_in(port) == []
    check_models()


@posix
def test_workers_of_which_one_is_dead_are_closed() -> None:
    with world_server() as port:
        workers = WorkerVecEnv([partial(NhEnv, world=f"rsps://127.0.0.1:{port}")] * 3, start_method="fork")
        workers.reset()
        assert len(logged_in(port)) == 3
        # Whose pipe no other worker has inherited. They end with their parent, and not by other signals.
        os.kill(workers.processes[0].pid or 0, signal.SIGKILL)
        workers.step_async(np.zeros((3, 12), np.int64))
        with pytest.raises((EOFError, ConnectionError)):
            workers.step_wait()
        workers.close()
        workers.close()
        assert not any(process.is_alive() for process in workers.processes)
        wait_until(lambda: logged_in(port) == [])


# With workers, a server in a process of its own, and a trainer that is a script.

SIM_SERVER = [sys.executable, "-m", "sb3_pvp.cli", "sim-server"]


def train(server: RspsServer, vec_env: str, n_envs: int, *more: str, opponent: str = "baseline") -> Any:
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), "--vec-env", vec_env, *more]
    return subprocess.Popen(
        [*command, *options(server.port, n_envs, "restart_timeout=2", opponent)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=hear_interrupts,
    )


@pytest.fixture(scope="module")
def fighter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model to fight against."""
    folder = tmp_path_factory.mktemp("fighter")
    zoo.train([*NH, "-f", str(folder), "-n", "256", "-params", "n_envs:4", *TINY])
    return folder / "maskable_ppo/NhEnv_1/NhEnv.zip"


@posix
@pytest.mark.slow
@pytest.mark.parametrize(("vec_env", "n_envs"), [("subproc", 8), ("dummy", 100)])
@pytest.mark.parametrize("against_model", [False, True], ids=["bot", "model"])
def test_training(vec_env: str, n_envs: int, against_model: bool, fighter: Path) -> None:
    with RspsServer(SIM_SERVER, port=0) as server:
        opponent = str(fighter) if against_model else "baseline"
        trainer = train(server, vec_env, n_envs, "-n", str(n_envs * 128), opponent=opponent)
        wait_until(has_checkpoint)
        assert len(logged_in(server.port)) == n_envs * (1 + against_model)
        _, said = trainer.communicate(timeout=400)
        assert trainer.returncode == 0, said
        assert logged_in(server.port) == []
    check_models()


@posix
@pytest.mark.slow
@pytest.mark.parametrize(("vec_env", "n_envs"), [("subproc", 8), ("dummy", 100)])
def test_a_server_that_is_killed(vec_env: str, n_envs: int) -> None:
    with RspsServer(SIM_SERVER, port=0) as server:
        trainer = train(server, vec_env, n_envs, "-n", "10000000")
        wait_until(has_checkpoint)
    _, said = trainer.communicate(timeout=400)
    assert trainer.returncode == 1
    assert "no server can be reached" in said
    assert said.splitlines()[-1].startswith("train: error: ")
    assert (RUN / "interrupted_model.zip").is_file()
    check_models()


@posix
@pytest.mark.slow
@pytest.mark.parametrize(("vec_env", "n_envs"), [("subproc", 4), ("dummy", 20)])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_trainer_leaves_no_processes_behind(vec_env: str, n_envs: int, number: int) -> None:
    with RspsServer(SIM_SERVER, port=0) as server:
        trainer = train(server, vec_env, n_envs, "-n", "10000000")
        wait_until(has_checkpoint)
        assert len(logged_in(server.port)) == n_envs
        trainer.send_signal(number)
        trainer.communicate(timeout=400)
        wait_until(lambda: logged_in(server.port) == [])
    check_models()
    # When it is stopped, rl-zoo3 saves the model as if it had come to its end.
    assert (RUN / "NhEnv.zip").is_file() == (number != signal.SIGKILL)
