"""Servers that actors of a cluster start: they end with their actors, although Ray kills these."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest

from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.actors import use_ray
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy

pytestmark = pytest.mark.slow


def test_the_server_of_an_actor_ends_with_it(cluster: Any, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    serve = f"echo $$ >> {pids}; exec {sys.executable} -m sb3_pvp.cli sim-server"
    address = f"rsps://?{urlencode({'launch': shlex.join(['sh', '-c', serve])})}"
    env = NhVecEnv(8, world=address, max_episode_ticks=11)
    model = PvpPPO(AutoregressivePolicy, env, n_steps=8, batch_size=32, n_epochs=1, device="cpu")
    use_ray(model, 2)
    model.learn(2 * 8 * 8)
    servers = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    assert len(servers) == 2
    model.env.close()  # type: ignore[union-attr]
    deadline = time.monotonic() + 30
    while any(map(psutil.Process.is_running, servers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(psutil.Process.is_running, servers))
