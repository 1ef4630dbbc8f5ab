"""The notebooks run from top to bottom, and show what they promise."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread
from stable_baselines3.common.monitor import load_results

from tests.paths import ROOT

NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))


def cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def pictures(notebook: Any) -> list[Any]:
    outputs = [output for cell in cells(notebook) for output in cell["outputs"]]
    found = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    return [imread(BytesIO(base64.b64decode(each))) for each in found]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_as_it_ran_and_is_named(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert len(text) < 400_000 and "/tmp/" not in text and "/home/" not in text
    assert [cell["execution_count"] for cell in cells(notebook)] == [*range(1, len(cells(notebook)) + 1)]
    assert len(pictures(notebook)) >= 2 and all(each.std() > 0 for each in pictures(notebook))
    assert f"[{path.name}](notebooks/{path.name})" in (ROOT / "examples/README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason='pip install "sb3-pvp[test]"')
    pytest.importorskip("ipykernel", reason='pip install "sb3-pvp[test]"')
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(path, 4)
    # A machine may be busy: there is no limit of time.
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
    assert len(pictures(notebook)) >= 2
    # At random, one catches an eighth of the balls, which is a mean of -0.75.
    returns = load_results(tmp_path / "catch")["r"]
    assert returns[:100].mean() < -0.5 and returns[-100:].mean() > -0.4
