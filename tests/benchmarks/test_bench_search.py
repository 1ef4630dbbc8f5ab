"""``python -m benchmarks search``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.search import learning
from benchmarks.search.learning import LINES, run_part
from benchmarks.search.pictures import read_shares, table


def test_it_measures_simulations_beside_a_plain_search(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["search", "--trees", "8", "--simulations", "10", "--hidden", "8", "--seconds", "0", "--json"])
    assert ended.value.code == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["case"] for row in rows] == ["plain Python, one tree", "8 trees"] and rows[1]["ratio"] > 1


@pytest.mark.slow
def test_parts_go_on_where_they_were_stopped_and_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small: dict[str, Any] = {"simulations": 4, "games": 16, "updates": 1, "batch_size": 32, "ticks": 2}
    monkeypatch.setitem(learning.METHODS["expert"], "search", small)
    for method in ("expert", "self-play"):
        run_part(method, 0, 0.01, 0.3, tmp_path, "layers", {})
    lines = [json.loads(line) for line in (tmp_path / LINES).read_text().splitlines()]
    before = [line for line in lines if line["method"] == "expert"]
    assert before[0]["cpu_s"] == 0 and before[-1]["cpu_s"] >= 0.6
    run_part("expert", 0, 0.01, 0.3, tmp_path, "layers", {})  # complete
    more = before[-1]["cpu_s"] / 60 + 0.01  # the first part may have compiled for longer than it had
    run_part("expert", 0, more, 0.3, tmp_path, "layers", {})
    lines = [json.loads(line) for line in (tmp_path / LINES).read_text().splitlines()]
    after = [line for line in lines if line["method"] == "expert"]
    assert len(after) > len(before) and after[-1]["steps"] > before[-1]["steps"]
    assert after[-1]["cpu_s"] >= 60 * more
    assert [line["cpu_s"] for line in after] == sorted(line["cpu_s"] for line in after)
    with pytest.raises(SystemExit) as ended:
        main(["search", "draw", str(tmp_path), "--out", str(tmp_path / "shares.png")])
    assert ended.value.code == 0 and (tmp_path / "shares.png").stat().st_size > 10_000
    assert capsys.readouterr().out.strip() == table(read_shares(tmp_path))


def test_what_is_no_part_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part, why in (("experts:0", "unknown method 'experts'"), ("expert", "a part is a method with its seed")):
        with pytest.raises(SystemExit) as ended:
            main(["search", "run", part, "--out", str(tmp_path)])
        assert ended.value.code == 2 and why in capsys.readouterr().err
    with pytest.raises(ValueError, match="holds no measurements of search run"):
        read_shares(tmp_path)
