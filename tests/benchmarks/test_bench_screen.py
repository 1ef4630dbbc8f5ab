from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.screen import occupied
from tests.games.screen.screens import need_display


def test_squares_are_told_apart_by_the_colors_of_pieces() -> None:
    board = np.full((328, 328, 3), (205, 133, 63), np.uint8)  # wood
    board[:41] = np.where(np.arange(41)[:, None, None] % 2, (20, 20, 20), (205, 133, 63))  # the eighth rank
    board[-41:, :41] = np.where(np.arange(41)[:, None, None] % 9, (255, 255, 204), (20, 20, 20))
    seen = occupied(board).reshape(8, 8)
    assert seen[0, 0] == 1 and not seen[0, 1:].any() and not seen[1:7].any() and (seen[7] == -1).all()


@pytest.mark.slow
def test_displays_keep_time_and_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    need_display("xgalaga")
    with pytest.raises(SystemExit) as ended:
        main(["screen", "--moves", "0", "--displays", "1,2", "--seconds", "2", "--json"])
    assert ended.value.code == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["case"], row["displays"], row["frames"], row["left"]) for row in rows] == [
        ("xgalaga", 1, 20, 0),
        ("xgalaga", 2, 40, 0),
    ]
    assert all(0 <= row["median ms"] <= row["p95 ms"] <= row["most ms"] for row in rows)
