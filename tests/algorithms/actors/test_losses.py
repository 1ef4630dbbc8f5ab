"""What is lost when a node or the learner is killed: unfinished rollouts, and nothing counts twice."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import psutil
import pytest
import torch as th

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.actors import use_ray
from sb3_pvp.callbacks import FightMetricsCallback
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy

pytestmark = pytest.mark.slow

SMALL = Path(__file__).with_name("small.yml")
ROLLOUT = 16 * 32  # in SMALL


def command(folder: Path, *options: str) -> list[str]:
    """Returns the command of a small league training."""
    train = [sys.executable, "-m", "sb3_pvp.zoo", "train", "--algo", "maskable_ppo", "--env", "NhEnv", "--verbose", "0"]
    return [
        *train,
        "-conf",
        str(SMALL),
        "--seed",
        "5",
        "-n",
        str(48 * ROLLOUT),
        "--eval-freq",
        "-1",
        "-f",
        str(folder),
        *options,
    ]


def matches(folder: Path) -> list[Any]:
    """Returns all matches in the league of a run; their keys name rollout, row and episode."""
    with sqlite3.connect(run_in(folder) / "league" / "matches.sqlite") as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(matches)")]
        kept = [name for name in columns if name not in ("number", "append_number", "finished_at")]
        return sorted(database.execute(f"SELECT {', '.join(kept)} FROM matches"), key=str)


def run_in(folder: Path) -> Path:
    return folder / "maskable_ppo" / "NhEnv_1"


def weights(folder: Path) -> bytes:
    return ZipFile(run_in(folder) / "NhEnv.zip").read("policy.pth")


def actors() -> set[int]:
    """Returns the processes of all actors on this machine."""
    commands = {each.pid: " ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])}
    return {pid for pid, command in commands.items() if command.startswith("ray::RemoteActor")}


def test_a_learner_that_is_killed_resumes_as_if_it_had_not_been(cluster: Any, tmp_path: Path) -> None:
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    subprocess.run(command(alone), check=True)
    resumed = command(killed, "--distribute", "2", "--resume")
    before, process = actors(), subprocess.Popen(resumed)
    # In the middle of the run, which has 48 rollouts.
    while not any(killed.rglob(f"checkpoints/main_{8 * ROLLOUT}_steps.zip")):
        assert process.poll() is None, "it has ended before it could be killed"
        time.sleep(0.05)
    running = actors() - before
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(running) == 2
    assert not (run_in(killed) / "NhEnv.zip").exists()
    deadline = time.monotonic() + 60.0
    while running & actors():  # they end with the learner
        assert time.monotonic() < deadline
        time.sleep(0.2)
    subprocess.run(resumed, check=True)
    assert len([*killed.glob("maskable_ppo/*")]) == 1
    assert weights(killed) == weights(alone)
    assert matches(killed) == matches(alone)


def test_a_node_that_is_killed_is_missed_until_another_one_joins(cluster: Any, tmp_path: Path) -> None:
    th.set_num_threads(1)
    node = cluster.add_node(num_cpus=1, resources={"third": 1})
    env = NhVecEnv(18, seed=3, opponent="scripted", max_episode_ticks=11)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=8, batch_size=24, n_epochs=1, seed=1, synchronous=True)
    use_ray(model)
    assert model.actors == 3
    model.learn(2 * 144)
    cluster.remove_node(node, allow_graceful=False)  # kill -9 of its raylet
    with pytest.warns(UserWarning, match="has died"):
        model.learn(2 * 96, reset_num_timesteps=False, callback=FightMetricsCallback())  # which asks all actors
    assert model.num_timesteps == 2 * 144 + 2 * 96
    assert model.rollout_buffer.n_envs == 12
    node = cluster.add_node(num_cpus=1)
    backend: Any = model.env._fleet  # type: ignore[union-attr]
    backend._await_starts(3)
    model.learn(144, reset_num_timesteps=False)
    assert model.num_timesteps == 3 * 144 + 2 * 96
    model.env.close()  # type: ignore[union-attr]
    cluster.remove_node(node)  # other tests count on two nodes
