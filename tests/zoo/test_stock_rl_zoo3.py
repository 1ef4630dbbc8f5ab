"""rl-zoo3's own commands with a ``custom_envs.py`` of one line, and this package installed from its wheel."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from sb3_pvp.algorithms.ppo import PvpPPO
from tests.paths import ROOT

NH = ["--algo", "maskable_ppo", "--env", "NhEnv"]
TINY = ["-params", "n_envs:4", "n_steps:64", "batch_size:64", "n_epochs:1"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel, and what else is installed here but not this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("sb3_pvp", "hyperparams", "models"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.cfg", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-index", "--quiet"]
    subprocess.run([*pip, "wheel", str(source), "--no-build-isolation", *options, "-w", str(folder)], check=True)
    (wheel,) = folder.glob("sb3_pvp-*.whl")
    venv.create(folder / "venv", symlinks=os.name == "posix")
    variables = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    packages = Path(sysconfig.get_path("purelib", "venv", variables))
    subprocess.run([*pip, "install", *options, "--target", str(packages), str(wheel)], check=True)
    # A path in a .pth file brings the packages there, but not the link to the checkout that is among them.
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    return Path(sysconfig.get_path("scripts", "venv", variables)) / Path(sys.executable).name


def run(python: Path, folder: Path, *command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(python), *command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_one_line_is_enough(python: Path, tmp_path: Path) -> None:
    (tmp_path / "custom_envs.py").write_text("import sb3_pvp.zoo.custom_envs\n")
    shutil.copy(Path(__file__).with_name("strict_fights.py"), tmp_path)
    strict = "callback:'strict_fights.StrictCallback'"
    options = ["-n", "512", "--eval-freq", "256", "--eval-episodes", "1", "--seed", "1", "-P", "--save-freq", "256"]
    out = run(python, tmp_path, "-m", "rl_zoo3.train", *NH, *options, *TINY, strict)
    installed = run(python, tmp_path, "-c", "import sb3_pvp; print(sb3_pvp.__file__)").strip()
    package = Path(installed).parent
    assert package.is_relative_to(python.parents[1])
    assert f"Loading hyperparameters from: {package / 'hyperparams' / 'maskable_ppo.yml'}" in out
    strict_steps = re.search(r"(\d+) strict steps", out)
    assert strict_steps and int(strict_steps[1]) > 128, "training, two rollouts of 64 steps, and evaluation"
    model = PvpPPO.load(tmp_path / "logs/maskable_ppo/NhEnv_1/NhEnv.zip")
    assert (model.num_timesteps, model.policy_kwargs) == (512, {"net_arch": [64, 64]})
    for choice in ([], ["--load-best"], ["--load-last-checkpoint"]):
        out = run(python, tmp_path, "-m", "rl_zoo3.enjoy", *NH, "-f", "logs", "-n", "60", "--no-render", *choice)
        assert "Loading logs/maskable_ppo/NhEnv_1/" in out
    continued = ["-n", "256", "--eval-freq", "-1", "-i", "logs/maskable_ppo/NhEnv_1/NhEnv.zip"]
    run(python, tmp_path, "-m", "rl_zoo3.train", *NH, *continued, *TINY)
    assert PvpPPO.load(tmp_path / "logs/maskable_ppo/NhEnv_2/NhEnv.zip").num_timesteps == 768


@pytest.mark.slow
def test_without_the_line_rl_zoo3_knows_nothing(python: Path, tmp_path: Path) -> None:
    command = [str(python), "-m", "rl_zoo3.train", *NH]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "invalid choice: 'maskable_ppo'" in done.stderr
