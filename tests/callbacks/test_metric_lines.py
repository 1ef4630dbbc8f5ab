"""Lines of JSON of a run: each step once, whatever killed it, with what was logged at that step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Figure

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import MetricLinesCallback
from sb3_pvp.callbacks.metric_lines import METRICS, SCORES, JsonLines, keep_until
from tests.algorithms.ppo.ppo_games import GuessingGame


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_for_each_step(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    writer = JsonLines(path)
    excluded = {"table": ("stdout", "json"), "b": ("stdout",)}
    writer.write({"b": np.float32(0.5), "a": 2, "table": 3.0, "text": "x", "picture": Figure(None, True)}, excluded, 10)  # type: ignore[arg-type]
    writer.write({}, {}, 12)
    writer.write({"a": float("nan")}, {}, 20)
    writer.write({"eval": 1, "a": 5}, {}, 20)
    writer.close()
    expected = [{"step": 10, "a": 2, "b": 0.5, "text": "x"}, {"step": 20, "a": 5, "eval": 1}]
    assert lines(path) == expected and path.read_text().startswith('{"step":10,"a":2,"b":0.5')
    again = JsonLines(path)  # a line that was there is one that is joined, too
    again.write({"c": 1}, {}, 20)
    again.write({"c": 2}, {}, 30)
    again.close()
    assert lines(path) == [expected[0], expected[1] | {"c": 1}, {"step": 30, "c": 2}]


@given(st.lists(st.integers(0, 9), max_size=12).map(sorted), st.integers(0, 9), st.integers(0, 20))
def test_later_lines_and_half_a_line_are_removed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], kept: int, cut: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "lines.jsonl"
    written = [f'{{"step":{step},"loss":1}}\n' for step in steps]
    text = "".join(written)
    path.write_text(text[: max(len(text) - cut, 0)])
    keep_until(path, kept)
    whole = [line for number, line in enumerate(written) if len("".join(written[: number + 1])) <= len(text) - cut]
    assert path.read_text() == "".join(line for line in whole if json.loads(line)["step"] <= kept)


@pytest.mark.parametrize("algorithm", [PPO, DQN])
def test_a_run_that_is_continued_has_each_step_once(tmp_path: Path, algorithm: Any) -> None:
    env = make_vec_env("CartPole-v1", 1, seed=0)
    options: dict[str, Any] = {"n_steps": 32, "batch_size": 32} if algorithm is PPO else {"learning_starts": 20}
    model = algorithm("MlpPolicy", env, seed=0, **options)
    model.run_folder = tmp_path
    evaluation = EvalCallback(make_vec_env("CartPole-v1", 1), n_eval_episodes=1, eval_freq=64, verbose=0)
    callback = CallbackList([MetricLinesCallback(), evaluation])
    model.learn(128, callback, log_interval=1)
    first = lines(tmp_path / METRICS)
    assert len({line["step"] for line in first}) == len(first) > 1
    assert any("eval/mean_reward" in line for line in first) and any("rollout/ep_rew_mean" in line for line in first)
    # As if it had gone on after its checkpoint at step 128, and was killed while it wrote.
    with (tmp_path / METRICS).open("a") as file:
        file.write('{"step":160,"lost":1}\n{"step":192,"lo')
    with (tmp_path / SCORES).open("a") as file:
        file.write('{"step":150,"episode/score":1.0,"episode/length":1}\n')
    model.learn(128, callback, log_interval=1, reset_num_timesteps=False)
    found, scores = lines(tmp_path / METRICS), lines(tmp_path / SCORES)
    assert found[: len(first)] == first and not any("lost" in line for line in found)
    steps = [line["step"] for line in found]
    assert steps == sorted({*steps}) and steps[-1] > 200
    assert [line["step"] for line in scores] == sorted(line["step"] for line in scores)
    assert all(line["episode/score"] == line["episode/length"] >= 1 for line in scores) and len(scores) > 5
    assert not any(isinstance(each, JsonLines) for each in model.logger.output_formats)
    kept = {name: (tmp_path / name).read_bytes() for name in (METRICS, SCORES)}
    for number in (1, 2):
        model.learn(150, callback, log_interval=1)  # from 0: another run
        assert 0 < lines(tmp_path / METRICS)[-1]["step"] <= 160
        assert (tmp_path / f"metrics-{number}.jsonl").is_file() and (tmp_path / f"scores-{number}.jsonl").is_file()
    assert kept == {name: (tmp_path / name).with_stem(f"{name[:-6]}-1").read_bytes() for name in kept}


def test_a_run_that_resumes_from_the_middle_of_a_rollout_has_each_episode_once(tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_steps": 16, "batch_size": 64, "n_epochs": 1, "seed": 0, "device": "cpu"}
    model = PvpPPO("MultiInputPolicy", GuessingGame(), **options)
    model.run_folder = tmp_path
    model.learn(3 * 64, [MetricLinesCallback(), CheckpointCallback(16 + 14, str(tmp_path))], log_interval=1)
    scores, steps = (tmp_path / SCORES).read_bytes(), [line["step"] for line in lines(tmp_path / METRICS)]
    # It trains on from the start of that rollout, at step 64.
    resumed = PvpPPO.load(tmp_path / "rl_model_120_steps.zip", env=GuessingGame(), device="cpu")
    resumed.run_folder = tmp_path
    resumed.learn(3 * 64 - 120, MetricLinesCallback(), log_interval=1, reset_num_timesteps=False)
    assert (tmp_path / SCORES).read_bytes() == scores
    assert [line["step"] for line in lines(tmp_path / METRICS)] == steps
