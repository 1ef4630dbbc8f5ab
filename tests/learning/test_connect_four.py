"""The example of examples/connect_four.py: another game, learned by self-play alone."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_self_play_alone_beats_a_random_player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import connect_four

    assert len(Path(connect_four.__file__).read_text().splitlines()) < 100
    score = connect_four.main(["--steps", "80000", "--folder", str(tmp_path)])
    assert score.decided == 200
    assert score.win_rate > 0.75
    assert (tmp_path / "connect_four.zip").is_file()
    assert "main" in (tmp_path / "league" / "leaderboard.csv").read_text()
