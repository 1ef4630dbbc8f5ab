"""A real environment with the hard dependencies alone: it plays, and says what each extra would add."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: What asks first for what an extra installs: a command, or code where each command needs another extra before.
FIRST_ASKED = {
    "zoo": "train --algo maskable_ppo --env NhEnv",
    "sweeps": "sweep best sweep.log",
    "rate": "from sb3_pvp.players.league import League; League('league').leaderboard()",
    "plots": "exploit fast",
    "hub": "push fast me/fast",
    "arena": "arena serve arena",
    "onnx": "from sb3_pvp.policies.export.inference import open_session; open_session(b'')",
    "metrics": "serve --models fast --port 0 --metrics-port 0",
    "screen": "from sb3_pvp.games.screen.display import VirtualDisplay; VirtualDisplay((8, 8))",
    "track": "from sb3_pvp.callbacks.wandb_artifacts import WandbArtifactsCallback as C; C()._init_callback()",
    "render": "import gymnasium as g; e = g.make('sb3_pvp:NhEnv', render_mode='rgb_array'); e.reset(); e.render()",
    "pettingzoo": "import sb3_pvp.envs.pettingzoo_env",
    "ray": "from sb3_pvp.algorithms.actors.cluster import connect; connect()",
    **{
        extra: f"from sb3_pvp.zoo.domains import register_domain as r; r({env_id!r})"
        for extra, env_id in {
            "atari": "ALE/Pong-v5",
            "crafter": "CrafterReward-v1",
            "dmc": "dm_control/cartpole-balance-v0",
            "minigrid": "MiniGrid-Empty-5x5-v0",
            "vizdoom": "VizdoomBasic-v1",
        }.items()
    },
}
#: Drivers of a database, whose sweeps need an extra before; what only tests and benchmarks read; groups of others.
NO_FEATURE = {"postgres", "chess", "openspiel", "examples", "train", "all", "test", "site", "dev"}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of the bare environment."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(ROOT)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if "No matching distribution" in done.stderr:
        pytest.skip(f"no registry is reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return python


def run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(python), "-P", *arguments], cwd=folder, env=bare, capture_output=True, text=True, check=False
    )


def test_a_fighter_decides_and_its_fight_is_recorded(python: Path, tmp_path: Path) -> None:
    code = (
        "import gymnasium as gym\n"
        "from sb3_pvp import load\n"
        "env, fighter = gym.make('NhEnv'), load('generalist')\n"
        "seen, _ = env.reset(seed=0)\n"
        "for _ in range(1000):\n"
        "    seen, _, ended, cut, _ = env.step(fighter.predict(seen)[0])\n"
        "    if ended or cut: seen, _ = env.reset()\n"
    )
    done = run(python, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    done = run(python, tmp_path, "-m", "sb3_pvp.cli", "record", "generalist", "-o", "fight.json.gz")
    assert done.returncode == 0 and (tmp_path / "fight.json.gz").is_file(), done.stderr


@pytest.mark.parametrize("extra", FIRST_ASKED)
def test_what_an_extra_would_add_is_said_in_one_line(extra: str, python: Path, tmp_path: Path) -> None:
    if extra == "dmc" and sys.version_info >= (3, 13):
        pytest.skip("its packages are for no later Python than 3.12")
    asked = FIRST_ASKED[extra]
    if " import " in asked or asked.startswith("import "):
        done = run(python, tmp_path, "-c", asked)
        assert done.returncode == 1
    else:
        done = run(python, tmp_path, "-m", "sb3_pvp.cli", *asked.split())
        errors = re.findall(r"^(?:sb3-pvp|train): error: ", done.stderr, re.MULTILINE)
        assert done.returncode == 2 and len(errors) == 1, done.stderr
        assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1].replace("'", '"')
    assert f'pip install "sb3-pvp[{extra}]"' in last, done.stderr


def test_no_extra_is_left_out() -> None:
    assert FIRST_ASKED.keys() | NO_FEATURE == PROJECT["optional-dependencies"].keys()
