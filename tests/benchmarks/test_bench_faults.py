"""`bench faults`: its report, and that it notices what is not as promised."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from benchmarks import fault_trials
from benchmarks.__main__ import main
from benchmarks.fault_proxy import KINDS, RandomFaults
from benchmarks.fault_trials import Course, Terms, open_course, run_trial
from sb3_pvp.game import Outcome
from sb3_pvp.games.osrs.remote.client_errors import Lost
from sb3_pvp.games.osrs.remote.guard import Guard
from sb3_pvp.games.osrs.remote.remote_agent import RemoteAgent
from sb3_pvp.games.osrs.remote.remote_fight import RemoteFight

STEPS = 400  # with a quarter of it one run in thirty decides no fight at all
FEW = ["--steps", str(STEPS), "--n-envs", "4", "--rate", "0.05"]
CASES_AT_THE_END = ["together", "together, requests only"]


@pytest.fixture(scope="module")
def course() -> Iterator[Course]:
    with open_course(0, Terms()) as course:
        yield course


def bench(*options: str) -> Any:
    """The exit code."""
    with pytest.raises(SystemExit) as exit_info:
        main(["faults", *options])
    return exit_info.value.code


@pytest.mark.slow
def test_every_case_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    code = bench(*FEW, "--kinds", "split, close", "--json")
    printed = capsys.readouterr()
    assert code == 0, printed.err
    report = json.loads(printed.out)
    assert report["bench"] == "faults"
    rows = {row["case"]: row for row in report["rows"]}
    assert list(rows) == ["split", "close", *CASES_AT_THE_END]
    for row in rows.values():
        assert STEPS <= row["agent_steps"] <= STEPS + 40
        assert row["injected"] > 0 and row["witness_steps"] > 0
        assert row["longest_step_s"] <= fault_trials.SLACK * row["step_bound_s"]
        for name in ("wrong", "errors", "left_behind", "witness_lost", "broken_promises"):
            assert row[name] == 0
    assert rows["split"]["broken"] == 0
    assert rows["split"]["decided"] > 0 and rows["split"]["unjudged"] == 0
    assert rows["close"]["broken"] > 0


MODES = [["--mode", "synchronous"], ["--mode", "tick"], ["--env", "DharokEnv"]]


def promised(code: Any, printed: Any) -> dict[str, Any]:
    """Checks that every promise was kept, and returns the rows."""
    assert code == 0, printed.err
    rows = {row["case"]: row for row in json.loads(printed.out)["rows"]}
    for row in rows.values():
        for name in ("wrong", "errors", "left_behind", "witness_lost", "broken_promises"):
            assert row[name] == 0
        assert row["witness_steps"] > 0
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("options", MODES, ids=" ".join)
def test_other_servers_and_games(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = bench("--steps", "300", "--n-envs", "4", "--rate", "0.01", "--kinds", "close", "--json", *options)
    rows = promised(code, capsys.readouterr())
    assert sum(row["injected"] for row in rows.values()) > 0
    assert sum(row["decided"] for row in rows.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("options", MODES, ids=" ".join)
def test_all_promises_are_kept_on_other_servers_and_in_other_games(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    # A synchronous world stops at every lost line, and with many agents a line is lost in nearly every tick.
    n_envs = "2" if "synchronous" in options else "16"
    code = bench("--steps", "1500", "--n-envs", n_envs, "--json", *options)
    rows = promised(code, capsys.readouterr())
    assert list(rows) == [*KINDS, *CASES_AT_THE_END]
    assert all(row["agent_steps"] >= 1500 and row["injected"] > 0 for row in rows.values())


@pytest.mark.slow
def test_all_promises_are_kept_at_one_fault_in_a_hundred_lines(capsys: pytest.CaptureFixture[str]) -> None:
    code = bench("--json")
    printed = capsys.readouterr()
    assert code == 0, printed.err
    rows = json.loads(printed.out)["rows"]
    assert [row["case"] for row in rows] == [*KINDS, *CASES_AT_THE_END]
    assert all(row["agent_steps"] >= 10_000 and row["injected"] > 100 and row["decided"] > 10 for row in rows)


def count_broken_fights_as_won(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = RemoteFight._end_broken

    def lie(self: RemoteFight, *arguments: Any) -> None:
        honest(self, *arguments)
        self.outcomes = [Outcome.WON, Outcome.LOST]

    monkeypatch.setattr(RemoteFight, "_end_broken", lie)


def let_an_exception_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: RemoteFight, *arguments: Any) -> None:
        raise ZeroDivisionError("out of order")

    monkeypatch.setattr(RemoteFight, "_end_broken", fail)


def leave_agents_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang_up_only(self: RemoteAgent) -> None:
        self.hang_up()

    monkeypatch.setattr(RemoteAgent, "leave", hang_up_only)
    monkeypatch.setattr(Guard, "watch", lambda self, agent_id: None)
    monkeypatch.setattr(fault_trials, "LOGOUT_SECONDS", 0.5)


def take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fault_trials.bounds
    monkeypatch.setattr(fault_trials, "bounds", lambda settings: {**honest(settings), "step": 1e-5})
    monkeypatch.setattr(fault_trials.Player, "_hangs", lambda self: False)


def break_off_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = RemoteAgent.step

    async def break_off(self: RemoteAgent, choices: list[int]) -> Any:
        reply = await honest(self, choices)
        if reply.episode_ticks > 5:
            raise Lost("the line is dead")
        return reply

    monkeypatch.setattr(RemoteAgent, "step", break_off)


def never_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_trials.Player, "_hangs", lambda self: self.findings.steps > 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sabotage", "words"),
    [
        (count_broken_fights_as_won, "counts as ['WON', 'LOST'], but is ['RUNNING'"),
        (let_an_exception_escape, "ZeroDivisionError: out of order"),
        (leave_agents_behind, "is still logged in"),
        (take_too_long, "a step took"),
        (break_off_everywhere, "fights broke off without a proxy"),
        (never_come_back, "does not come back"),
    ],
)
def test_broken_promises_are_noticed(
    course: Course, sabotage: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fault_trials, "SINGLE_SHARE", 0.0)
    sabotage(monkeypatch)
    row, broken_promises = run_trial(course, "close", RandomFaults({"close": 0.05}), num_envs=4, steps=200, seed=0)
    assert words in "\n".join(broken_promises)
    assert row["broken_promises"] == len(broken_promises)


def test_broken_promises_are_reported_and_end_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fault_trials, "open_course", lambda seed, terms: nullcontext())
    monkeypatch.setattr(fault_trials, "run_trial", lambda course, name, *_: ({"case": name}, [f"no {name}"]))
    assert bench("--kinds", "drop") == 1
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [f"{case}: no {case}" for case in ("drop", *CASES_AT_THE_END)]
    assert [line.strip() for line in printed.out.splitlines()] == ["case", "drop", *CASES_AT_THE_END]
