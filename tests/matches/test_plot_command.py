"""Curves of run folders (sb3_pvp.matches.curves, ``sb3-pvp plot``)."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import yaml

from sb3_pvp.cli import main
from sb3_pvp.common.atomic_files import DamagedFile
from sb3_pvp.matches.curves import Band, find_runs, group_runs, plot_curves, read_curve, summarize
from sb3_pvp.players.league import League, MatchRecord, Player


def make_run(folder: Path, seed: int = 0, conf_file: str | None = None, gamma: float = 0.99, skill: float = 1) -> Path:
    """A run folder as rl-zoo3 and our callbacks leave it."""
    config = folder / "NhEnv"
    config.mkdir(parents=True)
    arguments = {"algo": "maskable_ppo", "env": "NhEnv", "conf_file": conf_file, "seed": seed}
    (config / "args.yml").write_text(yaml.dump(OrderedDict(arguments)))
    (config / "config.yml").write_text(yaml.dump(OrderedDict(gamma=gamma)))
    rows = ["steps,rollouts,opponent,player,fights,win_rate,win_rate_low,win_rate_high"]
    for step in range(0, 500, 100):
        rate = min(skill * step / 400, 1)
        rows.append(f"{step},1,baseline,baseline,100,{rate},{max(rate - 0.1, 0)},{min(rate + 0.1, 1)}")
        rows.append(f"{step},1,best,main@0,100,0.5,0.4,0.6")
    (folder / "win_rates.csv").write_text("\n".join(rows) + "\n")
    return folder


def line(steps: list[float], values: Any) -> Band:
    return Band(np.array(steps, float), *[np.array(values, float)] * 3)


def run_plot(arguments: list[Any], capsys: pytest.CaptureFixture[str]) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as exit_info:
        main(["plot", *map(str, arguments)])
    out, err = capsys.readouterr()
    return exit_info.value.code, out, err


def test_seeds_are_one_line_and_other_hyperparameters_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, skill in enumerate([0.6, 0.8, 1.0, 1.2, 4.0], start=1):
        make_run(tmp_path / f"maskable_ppo/NhEnv_{number}", seed=number, conf_file="x/Core.yml", skill=skill)
    make_run(tmp_path / "maskable_ppo/NhEnv_10", conf_file="x/Core.yml", gamma=0.9)
    code, out, _ = run_plot([tmp_path, "-o", tmp_path / "curves.png", "--json"], capsys)
    assert code == 0 and (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    figures = json.loads(out)
    assert list(figures) == ["Core (NhEnv_1)", "Core (NhEnv_10)"]
    band = figures["Core (NhEnv_1)"]
    assert band["num_runs"] == 5 and band["steps"] == [0, 100, 200, 300, 400]
    # The middle three of 0.3, 0.4, 0.5, 0.6 and 1.0 at half time.
    assert band["center"][2] == pytest.approx(0.5)
    assert 0.3 <= band["low"][2] < 0.5 < band["high"][2] <= 1.0
    # A single run has the interval of its evaluations.
    assert figures["Core (NhEnv_10)"]["low"] == pytest.approx([0, 0.15, 0.4, 0.65, 0.9])


def test_labels_can_be_given(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", seed=3), make_run(tmp_path / "b", seed=-1)
    runs = find_runs([f"ours={a}", str(b)])
    assert [(run.label, run.seed) for run in runs] == [("ours", 3), ("maskable_ppo, NhEnv", None)]
    assert list(group_runs(runs)) == ["ours", "maskable_ppo, NhEnv"]
    equals = make_run(tmp_path / "lr=0.1")
    assert [run.label for run in find_runs([str(equals), f"ours={equals}"])] == ["ours"]
    assert [run.label for run in find_runs([str(equals)])] == ["maskable_ppo, NhEnv"]


def test_every_metric(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (run,) = find_runs([str(folder)])
    assert read_curve(run, "win_rate", "best").center.tolist() == [0.5] * 5
    np.savez(folder / "evaluations.npz", timesteps=[10, 20], results=[[1.0, 2.0], [3.0, 5.0]])
    assert read_curve(run, "eval_reward").center.tolist() == [1.5, 4.0]
    won = [[False, False], [True, False]]
    np.savez(folder / "evaluations.npz", timesteps=[10, 20], results=[[1.0, 2.0], [3.0, 5.0]], successes=won)
    evaluated = read_curve(run, "eval_win_rate")
    assert evaluated.center.tolist() == [0, 0.5] and evaluated.low[1] < 0.2 < 0.8 < evaluated.high[1]
    (folder / "0.monitor.csv").write_text('#{"t_start": 0, "env_id": "NhEnv"}\nr,l,t\n')
    with pytest.raises(ValueError, match=r"no episode is recorded in .*/\*\.monitor\.csv"):
        read_curve(run, "episode_reward")
    for row in range(2):
        times = [(7.0 + row, 1 + row), (1.0 + row, 3 + row)]
        lines = ['#{"t_start": 0, "env_id": "NhEnv"}', "r,l,t", *(f"{r},5,{t}" for r, t in times)]
        (folder / f"{row}.monitor.csv").write_text("\n".join(lines) + "\n")
    rewards, lengths = read_curve(run, "episode_reward"), read_curve(run, "episode_length")
    assert rewards.steps.tolist() == [5, 10, 15, 20] and lengths.center.tolist() == [5] * 4
    assert rewards.center.tolist() == [7, 7.5, pytest.approx(16 / 3), 4.5]

    league, baseline = League(folder / "league", anchors={Player("baseline"): 1500}), Player("baseline")
    for step, outcomes in ((0, "lost lost won"), (100, "won won lost")):
        learner = Player("main", step)
        league.add(learner, lambda path: path.write_text("a model"))
        league.log.append(
            [
                MatchRecord(learner, baseline, outcome, None, None, 9, True, 0.0, f"{step}/{number}")
                for number, outcome in enumerate(outcomes.split())
            ]
        )
    for metric in ("elo", "rating"):
        curve = read_curve(run, metric)
        assert curve.steps.tolist() == [0, 100]
        assert curve.center[0] < 1500 and curve.center[0] < curve.center[1]


def test_a_line_for_each_opponent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "run")
    opponents = ["--opponent", "baseline", "--opponent", "best"]
    code, out, _ = run_plot([f"run={folder}", *opponents, "-o", tmp_path / "x.svg", "--json"], capsys)
    assert code == 0 and list(json.loads(out)) == ["run, baseline", "run, best"]
    assert "win rate against baseline and best" in (tmp_path / "x.svg").read_text()


def test_without_a_metric_it_is_one_that_all_runs_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (make_run(tmp_path / name) for name in "ab")
    picture = tmp_path / "x.png"
    assert run_plot([first, second, "-o", picture], capsys)[1].startswith(f"{picture}: win_rate of ")
    (second / "win_rates.csv").unlink()
    assert "none of win_rate, eval_win_rate, eval_reward" in run_plot([first, second, "-o", picture], capsys)[2]
    for folder in (first, second):
        np.savez(folder / "evaluations.npz", timesteps=[10, 20], results=[[1.0, 2.0], [3.0, 5.0]])
    assert run_plot([first, second, "-o", picture], capsys)[1].startswith(f"{picture}: eval_reward of ")
    for folder in (first, second):
        won = {"successes": [[True], [False]], "results": [[1.0], [0.0]]}
        np.savez(folder / "evaluations.npz", timesteps=[10, 20], **won)
    assert run_plot([first, second, "-o", picture], capsys)[1].startswith(f"{picture}: eval_win_rate of ")


def test_what_a_run_does_not_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "run")
    for arguments, message in (
        ([tmp_path / "nothing"], "holds no training run"),
        ([folder, "--metric", "win_rates"], "win_rate"),
        ([folder, "--opponent", "basline"], "baseline"),
        ([folder, "--metric", "elo"], "holds no league"),
        ([folder, "--metric", "elo", "--opponent", "best"], "--opponent is for the metric win_rate: leave it, or"),
        ([folder, "--metric", "episode_reward"], "has no episode_reward"),
        ([folder, "-o", tmp_path / "x.odd"], "odd"),
    ):
        code, _, err = run_plot(arguments, capsys)
        assert code == 2 and message in err and err.count("\n") == 1, arguments


@pytest.mark.filterwarnings("ignore:Skipping")  # those of the other run
@pytest.mark.parametrize("content", [pytest.param(b"", marks=pytest.mark.slow), b"PK\x03\x04 half of a file \x80"])
def test_a_damaged_file_leaves_one_run_out(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the metric that is in the file; it still counts as recorded when a metric is chosen."""
    runs = [make_run(tmp_path / name, gamma=gamma) for name, gamma in (("a", 0.9), ("b", 0.9), ("c", 0.8))]
    for folder in runs:
        won = {"successes": [[True], [False]], "results": [[1.0], [0.0]]}
        np.savez(folder / "evaluations.npz", timesteps=[10, 20], **won)
        (folder / "0.monitor.csv").write_text('#{"t_start": 0, "env_id": "NhEnv"}\nr,l,t\n1,5,1\n2,5,2\n')
        league, learner = League(folder / "league", anchors={Player("baseline"): 1500}), Player("main", 5)
        league.add(learner, lambda path: path.write_text("a model"))
        league.log.append([MatchRecord(learner, Player("baseline"), "won", None, None, 9, True, 0.0, "0")])
    for file, metric in (
        ("win_rates.csv", None),
        ("evaluations.npz", "eval_win_rate"),
        ("evaluations.npz", "eval_reward"),
        ("0.monitor.csv", "episode_length"),
        ("league/league.json", "elo"),
        ("league/matches.sqlite", "elo"),
    ):
        options = [*(["--metric", metric] if metric else []), "-o", tmp_path / "x.png", "--json"]
        kept = (runs[1] / file).read_bytes()
        (runs[1] / file).write_bytes(content)
        with pytest.warns(RuntimeWarning, match=f"Skipping {runs[1]}/.*: it is damaged"):
            code, out, _ = run_plot([*runs, *options], capsys)
        assert code == 0 and [band["num_runs"] for band in json.loads(out).values()] == [1, 1], file
        (runs[2] / file).write_bytes(content)
        with pytest.warns(RuntimeWarning, match=f"Skipping {runs[2]}/"):
            code, out, _ = run_plot([*runs, *options], capsys)
        assert code == 0 and len(json.loads(out)) == 1, file
        with pytest.warns(RuntimeWarning, match=f"Skipping {runs[1]}/"):
            code, _, err = run_plot([runs[1], "--metric", metric or "win_rate"], capsys)
        assert code == 2 and err.count("\n") == 1 and "all damaged" in err
        for folder in runs[1:]:
            (folder / file).write_bytes(kept)


