"""docs/own-game.md: all of its Python runs, as it stands there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3.common.logger import configure

from sb3_pvp.selfplay import League

PAGE = Path(__file__).parents[2] / "docs" / "own-game.md"
FILE = re.compile(r"# (\w+\.py)(?:, continued)?\n")


def test_the_page_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("gymnasium.registry", dict(__import__("gymnasium").registry))
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    run: dict[str, Any] = {"logger": configure(str(tmp_path / "log"), ["json"])}
    for block in blocks:
        if (named := FILE.match(block)) is not None:
            with (tmp_path / named[1]).open("a", encoding="utf-8") as file:
                file.write(block)
    for block in blocks:
        if FILE.match(block) is None:
            quick = block.replace("model.learn(60_000,", "model.set_logger(logger)\nmodel.learn(8_192,")
            exec(compile(quick, str(PAGE), "exec"), run)
    assert len((tmp_path / "standoff.py").read_text().splitlines()) <= 100
    assert capsys.readouterr().out.startswith("learner *")
    assert {key: space.shape for key, space in run["observation"].items()} == {
        "observation": (1, 3),
        "privileged": (1, 1),
        "action_mask": (6,),
    }
    assert len(League.existing(tmp_path / "runs/standoff/league").players()) == 1
    *_, logged = map(json.loads, (tmp_path / "log" / "progress.json").read_text().splitlines())
    assert 0 < logged["standoff/shots"] < 1 and logged["rewards/shot_total"] < 0
    assert logged["rollout/elo/latest"] > 0
