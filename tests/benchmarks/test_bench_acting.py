from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main


def test_acting_is_timed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.acting.POLICIES", {"[64, 64]": {}})
    monkeypatch.setattr("benchmarks.acting._NUM_TICKS", 3)
    with pytest.raises(SystemExit) as exit_info:
        main(["acting", "--seconds", "0.1", "--json"])
    assert exit_info.value.code == 0
    predict, graph = json.loads(capsys.readouterr().out)["rows"]
    assert graph["control"] == predict["case"] == "[64, 64], predict"
    assert predict["n"] == graph["n"] == 1 and graph["ratio"] > 0