def test_runs_without_arguments_are_called_by_their_folders(tmp_path: Path) -> None:
    for name in "ab":
        make_run(tmp_path / name, seed=7, conf_file="x/Core.yml")
    for damage in ("", "- - - algo", "a: b"):
        (tmp_path / "b/NhEnv/args.yml").write_text(damage)
        with pytest.warns(RuntimeWarning, match=r"Skipping .*/b/NhEnv/args.yml: it is damaged"):
            runs = find_runs([str(tmp_path)])
        assert [(each.label, each.seed) for each in runs] == [("Core", 7), ("b", None)]


def test_a_league_without_the_learner_has_no_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make_run(tmp_path / name) for name in "ab"]
    for folder in runs:
        League(folder / "league", anchors={Player("baseline"): 1500}).recompute()
    for metric in ("elo", "rating"):
        code, _, err = run_plot([*runs, "--metric", metric], capsys)
        assert code == 2 and f"has no {metric} yet" in err and err.count("\n") == 1


def test_a_run_with_one_point_shows_it(tmp_path: Path) -> None:
    def markers(points: int) -> int:
        with matplotlib.rc_context():  # rl_zoo3 and seaborn have colours of their own
            matplotlib.rcdefaults()
            plot_curves(tmp_path / "x.svg", {"run": line(list(range(points)), range(points))}, "title")
        return (tmp_path / "x.svg").read_text().count('"fill: #1f77b4; stroke: #1f77b4"')

    assert markers(1) and not markers(2)


