"""Killed runs end as if they had never been killed (issue: exact resume)."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killed_runs import DuelRun, NhRun, at_steps, kill_after, kill_myself, killed

from sb3_pvp.callbacks import LeagueCallback, league_callback
from sb3_pvp.players.league import League, MatchLog


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of an uninterrupted run."""
    run = DuelRun(tmp_path_factory.mktemp("whole"))
    assert not killed(run.go_on)
    outcome = run.outcome()
    assert len(outcome["matches"]) > 80 and len(outcome["snapshots"]) == 7
    return outcome


def assert_same(run: DuelRun, whole: dict[str, Any]) -> None:
    outcome = run.outcome()
    for name, value in whole.items():
        assert outcome[name] == value, name
    assert League.existing(run.folder / "league").recompute() == "identical"


def test_killed_in_the_middle_of_roll_outs(tmp_path: Path, whole: dict[str, Any]) -> None:
    run = DuelRun(tmp_path)
    for watcher in at_steps([3, 37, 16, 40]):
        assert killed(partial(run.go_on, watcher))
    assert not killed(run.go_on)
    assert_same(run, whole)


@pytest.mark.parametrize(
    ("owner", "method", "before"),
    [
        (MatchLog, "append", False),
        pytest.param(League, "save", False, marks=pytest.mark.slow),
        pytest.param(League, "add", False, marks=pytest.mark.slow),
        pytest.param(league_callback, "save_weights", False, marks=pytest.mark.slow),
        pytest.param(LeagueCallback, "_publish", True, marks=pytest.mark.slow),
    ],
)
def test_killed_while_the_league_is_written(
    tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, before: bool
) -> None:
    original, run = getattr(owner, method), DuelRun(tmp_path)
    calls = 0

    def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        last = calls == (1 if method == "_publish" else 3)
        if last and before:
            kill_myself()
        result = original(*args, **kwargs)
        if last:
            kill_myself()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, deadly)
        assert killed(run.go_on)
    if method == "_publish":  # all rollouts are over: the last one is played again
        assert len(League.existing(tmp_path / "league").log) == len(whole["matches"])
    assert not killed(run.go_on)
    assert_same(run, whole)


@pytest.mark.slow
def test_ten_kills_at_any_time_in_real_fights(tmp_path: Path) -> None:
    never, often, rng = NhRun(tmp_path / "never"), NhRun(tmp_path / "often"), np.random.default_rng()
    for run in (never, often):
        run.rollouts = 16
    before = os.times().children_user
    assert not killed(never.go_on)
    at_most = (os.times().children_user - before) / 8  # of CPU time: others may slow down one of the two runs
    snapshots = []
    for _ in range(10):
        assert kill_after(often, cpu_seconds=float(rng.uniform(0, at_most)))
        snapshots.append(len(list(often.folder.glob("league/players/main*"))))
    assert not killed(often.go_on)
    print("snapshots at the kills:", snapshots)
    whole = never.outcome()
    assert len(whole["matches"]) > 60 and len(set(snapshots)) > 2
    assert_same(often, whole)


@pytest.mark.slow
def test_real_fights_in_self_play_are_resumed(tmp_path: Path) -> None:
    never, often = NhRun(tmp_path / "never"), NhRun(tmp_path / "often")
    for run in (never, often):
        run.rollouts = 4
    assert not killed(never.go_on)
    for watcher in at_steps([70, 100, 20]):
        assert killed(partial(often.go_on, watcher))
    assert not killed(often.go_on)
    assert_same(often, never.outcome())
