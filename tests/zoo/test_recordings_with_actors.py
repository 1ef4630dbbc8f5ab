"""What a run leaves behind is the same whether actors play its rollouts or not: files, tags, and rows of tables."""

from __future__ import annotations

import csv
import functools
import json
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3.common.monitor import load_results
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sb3_pvp import zoo
from sb3_pvp.matches.curves import find_runs, read_curve

#: Three rollouts with everything that records, in fights of up to 12 ticks.
RUN = """
NhEnv:
  import: [NhEnv]
  n_envs: 8
  n_steps: 16
  batch_size: 64
  n_epochs: 1
  n_timesteps: 384
  policy_kwargs: { net_arch: [8] }
  env_kwargs: { max_episode_ticks: 12, episode_statistics: true }
  callback:
    - sb3_pvp.callbacks.MaskableCheckpointCallback
    - sb3_pvp.callbacks.LeagueCallback: { snapshot_every: 1, anchors: { baseline: 1500 } }
    - sb3_pvp.callbacks.SelfPlayCallback: { self_play: 0.5, past: 0.25 }
    - sb3_pvp.callbacks.EpisodeLogCallback
    - sb3_pvp.callbacks.FightMetricsCallback
    - sb3_pvp.callbacks.ObservationMetricsCallback
    - sb3_pvp.callbacks.NoveltyRewardCallback: { scale: 0.1 }
    - sb3_pvp.callbacks.OutcomePredictorCallback
    - sb3_pvp.callbacks.ActionLimitCallback: { max_actions: 1, penalty: 0.1 }
    - sb3_pvp.callbacks.WinRateEvalCallback: { eval_freq: 2, n_eval_episodes: 4, background: false }
"""
#: Columns and tags that no two runs share.
TIMES = {"t", "last_step"}


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns the folder of a run with these options; each is trained once."""
    root = tmp_path_factory.mktemp("runs")
    (root / "run.yml").write_text(RUN)

    @functools.cache
    def trained(options: str) -> Path:
        logs = root / f"logs{options.replace(' ', '')}"
        arguments = ["--env", "NhEnv", "-conf", str(root / "run.yml"), "-f", str(logs), "--seed", "1", "--verbose", "0"]
        evaluated = ["--eval-freq", "256", "--eval-episodes", "2", "--save-freq", "128", "--log-interval", "1"]
        zoo.train([*arguments, *evaluated, "--tensorboard-log", str(logs / "tb"), *options.split()])
        return logs

    return trained


def files_of(logs: Path) -> set[str]:
    """The files of a run; event files, whose names have a time, by their folder."""
    names = (path.relative_to(logs) for path in logs.rglob("*") if path.is_file())
    return {str(name.parent if name.name.startswith("events.") else name) for name in names}


def tables_of(logs: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of all tables of a run, without times."""
    read: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(logs.rglob("*.csv")):
        lines = path.read_text().splitlines()
        read[path.name] = list(csv.DictReader(lines[lines[0].startswith("#") :]))
    for path in sorted(logs.rglob("*.jsonl")):
        read[path.name] = [json.loads(line) for line in path.read_text().splitlines()]
    # Of what is logged, `scalars_of` compares the values; with actors other steps log what has no value in all of them.
    read.pop("metrics.jsonl")
    return {name: [{k: v for k, v in row.items() if k not in TIMES} for row in rows] for name, rows in read.items()}


def scalars_of(logs: Path) -> dict[str, list[float]]:
    """The logged values of a run by tag, without times and speeds."""
    (folder,) = {path.parent for path in logs.rglob("events.*")}
    events = EventAccumulator(str(folder))
    events.Reload()
    values = {tag: [each.value for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    return {tag: found for tag, found in values.items() if not any(each in tag for each in ("time", "fps", "duration"))}


@pytest.mark.slow
@pytest.mark.parametrize("options", ["--actors 1", "--actors 2 --synchronous"])
def test_the_same_files_tags_and_tables_are_written_with_actors(run_of: Any, options: str) -> None:
    alone, with_actors = run_of("--actors 0"), run_of(options)
    assert files_of(with_actors) == files_of(alone)
    assert scalars_of(with_actors).keys() == scalars_of(alone).keys()
    mine, yours = tables_of(alone), tables_of(with_actors)
    assert {"0.monitor.csv", "episodes.jsonl", "win_rates.csv"} <= mine.keys() == yours.keys()
    for name, rows in yours.items():
        assert bool(rows) == bool(mine[name]), name
        assert {frozenset(row) for row in rows} == {frozenset(row) for row in mine[name]}, name
    # Every episode that callbacks were told about is in the table that rl-zoo3 and `sb3-pvp plot` read.
    assert len(yours["0.monitor.csv"]) == len(yours["episodes.jsonl"])
    lengths = [row["length"] for row in yours["episodes.jsonl"]]
    assert [int(row["l"]) for row in yours["0.monitor.csv"]] == lengths


@pytest.mark.slow
def test_synchronous_actors_leave_the_same_figures(run_of: Any) -> None:
    alone, with_actors = run_of("--actors 0"), run_of("--actors 2 --synchronous")
    assert tables_of(with_actors) == tables_of(alone)
    mine, yours = scalars_of(alone), scalars_of(with_actors)
    assert {tag for tag in mine if mine[tag] != pytest.approx(yours[tag], nan_ok=True)} == set()


@pytest.mark.slow
def test_episodes_of_actors_are_read_in_the_order_in_which_they_were_written(run_of: Any) -> None:
    logs = run_of("--actors 1")
    (run,) = find_runs([str(logs)])
    rows = tables_of(logs)["0.monitor.csv"]
    assert load_results(str(run.folder))["l"].tolist() == [int(row["l"]) for row in rows]
    assert len(read_curve(run, "episode_reward").steps) == len(rows)
