"""Studies of DreamerV3 are made in parts, and become tables and pictures."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from filelock import FileLock
from matplotlib.image import imread
from stable_baselines3 import PPO

from benchmarks.__main__ import main
from benchmarks.dreamer_studies import domains, runs, soak
from benchmarks.dreamer_studies.domains import domain_rows, domain_table, draw_domains
from benchmarks.dreamer_studies.pictures import (
    draw_comparison,
    draw_scaling,
    interval_table,
    intervals,
    read_runs,
    table,
)
from benchmarks.dreamer_studies.runs import COMPARISON, LINES, SCALED, SCALING, TASKS, Learner, folder_of
from benchmarks.dreamer_studies.soak import draw_soak, growth, read_samples, soak_part, soak_table
from benchmarks.json_lines import append_line
from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.sizes import SIZES
from sb3_pvp.common.errors import Refusal
from tests.paths import ROOT


def call(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dreamer", *map(str, arguments)])
    assert ended.value.code == 0


def write(out: Path, name: str, seed: int, returns: dict[int, float]) -> None:
    folder = folder_of(out, name, seed)
    folder.mkdir(parents=True)
    lines = [{"steps": steps, "return": each, "cpu_s": steps / 10, "updates": steps} for steps, each in returns.items()]
    (folder / LINES).write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"steps": 9')


@pytest.mark.slow
def test_runs_of_all_algorithms_are_made_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rliable", reason="arch, which it needs, has no wheels for this Python")
    learners = {name: COMPARISON[name] for name in ("SAC, Pendulum", "PPO, CartPole", "DQN, CartPole")}
    monkeypatch.setattr(runs, "EPISODES", 2)
    monkeypatch.setattr(runs, "COMPARISON", learners | {"DreamerV3, CartPole": SMALL})
    options = "--out", tmp_path, "--seeds", 1
    # A part that is over at once has hardly begun; the next one goes on, and the last has nothing left to do.
    call("compare", *options, "--steps", 60, "--minutes", 0.001)
    first = runs.read_lines(folder_of(tmp_path, "SAC, Pendulum", 0))
    assert first[0]["steps"] == 0 and len(first) < 11
    call("compare", *options, "--steps", 60, "--minutes", 10)
    for name in runs.COMPARISON:
        lines = runs.read_lines(folder_of(tmp_path, name, 0))
        assert [line["steps"] for line in lines] == [*range(0, 61, 6)], name
        assert np.isfinite([line["return"] for line in lines]).all() and lines[-1]["cpu_s"] >= lines[0]["cpu_s"]
    written = {path: path.read_bytes() for path in tmp_path.glob(f"*/{LINES}")}
    call("compare", *options, "--steps", 60, "--minutes", 10)
    assert len(written) == 3 * 3 + 1 and {path: path.read_bytes() for path in written} == written
    shown = capsys.readouterr().out
    assert "| DreamerV3, CartPole | 1 | " in shown and "| SAC, Pendulum | 3 | " in shown
    assert imread(tmp_path / "comparison.png").std() > 0


SMALL = Learner(
    "CartPole", DreamerV3,
    {"batch_size": 2, "batch_length": 4, "train_ratio": 1.0, "rollout_steps": 10, "policy_kwargs": {"size": "debug"}},
    2,
)  # fmt: skip


def test_a_run_goes_on_that_was_stopped_in_its_first_rollout_and_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "EPISODES", 2)
    folder = folder_of(tmp_path / "one", "small", 0)
    (folder / "replay").mkdir(parents=True)
    (folder / "replay" / "rows").touch()  # of one that was killed before it saved a model
    runs.run_part({"small": SMALL}, 1, tmp_path / "one", 1e-3, 40)
    assert [line["steps"] for line in runs.read_lines(folder)] == [0]
    (tmp_path / "one").rename(tmp_path / "two")
    runs.run_part({"small": SMALL}, 1, tmp_path / "two", 60, 40)
    assert [line["steps"] for line in runs.read_lines(folder_of(tmp_path / "two", "small", 0))] == [*range(0, 41, 4)]
    model = SMALL.start(folder_of(tmp_path / "two", "small", 0), 0)
    assert isinstance(model, DreamerV3) and str(model.replay_folder).startswith(str(tmp_path / "two"))
    assert not (tmp_path / "one").exists()


def test_a_run_that_is_killed_while_it_saves_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(self: Any, path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    model, names = COMPARISON["SAC, Pendulum"].start(tmp_path / "run", 0), (runs.MODEL, runs.REPLAY)
    evaluations = runs.Evaluations(tmp_path / "run", 10, 10, 0.0)
    evaluations.init_callback(model)
    evaluations.on_training_start({}, {})
    evaluations.save()
    before = [(tmp_path / "run" / name).read_bytes() for name in names]
    for method in ("save", "save_replay_buffer"):
        monkeypatch.setattr(type(model), method, torn)
        with pytest.raises(KeyboardInterrupt):
            evaluations.save()
    assert [(tmp_path / "run" / name).read_bytes() for name in names] == before


def test_a_run_of_another_process_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "EPISODES", 2)
    learners = {"small": SMALL, "other": SMALL}
    with FileLock(f"{folder_of(tmp_path, 'small', 0)}.lock"):
        runs.run_part(learners, 1, tmp_path, 60, 20)
    assert not runs.read_lines(folder_of(tmp_path, "small", 0))
    assert runs.read_lines(folder_of(tmp_path, "other", 0))[-1]["steps"] >= 18


def test_a_run_that_was_begun_with_other_settings_is_refused(tmp_path: Path) -> None:
    runs.run_part({"small": SMALL}, 1, tmp_path, 60, 20)
    with pytest.raises(Refusal, match="was begun with other settings: give another --out"):
        runs.run_part({"small": replace(SMALL, n_envs=3)}, 1, tmp_path, 60, 20)


def test_a_later_part_has_other_episodes(tmp_path: Path) -> None:
    learner, begun = COMPARISON["PPO, CartPole"], []
    for _ in range(2):
        model = learner.start(tmp_path / "run", 0)
        assert model.env
        begun.append(np.asarray(model.env.reset()))
        model.num_timesteps += 100
        model.save(tmp_path / "run" / runs.MODEL)
    assert not np.isin(begun[1], begun[0]).any()


def test_runs_of_two_seeds_have_no_episodes_in_common(tmp_path: Path) -> None:
    models = [COMPARISON["PPO, CartPole"].start(tmp_path / str(seed), seed) for seed in range(3)]
    begun = np.concatenate([np.asarray(model.env.reset()) for model in models if model.env])
    assert len(np.unique(begun, axis=0)) == len(begun) == 24


def test_all_learners_can_learn_within_their_steps(tmp_path: Path) -> None:
    for name, learner in COMPARISON.items():
        steps, settings = TASKS[learner.task].steps, learner.settings
        if "n_steps" in settings:
            assert steps / (settings["n_steps"] * learner.n_envs) > 15, name
        if "exploration_fraction" in settings:
            assert settings["exploration_fraction"] * steps > 2 * settings["learning_starts"], name


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_updates_are_those_of_the_optimizer(tmp_path: Path) -> None:
    settings = {"n_steps": 8, "batch_size": 6, "n_epochs": 5}
    model = Learner("Pendulum", PPO, settings, 2).start(tmp_path / "run", 0)
    assert runs.updates(model.learn(32)) == 2 * 5 * 3  # rollouts of 16 steps: batches of 6, 6 and 4


def test_sizes_are_twice_as_wide_as_the_one_before() -> None:
    assert SCALED["micro"] == SIZES["micro"]
    assert [size.units for size in SCALED.values()] == [16, 32, 64]
    assert len(SCALING) == 9 and {each.task for each in SCALING.values()} == {"CartPole"}


def test_a_level_is_reached_after_the_median_of_the_seeds(tmp_path: Path) -> None:
    name = "micro, ratio 512"
    for seed, reached in enumerate((2000, 3000, 9000)):
        write(tmp_path, name, seed, {steps: 500.0 if steps >= reached else 22.0 for steps in range(0, 6001, 1000)})
    write(tmp_path, "half, ratio 32", 0, {0: 22.0, 6000: 22.0})
    found = read_runs(SCALING, tmp_path, 3)
    text = table(SCALING, found)
    # 2,500 steps of 0.02 seconds are 0.014 hours; the run that did not reach it is said.
    expected = "2,500, 0.014 h, 0.069 h (2 of 3 runs) | 0.57, 1.00 | 6,000, 0.033 h, 0.167 h | 6,000"
    assert f"| {name} | 3 | {expected} |" in text
    assert "| half, ratio 32 | 1 | not reached (0 of 1 runs) | 0.00, 0.00 |" in text
    draw_scaling(tmp_path / "scaling.png", found)
    assert imread(tmp_path / "scaling.png").std() > 0


def test_runs_that_are_not_finished_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "DQN, CartPole", 0, {0: 22.0, 500: 22.0})
    for seed, last in enumerate((6000, 3000, 6000)):
        write(tmp_path, "PPO, CartPole", seed, dict.fromkeys(range(0, last + 1, 1000), 500.0))
    found = read_runs(COMPARISON, tmp_path, 1)
    assert {name: len(each) for name, each in found.items()} == {"DQN, CartPole": 1, "PPO, CartPole": 2}
    assert "| PPO, CartPole | 2 |" in (shown := table(COMPARISON, found)) and " | 6,000, 0.033 h" in shown


@pytest.mark.slow
def test_intervals_are_of_seeds_and_tasks(tmp_path: Path) -> None:
    pytest.importorskip("rliable", reason="arch, which it needs, has no wheels for this Python")
    task = TASKS["CartPole"]
    best, middle = task.best, (task.random + task.best) / 2
    for seed, last in enumerate((task.random, middle, best)):
        write(tmp_path, "DreamerV3, CartPole", seed, {0: task.random, 3000: middle, 6000: last})
        write(tmp_path, "DreamerV3, Pendulum", seed, {0: -1220.0, 3000: -685.0, 6000: -685.0, 9000: -150.0})
    found = read_runs(COMPARISON, tmp_path, 3)
    shares, (means, low, high) = intervals({"DreamerV3, CartPole": found["DreamerV3, CartPole"]})
    assert shares.tolist() == [0, 0.5, 1] and means == pytest.approx([0, 0.5, 0.5])
    assert low[:2] == pytest.approx(high[:2]) and low[2] < 0.25 and high[2] > 0.75
    shares, (means, low, high) = intervals(found)
    assert shares.tolist() == [0, 0.5, 1] and means[:2] == pytest.approx([0, 0.5])
    assert 0 < low[2] < means[2] <= high[2] <= 1
    shown = interval_table(found).splitlines()
    assert shown[2].startswith("| DreamerV3 | CartPole | 100% | 3 | 0.50 (0.") and len(shown) == 5
    assert shown[3] == "| DreamerV3 | Pendulum | 100% | 3 | 1.00 (1.00 to 1.00) |"
    draw_comparison(tmp_path / "comparison.png", found)
    assert imread(tmp_path / "comparison.png").std() > 0


def samples(part: int, megabytes: list[float]) -> list[dict[str, Any]]:
    each = {"part": part, "cpu_s": 1.0, "files": 9, "threads": 2, "disk_megabytes": 5.0, "steps": 1000}
    return [each | {"seconds": 360.0 * i, "megabytes": value} for i, value in enumerate(megabytes)]


def test_memory_is_flat_if_it_does_not_grow_once_warm(tmp_path: Path) -> None:
    flat, leak = samples(0, [100.0, 300.0, *[400.0] * 8]), samples(1, [400.0 + i for i in range(10)])
    assert growth(flat) == pytest.approx(0, abs=1e-6) and growth(leak) == pytest.approx(10)
    text = soak_table(flat + leak)
    assert (
        "| 0 | 0.90 | 0.00 | 1,000 | 0.01 | 100, 400, 400 | " in text
        and "| 400, 405, 409 | +10.0 | 9 | 2 | 5 |" in text
    )
    draw_soak(tmp_path / "soak.png", flat + leak)
    assert imread(tmp_path / "soak.png").std() > 0


def test_a_soak_of_no_minutes_trains_nothing(tmp_path: Path) -> None:
    soak_part(tmp_path / "out", 0)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_soak_ends_with_its_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "SETTINGS", ("n_timesteps:10", "policy:'MlpPolicy'", "train_ratio:-1"))
    with pytest.raises(Refusal, match="the training has ended with code [12]: .*train_ratio"):
        soak_part(tmp_path, 600)
    assert all(line["megabytes"] > 0 for line in read_samples(tmp_path))


def test_what_has_died_is_no_sample(tmp_path: Path) -> None:
    parent = subprocess.Popen(["sh", "-c", "true & exec sleep 60"])  # which does not wait for its child
    try:
        for _ in range(500):
            if any(child.status() == psutil.STATUS_ZOMBIE for child in psutil.Process(parent.pid).children()):
                break
            time.sleep(0.02)
        assert soak._sample(parent.pid, tmp_path) is None
    finally:
        parent.kill()
        parent.wait()
    assert soak._sample(parent.pid, tmp_path) is None


@pytest.mark.slow
def test_a_soak_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "dreamer", "soak", "--out", str(tmp_path), "--minutes", "9"], cwd=ROOT
    )

    def trainings() -> list[int]:
        every = psutil.process_iter(["cmdline"])
        return [each.pid for each in every if str(tmp_path / "run") in (each.info["cmdline"] or ())]

    try:
        wait_for(lambda: (tmp_path / "run" / "metrics.jsonl").exists())
        assert trainings()
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: not trainings())
    assert [*(tmp_path / "run" / "checkpoints").iterdir()], "it was asked to stop, and saved"


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it has not come about in two minutes")


@pytest.mark.slow
def test_a_soak_goes_on_with_the_run_of_its_last_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        call("soak", "--out", tmp_path, "--minutes", 1)
    assert "| 1 | 0.0" in capsys.readouterr().out
    assert "Resuming" in (tmp_path / "output.txt").read_text()


def test_without_runs_there_is_nothing_to_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dreamer", "scaling", "--out", str(tmp_path), "--minutes", "0"])
    assert ended.value.code == 2 and "has no evaluations yet: give --minutes" in capsys.readouterr().err


def test_domains_become_a_table_and_a_picture_beside_random_play(tmp_path: Path) -> None:
    for name, gain in (("Atari", 0.1), ("MiniGrid", 0.0)):
        (tmp_path / name).mkdir()
        scores = [{"step": 10 * i, "episode/score": gain * i + i % 2} for i in range(1, 201)]
        (tmp_path / name / "scores.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in scores))
        for i in range(40):
            append_line(tmp_path / domains.RANDOM, {"preset": name, "return": i % 2})
        for _ in range(2):
            append_line(tmp_path / domains.PARTS, {"preset": name, "cpu_s": 60.0})
    (tmp_path / "Crafter").mkdir()
    (tmp_path / "Crafter" / "scores.jsonl").touch()  # whose first episode has not ended yet
    learnt, not_learnt = rows = domain_rows(tmp_path)
    more, low, high = learnt["more"]
    assert more == pytest.approx(0.1 * 180.5) and more - 1 < low < more < high < more + 1
    assert not_learnt["more"][0] == pytest.approx(0) and not_learnt["more"][1] < 0 < not_learnt["more"][2]
    assert "| `Atari` | 2,000 | 200 | 2.0 | 0.50 | 18.55 of 40 | +18.05 (" in domain_table(rows)
    assert "fewer than 5" in domain_table([learnt | {"last": learnt["last"][:4]}])
    draw_domains(tmp_path / "domains.png", rows)
    assert imread(tmp_path / "domains.png").shape[1] > 600


@pytest.mark.slow
def test_a_preset_is_trained_in_parts_and_random_actions_are_played(tmp_path: Path) -> None:
    pytest.importorskip("minigrid")
    preset = domains.domain_presets()["MiniGrid"]
    for _ in range(2):
        domains.train_part("MiniGrid", tmp_path, 12)
        domains.play_randomly("MiniGrid", preset, tmp_path)
    (row,) = domain_rows(tmp_path)
    assert row["cpu_s"] >= 24 and len(row["random"]) == domains.EPISODES and len(row["returns"])
