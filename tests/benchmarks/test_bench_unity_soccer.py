from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.unity_soccer import ABLATIONS
from tests.policies.files.small_graphs import unity, written


def run(*arguments: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    with pytest.raises(SystemExit) as exit_info:
        main(["unity_soccer", *arguments])
    assert exit_info.value.code == code
    output = capsys.readouterr()
    return output.err if code else output.out


@pytest.mark.slow
def test_it_prints_a_row_for_each_ablation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = written(unity(2021, [336], [3, 3, 3]), tmp_path)
    rows = json.loads(run(network, "--games", "5", "--json", capsys=capsys))["rows"]
    assert [row["case"] for row in rows] == [*ABLATIONS]
    for row in rows:
        assert row["games"] == 5 and 0 <= row["low"] <= row["win_rate"] <= row["high"] <= 1
        assert row["won"] == 3 * row["as_blue"] + 2 * row["as_purple"]
        assert 0 < row["steps"] <= 5000
    table = run(network, "--games", "2", "--no-ablations", "--against", network, capsys=capsys)
    assert [line.split()[:3] for line in table.splitlines()] == [["case", "games", "won"], ["as", "it", "is"]]


def test_bad_usage_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = written(unity(2021, [300], [3, 3, 3]), tmp_path)
    good = written(unity(2021, [336], [3, 3, 3]), tmp_path, "good")
    for arguments, words in (
        ([network], "stranger.onnx sees 300 features"),
        ([str(tmp_path / "absent.onnx")], "There is no model file"),
        ([good, "--against", "self"], "--against must be baseline, a script or a file, got 'self'"),
        ([good, "--against", "nobody"], "unknown opponent 'nobody'"),
    ):
        error = run(*arguments, capsys=capsys, code=2)
        assert words in error and error.count("\n") == 1
