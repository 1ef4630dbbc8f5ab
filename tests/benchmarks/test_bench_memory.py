"""The study of fighters with memory: runs in parts, and what is compared."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.memory import fighters
from benchmarks.memory.fighters import RESULTS, compared, ratings, train
from benchmarks.memory.pictures import table


def test_short_fights_are_not_counted_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fights:
        """In row 0 fights of one tick, which are lost; in all others those of four ticks, which are won."""

        num_envs, fights, tick = 8, SimpleNamespace(contract=None), 0

        def env_method(self, *arguments: Any) -> None: ...

        def reset(self) -> None: ...

        def step(self, actions: Any) -> tuple[Any, ...]:
            self.tick += 1
            ends = np.array([True] + [self.tick % 4 == 0] * 7)
            return None, np.ones(8), ends, [{"outcome": "lost"}] + [{"outcome": "won"}] * 7

        def close(self) -> None: ...

    monkeypatch.setattr(fighters, "NhVecEnv", lambda *arguments, **keywords: Fights())
    monkeypatch.setattr(
        fighters, "load", lambda path: SimpleNamespace(predict=lambda *arguments, **keywords: (None, None))
    )
    assert fighters._against_habit(Path("model"), "style", 16, 0)["fights"] == [14, 16]


@pytest.mark.slow
def test_runs_go_on_and_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("none", "gru"):
        for _ in range(2):
            train(name, 0, tmp_path, seconds=8, part=4)
    train("gru", 0, tmp_path, seconds=8, part=4)
    assert "gru:0 has had its" in capsys.readouterr().out
    compared(tmp_path, fights=2, habits=2, exploit_steps=0, seed=0)
    found = json.loads((tmp_path / RESULTS).read_text())
    assert [*found["pairs"]] == ["gru-0 none-0"] and sum(found["pairs"]["gru-0 none-0"]) == 2
    ((key, counts),) = found["equal"].items()
    assert key.startswith("gru-0 none-0@") and sum(counts) == 2
    assert {*found["habits"]} == {f"{name}-0 {habit}" for name in ("none", "gru") for habit in ("prayer", "style")}
    assert len(table(tmp_path).splitlines()) == 2 + len(ratings(found)) == 4
    capsys.readouterr()
    compared(tmp_path, fights=2, habits=2, exploit_steps=0, seed=0)
    assert capsys.readouterr().out == "", "what is there is not measured again"
