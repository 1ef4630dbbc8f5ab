"""The notebooks run from top to bottom, and show what they promise."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread
from stable_baselines3.common.monitor import load_results

from sb3_pvp.arena import Arena
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


#: Smaller sizes, with which .ci/run has them run, as replacements in the code of notebooks.
_SMALLER = [
    (r"\b(\d_)?\d{3}_000\b", "8_192"),  # steps of trainings; of seeds, too, which does no harm
    (r"(?<=\.learn\()4_000", "300"),
    (r"(?<=n_steps=)128", "64"),
    (r"(?<=eval_freq=)20", "1"),
    (r"(?<=snapshot_every=)20", "2"),
    (r"(?<=_episodes=)200", "16"),
    (r"(evaluate_model\(.+, )\d{3,4}", r"\g<1>16"),
    (r"(?<=max_fights=)\d{4}", "100"),
    (r"(?<=fights_per_match=)20", "2"),
    (r"(?<=for _ in range\()[23]", "1"),  # rounds of arenas
    (r"seeds=1,", "seeds=1, eval_freq=1, n_eval_episodes=16, n_final_episodes=16,"),
    (r"-n 40960", "-n 512"),
    (r"(?<=batch_size: )2048", "256"),
    (r"(?<=buffer_size: )20480", "1024"),
    (r"(?<=hidden_units: )512", "32"),
]


def test_every_smaller_size_replaces_something() -> None:
    code = [cell for path in NOTEBOOKS for cell in cells(json.loads(path.read_text(encoding="utf-8")))]
    text = "\n".join("".join(cell["source"]) for cell in code)
    assert not [pattern for pattern, _ in _SMALLER if not re.search(pattern, text)]


@pytest.mark.slow
@pytest.mark.parametrize("size", ["small", "full"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(
    path: Path, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient = pytest.importorskip("nbclient", reason='pip install "sb3-pvp[test]"')
    pytest.importorskip("ipykernel", reason='pip install "sb3-pvp[test]"')
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # for !sb3-pvp
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(path, 4)
    for cell in cells(notebook) if size == "small" else ():
        for pattern, smaller in _SMALLER:
            cell["source"] = re.sub(pattern, smaller, cell["source"])
    # A machine may be busy: there is no limit of time.
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
    assert len(pictures(notebook)) >= 2
    if size == "full":  # what so small ones have learnt is nothing
        RESULTS[path.stem](tmp_path, printed(notebook))


def printed(notebook: Any) -> str:
    outputs = [output for cell in cells(notebook) for output in cell["outputs"] if output.get("name") != "stderr"]
    return "\n".join(each.get("text") or each["data"].get("text/html", "") for each in outputs)


def catches_balls(folder: Path, text: str) -> None:
    # At random, one catches an eighth of the balls, which is a mean of -0.75.
    returns = load_results(folder / "catch")["r"]
    assert returns[:100].mean() < -0.5 and returns[-100:].mean() > -0.4


def beats_the_bot(folder: Path, text: str) -> None:
    before, after = re.findall(r"<td>all</td><td>([\d.]+)%", text)
    assert float(before) < 50 and float(after) > 85 and "<iframe" in text


def beats_what_it_has_not_met(folder: Path, text: str) -> None:
    rates = {name: float(rate) for name, rate in re.findall(r"(\w+) +win rate ([\d.]+)%", text)}
    assert rates["baseline"] > 60 and rates["honest"] > 60


def rates_and_exploits(folder: Path, text: str) -> None:
    players = re.findall(r"<tr><td>([\w-]+)</td>", text)
    assert players[-5] == "generalist" and {*players[-2:]} == {"baseline", "scripted"}
    found = {name: int(share) for name, share in re.findall(r"([\w-]+): some opponent wins at least (\d+)%", text)}
    assert found["scripted"] > 65 and found["scripted"] > found["fast"]


def is_above_its_younger_self(folder: Path, text: str) -> None:
    with closing(Arena(folder / "arena")) as arena:
        players = [line.player for line in arena.table()]
    assert players[0] == "generalist" and players.index("ann+advanced") < players.index("ann+beginner")
    assert text.count("faults=0, failed=0, is_over=True") == 5 and text.count("<iframe") == 2


RESULTS = {
    "ai_vs_ai": is_above_its_younger_self,
    "own_game": beats_what_it_has_not_met,
    "rate_and_exploit": rates_and_exploits,
    "train_and_watch": beats_the_bot,
    "world_model": catches_balls,
}
