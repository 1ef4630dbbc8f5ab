from __future__ import annotations

import json
import sys

import pytest

from benchmarks.__main__ import main
from tests.games.chess.engine_programs import python_chess


def bench(capsys: pytest.CaptureFixture[str], code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as exit_info:
        main(["chess", "--boards", "1,8", "--seconds", "0.05", "--json"])
    output = capsys.readouterr()
    assert exit_info.value.code == code, output.err
    return output.out, output.err


@pytest.mark.slow
def test_json_has_speeds_and_memory_beside_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    python_chess()
    pytest.importorskip("pettingzoo.classic.chess.chess", reason="PettingZoo's chess is not installed")
    rows = json.loads(bench(capsys)[0])["rows"]
    assert [row["n"] for row in rows] == [1, 8, 1, 1]
    assert all(row["agent_steps_per_core_s"] > 0 and row["control"] == rows[2]["case"] for row in rows)
    assert rows[2]["ratio"] == 1.0
    # The planes and masks of both players alone.
    assert all(row["bytes_per_board"] > 2 * (1344 * 4 + 4672) for row in rows[:2])


def test_without_the_other_programs_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pettingzoo.classic.chess.chess", None)
    _, err = bench(capsys, code=2)
    assert "pip install pettingzoo chess" in err and err.count("\n") == 1