def test_runs_meet_where_all_of_them_have_been() -> None:
    short = line([10, 20, 30], [1, 2, 3])
    long = line([0, 15, 50], [0, 1.5, 5])
    band = summarize([short, long])
    assert band.steps.tolist() == [10, 15, 20, 30]
    assert band.center == pytest.approx([1, 1.5, 2, 3])
    assert (band.low == band.center).all() and (band.high == band.center).all()
    with pytest.raises(ValueError, match="no steps in common"):
        summarize([short, line([40, 50], [0, 0])])


@pytest.mark.slow
def test_the_interval_covers_the_truth() -> None:
    """Of the mean of 20 normal runs, in about 95 of 100 tries."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        curves = [line([0], rng.normal(0, 1, 1)) for _ in range(20)]
        band = summarize(curves)
        covered += int(band.low[0] <= 0 <= band.high[0])
    assert 85 <= covered <= 100


@pytest.mark.parametrize("name", ["conf_file", "seed", "n_timesteps", "trained_agent", "algo", "env"])
def test_arguments_of_another_kind_are_damage(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "a")
    (tmp_path / "a/NhEnv/args.yml").write_text(yaml.dump(OrderedDict(algo="maskable_ppo", env="NhEnv") | {name: [[1]]}))
    (tmp_path / "a/NhEnv/config.yml").write_text("- - n_timesteps\n  - 1.2.3\n- - n_timesteps\n  - 9e9999\n")
    for command in (["plot", tmp_path / "a", "-o", tmp_path / "x.png"], ["runs", tmp_path]):
        with pytest.warns(RuntimeWarning, match=r"args.yml: it is damaged"), pytest.raises(SystemExit) as exit_info:
            main([*map(str, command)])
        assert exit_info.value.code == 0, capsys.readouterr().err


def test_evaluations_of_another_shape_are_damage(tmp_path: Path) -> None:
    run = find_runs([str(make_run(tmp_path / "a"))])[0]
    won = np.ones((3, 2))
    for changes in ({"successes": np.array(1)}, {"successes": won.astype(str)}, {"timesteps": np.array(1)}):
        file = {"timesteps": np.arange(3), "results": won, "successes": won, **changes}
        np.savez(tmp_path / "a/evaluations.npz", **file)
        with pytest.raises(DamagedFile):
            read_curve(run, "eval_win_rate")
