"""The soccer challenge of docs/soccer.md: the one command there makes an arena in which its players meet."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sb3_pvp.cli import main
from tests.paths import ROOT


@pytest.mark.slow
def test_the_command_of_the_page_makes_a_challenge_with_players(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(["arena", *words])
        assert not end.value.code
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/soccer.md").read_text(encoding="utf-8")
    found = re.search(r"^sb3-pvp arena (init (\S+) .*)$", page, re.M)
    assert found is not None
    run(*shlex.split(found[1].replace("--fights 20", "--fights 2")))
    assert "round 1: 2 matches, 4 fights, 0 lost by faults, 0 failed" in run("run-once", found[2], "--jobs", "1")
    _, *rows = run("leaderboard", found[2]).splitlines()
    assert {row.split()[1] for row in rows} == {"positional", "striker", "chaser", "soccer"}
