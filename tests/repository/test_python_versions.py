"""Every version of Python that is promised gets what the constraints name, and promises are the same everywhere."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sb3_pvp.zoo.domains import DOMAINS
from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PROMISED = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
#: What PyTorch names itself, by its exact version, and what build environments have.
NOT_OURS = re.compile(r"(cuda|nvidia)-.*|triton|setuptools")


def lines_of(text: str) -> list[str]:
    return [line.partition("#")[0].strip() for line in text.splitlines() if line.partition("#")[0].strip()]


@pytest.mark.parametrize(
    "file", ["README.md", "CONTRIBUTING.md", "Makefile", "docs/index.md", "examples/cluster/hosts.yml"]
)
def test_the_same_versions_are_promised_everywhere(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    found = re.findall(r"(?:Python |python3 \()(3\.\d+) to (3\.\d+)", text)
    assert found and set(found) == {(PROMISED[0], PROMISED[-1])}


def test_no_older_version_is_left_anywhere() -> None:
    assert PROJECT["requires-python"] == f">={PROMISED[0]}"
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "constraints.txt", "Makefile")]
    markers = re.findall(r"python_version\s*([<>]=?)\s*['\"]([\d.]+)", "\n".join(texts))
    least = int(PROMISED[0].partition(".")[2])
    assert not [each for each in markers if int(each[1].split(".")[1]) <= least], "these are always true, or never"


def test_a_first_training_installs_no_tools_of_developers() -> None:
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    made = {
        target: subprocess.run(["make", "-nB", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for target in ("train", "lint")
    }
    assert '--editable ".[train]"\n' in made["train"] and "[dev]" not in made["train"] and "quickstart" in made["train"]
    assert '--editable ".[dev]"' in made["lint"]


@pytest.mark.parametrize("version", PROMISED)
@pytest.mark.slow
def test_constraints_can_be_installed(version: str) -> None:
    beside = Path(sys.executable).parent
    uv = shutil.which("uv", path=os.pathsep.join([str(beside), os.environ.get("PATH", "")]))
    if uv is None:
        pytest.skip("uv, which resolves for other versions of Python, is not installed: it is in the extra test")
    command = [uv, "pip", "compile", "pyproject.toml", "--constraint", "constraints.txt"]
    command += [word for extra in ("dev", *DOMAINS) for word in ("--extra", extra)]
    command += ["--python-version", version, "--python", sys.executable, "--only-binary", ":all:"]
    for plain in ("chess", "crafter", "rliable"):  # plain Python, of which there are no wheels
        command += ["--no-binary", plain]
    done = subprocess.run(
        [*command, "--no-annotate", "--no-header", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode and "No solution found" not in done.stderr:
        pytest.skip(f"no registry is reached: {' '.join(done.stderr.split())[-200:]}")
    assert not done.returncode, done.stderr
    pinned = {line.partition("==")[0] for line in lines_of((ROOT / "constraints.txt").read_text(encoding="utf-8"))}
    found = {line.partition("==")[0] for line in lines_of(done.stdout)}
    assert len(found) > 100 and not [name for name in found - pinned if not NOT_OURS.fullmatch(name)]
