"""The commands of README.md, from top to bottom as typed, in an empty folder; what takes long is asked for less."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from sb3_pvp.common.user_modules import PYTHON
from tests.paths import ROOT

#: Options behind those that are typed: the last one counts.
_SHORTER = {
    "quickstart": "-n 100 --episodes 5",
    "evaluate": "--episodes 8",
    "train": "-n 10000",
    "train --resume": "-n 20000",
    "serve": "--port 0",
}


def first_block() -> list[str]:
    """Its lines without comments and the installation, which has been done here."""
    block = re.search(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert block is not None
    lines = [line.partition(" #")[0].strip() for line in block[1].splitlines()]
    assert lines[0].startswith("pip install")
    return [line for line in lines[1:] if line]


@pytest.mark.slow  # a minute or two: .ci/run plays it on its own
def test_the_first_block_runs_as_typed(tmp_path: Path) -> None:
    lines, environment = first_block(), {**os.environ, "PYTHONPATH": str(ROOT)}
    assert len(lines) > 12 and lines[-1].startswith("sb3-pvp serve")
    for line in lines:
        program, *words = shlex.split(line)
        if program != "sb3-pvp":
            subprocess.run([program, *words], cwd=tmp_path, check=True)
            continue
        shorter = _SHORTER.get(f"{words[0]} --resume" if "--resume" in words else words[0], "").split()
        command = [*PYTHON, "sb3_pvp.cli", *words, *shorter]
        if words[0] == "serve":
            break
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert "listens on" in server.stdout.readline()
        server.terminate()  # what a background heeds, too
    assert (tmp_path / "shipped.html").is_file() and (tmp_path / "my-arena" / "challenge.yaml").is_file()
    assert len([*(tmp_path / "logs" / "maskable_ppo").iterdir()]) == 2, "the second training continued the first"
