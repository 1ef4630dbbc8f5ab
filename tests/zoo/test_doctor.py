"""`sb3-pvp doctor` finds what is wrong, says what to do, and its exit code tells it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from email.message import Message
from importlib.metadata import version
from pathlib import Path

import numba
import pytest
import torch

from sb3_pvp.cli import main
from sb3_pvp.common import errors
from sb3_pvp.zoo import doctor
from sb3_pvp.zoo.doctor import Finding, examine


def found(about: str, folder: Path) -> Finding:
    return {each.about: each for each in examine(folder)}[about]


def test_this_machine_is_fit(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sb3_pvp.cli", "doctor", "--json", "--folder", str(tmp_path)]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    answer = json.loads(ended.stdout)
    assert answer["ok"] and ended.returncode == 0, ended.stdout
    states = {each["about"]: each["state"] for each in answer["findings"]}
    assert states["packages"] == states["threads of PyTorch"] == states["folder of runs"] == "ok"
    assert {"Python", "system", "memory", "cores", "extras", "GPU", "Numba", "open files"} <= {*states}


def test_an_error_is_told_by_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").write_text("a file")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_:
        main(["doctor"])
    assert exit_.value.code == 1
    out = capsys.readouterr().out
    assert "error: folder of runs: take another folder, or change its rights\n" in out
    assert f"{tmp_path / 'logs'} cannot be written" in out


def test_what_is_broken_is_one_finding_among_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_rights(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(Path, "exists", no_rights)
    states = {each.about: (each.state, each.found) for each in examine(tmp_path)}
    assert states["PyTorch"][0] == states["folders"][0] == "error" and "torch" in states["PyTorch"][1]
    assert {"packages", "Numba", "open files"} <= {*states}


def test_packages_that_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ["numpy<1", "no-such-package>=2", "torch", 'pytest>=8; extra == "test"', 'chess; extra == "nowhere"']
    needs += ['no-such-package; extra == "lacking"', 'numpy>=99; extra == "old"', 'sb3-pvp[old,test]; extra == "both"']
    needs += ['no-such-package; python_version < "3" and extra == "nowhere"']
    about = Message()
    for extra in ("test", "nowhere", "lacking", "old", "both"):
        about["Provides-Extra"] = extra
    monkeypatch.setattr(doctor, "requires", lambda name: needs)
    monkeypatch.setattr(doctor, "metadata", lambda name: about)
    packages = found("packages", tmp_path)
    assert packages.state == "error" and packages.advice == "pip install --upgrade sb3-pvp"
    assert packages.found.startswith("numpy ") and packages.found.endswith("is not <1; no-such-package is missing")
    extras = found("extras", tmp_path)
    assert extras.found.startswith(f"test, nowhere; numpy {version('numpy')} is")
    assert extras.found.endswith(" is not >=99; pip install 'sb3-pvp[lacking]' and so on for: lacking, old, both")
    assert extras.state == "ok"


def test_a_checkout_that_is_newer_than_its_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "sb3-pvp"\n[project.entry-points."sb3_pvp.games"]\nNew-v0 = "new:GAME"\n')
    monkeypatch.setattr(errors, "_PYPROJECT", project)
    points = found("entry points", tmp_path)
    assert points.state == "error" and "'New-v0' is in the checkout" in points.found
    project.write_text(project.read_text().replace("sb3-pvp", "another", 1))
    assert found("entry points", tmp_path).state == "ok"
    project.write_text("[project")
    assert found("entry points", tmp_path).state == "ok"


@pytest.mark.parametrize(
    ("threads", "variable", "state"), [(1, None, "ok"), (2, None, "warning"), (2, "2", "ok"), (9, "9", "warning")]
)
def test_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, variable: str | None, state: str
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(doctor, "num_cores", lambda: 4)
    finding = found("threads of PyTorch", tmp_path)
    assert finding.state == state
    assert ("OMP_NUM_THREADS=4 or less" in finding.advice) == (threads == 9)


def test_a_gpu_that_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert found("GPU", tmp_path).advice == "CUDA_VISIBLE_DEVICES hides all"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert "nvidia-smi" in found("GPU", tmp_path).advice
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: "Big")
    assert found("GPU", tmp_path) == Finding("GPU", "2: Big, CUDA 13.0")


def test_what_makes_it_slow_or_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1 << 20, 0, 1 << 20))
    for about in ("folder of runs", "temporary files", "shared memory"):
        assert found(about, tmp_path).state == "warning"
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != Path.home() and mode != os.W_OK)
    assert "NUMBA_CACHE_DIR" in found("Numba", tmp_path).advice
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert "NUMBA_DISABLE_JIT" in found("Numba", tmp_path).advice
