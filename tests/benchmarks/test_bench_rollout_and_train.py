"""`bench rollout` and `bench train`: the report, the turns behind it, and what the fused heads are measured against."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch as th

from benchmarks.__main__ import main
from benchmarks.report import Case, measure
from benchmarks.stacks import CORE, Size, make_core

KEYS = {"case", "n", "agent_steps", "cpu_s", "wall_s", "agent_steps_per_core_s"}
VERSIONS = {"sb3_pvp", "python", "torch", "stable-baselines3", "sb3-contrib", "numpy", "numba"}
TINY = ["--n-envs", "2", "--n-steps", "2", "--seconds", "0.01"]


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as exit_info:
        main([*arguments, "--json"])
    assert exit_info.value.code == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result.keys() == {"bench", "rows", "versions"}
    assert result["bench"] == arguments[0]
    assert result["versions"].keys() == VERSIONS
    return result


def check_rows(rows: list[dict[str, Any]]) -> None:
    cases = {(row["case"], row["n"]) for row in rows}
    assert len(cases) == len(rows), "a row is known by its case and its size"
    for row in rows:
        assert row.keys() - {"opponents_share"} in (KEYS, KEYS | {"control", "ratio"})
        assert row["agent_steps"] > 0
        assert row["agent_steps_per_core_s"] == pytest.approx(row["agent_steps"] / row["cpu_s"])
        if "control" in row:
            assert (row["control"], row["n"]) in cases
            assert row["ratio"] > 0


def test_bench_rollout_compares_acting_and_roll_outs(capsys: pytest.CaptureFixture[str]) -> None:
    rows = report(capsys, "rollout", *TINY)["rows"]
    check_rows(rows)
    assert [row["case"].split(":")[0] for row in rows] == ["acting"] * 4 + ["rollout"] * 5
    assert "8 models" in rows[-1]["case"] and 0 < rows[-1]["opponents_share"] < 1
    assert all(row["n"] == 2 and row["agent_steps"] % 2 == 0 for row in rows)


@pytest.mark.slow
def test_bench_train_compares_acting_learning_and_training(capsys: pytest.CaptureFixture[str]) -> None:
    threads = th.get_num_threads()
    rows = report(capsys, "train", *TINY, "--batches", "1,3")["rows"]
    check_rows(rows)
    assert [(row["case"].split(":")[0], row["n"]) for row in rows] == [
        *[("acting", 1)] * 2,
        *[("acting", 3)] * 2,
        *[("learning", 2048)] * 2,
        *[("training", 2)] * 3,
    ]
    compared = {row["case"]: row["control"] for row in rows if "control" in row}
    assert compared == {
        f"acting: {CORE}": "acting: Core network, plain loop",
        f"learning: {CORE}": "learning: Core network, plain loop",
        "training: [64, 64]": "training: stock MaskablePPO [64, 64]",
    }
    assert th.get_num_threads() == threads, "the number of threads is put back"


def spin(seconds: float) -> Callable[[], None]:
    def work() -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    return work


def test_cases_take_turns_and_are_compared_with_their_control() -> None:
    calls: list[str] = []

    def case(name: str, seconds: float, control: str | None) -> Case:
        work = spin(seconds)
        return Case(name, 1, 10, lambda: (calls.append(name), work()), control)

    slow, fast = measure([case("slow", 0.004, None), case("fast", 0.001, "slow")], seconds=0.03, rounds=3)
    order = [name for index, name in enumerate(calls) if not index or calls[index - 1] != name]
    assert order == ["slow", "fast"] * 4  # once before it counts, and three rounds
    assert slow["agent_steps"] == 10 * (calls.count("slow") - 1)
    assert fast["ratio"] == pytest.approx(4, rel=0.5)
    assert "ratio" not in slow


def test_the_plain_loop_is_the_same_policy() -> None:
    """Otherwise its speed would tell nothing."""
    model, loop, samples = make_core(Size(4, 16, 0))
    policy: Any = model.policy
    batch = samples[th.arange(len(samples))]
    own = policy.evaluate_heads(batch.observations, batch.actions, batch.action_masks)
    plain = loop.evaluate_heads(batch.observations, batch.actions, batch.action_masks)
    for mine, theirs in zip(own, plain, strict=True):
        assert mine.shape == theirs.shape
        th.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    assert sum(map(th.numel, loop.parameters())) >= 1_774_894  # training.md §3.12; fused ones are padded
    th.manual_seed(0)
    actions, values, log_probs = loop(batch.observations, action_masks=batch.action_masks)
    again, own_log_probs, _ = policy.evaluate_heads(batch.observations, actions, batch.action_masks)
    th.testing.assert_close(values, again, rtol=1e-4, atol=1e-4)
    th.testing.assert_close(log_probs, own_log_probs.sum(1), rtol=1e-4, atol=1e-4)
