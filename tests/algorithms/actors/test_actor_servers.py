"""Actors on servers of the remote protocol: each starts one of its own, which waits for nobody else."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.actors.fleet import Patience
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from tests.paths import ROOT
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="servers are started on POSIX systems")
ROWS, STEPS = 8, 8

#: A server that waits for all of its agents before each tick, as the original one does. It is slow to start.
_SERVER = """
import asyncio, os, time
from benchmarks.synchronous_server import SynchronousServer
from tests.games.osrs.remote.living_world import LivingWorld

async def main():
    time.sleep(1)
    server = SynchronousServer(LivingWorld)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", int(os.environ["REMOTE_ENV_PORT"]))
    print("server", os.getpid(), os.environ["REMOTE_ENV_PORT"], flush=True)
    await listening.serve_forever()

asyncio.run(main())
"""


class Servers:
    """The servers that were started: their processes, in any order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "server.py").write_text(_SERVER)
        launch = shlex.join([sys.executable, str(folder / "server.py")])
        self.address = f"rsps://?{urlencode({'launch': launch})}"

    def running(self) -> dict[int, int]:
        """Returns the processes of the servers that are running, and their ports."""
        texts = [path.read_text() for path in self._folder.glob("sb3_pvp/servers/*.log")]
        found = {int(text.split()[1]): int(text.split()[2]) for text in texts if text.startswith("server")}
        return {pid: port for pid, port in found.items() if psutil.pid_exists(pid)}


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Servers:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return Servers(tmp_path)


def new_model(world: str, **kwargs: Any) -> PvpPPO:
    env = NhVecEnv(ROWS, world=world, max_episode_ticks=11)
    return PvpPPO(AutoregressivePolicy, env, n_steps=STEPS, batch_size=32, n_epochs=1, device="cpu", **kwargs)


class Outcomes(BaseCallback):
    """Counts how episodes have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def _on_step(self) -> bool:
        self.seen += [info["outcome"] for info in self.locals["infos"] if "outcome" in info]
        return True


@pytest.mark.slow
def test_each_actor_has_a_server_that_lives_as_long_as_it_does(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, outcomes = new_model(servers.address, actors=2, synchronous=True), Outcomes()
    assert not servers.running()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.learn(3 * ROWS * STEPS, callback=outcomes)
    assert model.num_timesteps == 3 * ROWS * STEPS
    assert len(outcomes.seen) >= ROWS
    assert "desync" not in outcomes.seen
    first = servers.running()
    assert len(set(first.values())) == 2  # and none for the environment of the learner, where nobody plays
    owner = {pid: psutil.Process(pid).parents()[1] for pid in first}  # behind the process that watches the server
    ended, kept = first
    owner[ended].kill()
    wait_until(lambda: ended not in servers.running())
    # As with rollouts that are faster than the start of a server: the new actor does not hang meanwhile.
    monkeypatch.setattr(Patience, "LEAST", 0.5)
    model.env._fleet._patience.rollout = 0.01  # type: ignore[union-attr]
    model.learn(2 * ROWS * STEPS, reset_num_timesteps=False)
    second = servers.running()
    assert len(second) == 2
    assert kept in second
    model.env.close()  # type: ignore[union-attr]
    wait_until(lambda: not servers.running())


def test_actors_that_would_share_a_server_are_told_so() -> None:
    env = NhVecEnv(ROWS, world="rsps://far.example:7")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.part(0, ROWS)
        NhVecEnv(ROWS, world="sim").part(4, 4)
    with pytest.warns(UserWarning, match=r"server at far.example:7. .*rsps://\?launch=COMMAND"):
        env.part(4, 4)
