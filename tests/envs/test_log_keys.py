"""Observations for the log: the agent never sees them, and the figures of each episode are logged."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from sb3_pvp import DreamerV3, zoo
from sb3_pvp.callbacks import MetricLinesCallback
from sb3_pvp.callbacks.videos import gif
from sb3_pvp.common.errors import Refusal
from sb3_pvp.envs.log_keys import LogKeys, LogKeysWrapper, LogPatterns


class Logging(gym.Env[Any, Any]):
    """Five steps, in which it logs the number of the step, twice it, nothing, and a picture."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        {
            "seen": spaces.Box(-1, 1, (2,), np.float32),
            "log_step": spaces.Box(0, 9, (), np.float32),
            "log/pair": spaces.Box(0, 9, (2,), np.float32),
            "log_never": spaces.Box(0, 1, (), np.float32),
            "log_image": spaces.Box(0, 255, (4, 6, 3), np.uint8),
        }
    )

    def observe(self) -> dict[str, Any]:
        step = np.float32(self.steps)
        logged = {"log_step": step, "log/pair": np.full(2, step), "log_never": np.float32(0)}
        return {"seen": np.zeros(2, np.float32), **logged, "log_image": np.full((4, 6, 3), self.steps, np.uint8)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observe(), 1.0, self.steps == 5, False, {}


def figures(**patterns: Any) -> dict[str, Any]:
    env = LogKeys(Logging(), LogPatterns(**patterns))
    assert {*env.reset()[0]} == {"seen"}
    for step in range(1, 6):
        observation, _, over, _, info = env.step(0)
        assert {*observation} == {"seen"} and ("log" in info) == over == (step == 5)
    found: dict[str, Any] = info["log"]
    return found


def test_figures_of_an_episode() -> None:
    found = figures(video="image")
    assert found.pop("log_video/image").shape == (6, 4, 6, 3)
    assert found == {
        "log_sum/step": 15, "log_mean/step": 2.5, "log_max/step": 5,
        "log_sum/pair": 30, "log_mean/pair": 5, "log_max/pair": 10,
    }  # fmt: skip
    assert {*figures(sum="st", mean="pa", max="$^", video="image")} == {
        "log_sum/step",
        "log_mean/pair",
        "log_video/image",
    }
    assert figures(zeros=True, video="image")["log_max/never"] == 0
    assert figures(sum="log_step", max="log/", video="log_image").keys() & {"log_sum/step", "log_max/pair"}
    assert "log_max/step" not in figures(max="log/pair")
    with pytest.raises(ValueError, match="no regular expression"):
        figures(sum="(")
    with pytest.raises(ValueError, match="sum of log keys 'stepp' matches none .* there are: log/pair, .*log_step"):
        figures(sum="stepp")
    with pytest.raises(ValueError, match="video of log keys 'step' .* there are: log_image"):
        figures(video="step")


def test_videos_are_of_some_episodes() -> None:
    env = LogKeys(Logging(), LogPatterns(video="image"), videos_every=2)
    has_video = []
    for _ in range(4):
        env.reset()
        for _ in range(5):
            info = env.step(0)[4]
        has_video.append("log_video/image" in info["log"])
    assert has_video == [True, False, True, False]


def test_grey_images_are_videos_and_numbers_are_none() -> None:
    class Grey(Logging):
        observation_space = spaces.Dict(
            {**Logging.observation_space.spaces, "log_image": spaces.Box(0, 255, (4, 6, 1), np.uint8)}
        )

        def observe(self) -> dict[str, Any]:
            return super().observe() | {"log_image": np.full((4, 6, 1), self.steps, np.uint8)}

    env = LogKeys(Grey(), LogPatterns(video=".*"))
    env.reset()
    for _ in range(5):
        logged = env.step(0)[4].get("log", {})
    assert logged["log_video/image"].shape == (6, 4, 6, 3) and logged["log_video/image"][3, 0, 0].tolist() == [3, 3, 3]
    assert logged["log_sum/step"] == 15 and gif(logged["log_video/image"]).startswith(b"GIF")


def test_it_is_an_environment() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is a wrapper, and that numbers are no arrays
        check_env(LogKeys(Logging()), skip_render_check=True)
    plain = gym.make("CartPole-v1")
    assert LogKeysWrapper()(plain) is plain, "one without such keys stays as it is"
    with pytest.raises(Refusal, match="has no observations named log_"):
        LogKeysWrapper(LogPatterns(sum="step"))(plain)

    class Blind(Logging):
        observation_space = spaces.Dict({"log_step": spaces.Box(0, 9, (), np.float32)})

    with pytest.raises(ValueError, match="would see nothing"):
        LogKeys(Blind())


@pytest.mark.parametrize("algorithm", [PPO, DreamerV3])
def test_they_are_logged_and_not_learnt_from(tmp_path: Path, algorithm: Any) -> None:
    env = make_vec_env(Logging, 2, seed=0, wrapper_class=LogKeysWrapper(LogPatterns(video="image")))  # type: ignore[arg-type]
    options: dict[str, Any] = {"n_steps": 16, "batch_size": 32}
    if algorithm is DreamerV3:
        options = {"rollout_steps": 8, "batch_size": 2, "batch_length": 8, "policy_kwargs": {"size": "debug"}}
    model = algorithm("MultiInputPolicy", env, seed=0, tensorboard_log=str(tmp_path / "events"), **options)
    model.run_folder = tmp_path
    model.learn(64, MetricLinesCallback(), log_interval=1)
    assert {*model.observation_space} == {"seen"}
    if algorithm is DreamerV3:
        assert not any("log" in name for name in model.replay_buffer.layout)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert any(line.get("log_sum/step") == 15 and line["log_max/pair"] == 10 for line in lines)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(next((tmp_path / "events").iterdir()))).Reload().Tags()
    assert "log_sum/step" in events["scalars"] and "log_video/image" in events["images"]


def test_rl_zoo3_runs_wrap_what_needs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gym.register("Logging-v0", Logging)
    given = ["--algo", "ppo", "--env", "Logging-v0", "--eval-freq", "-1", "--verbose", "0", "--log-interval", "1"]
    given += ["--logdir", str(tmp_path / "run"), "-n", "64", "--num-threads", "1"]
    given += ["--run.log_keys_sum", "log_step", "--run.log_zeros", "True"]  # as the original spells them
    config = tmp_path / "ppo.yml"
    config.write_text("Logging-v0: {n_timesteps: 64, policy: MultiInputPolicy, n_steps: 32, batch_size: 32}\n")
    zoo.train([*given, "-conf", str(config)])
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["log_sum/step"] == 15 and "log_sum/pair" not in lines[-1] and lines[-1]["log_mean/pair"] == 5
    assert lines[-1]["log_max/never"] == 0
    with pytest.raises(SystemExit, match="2"):
        zoo.train([*given, "--log-keys-max", "("])
    assert "--log-keys-max takes a regular expression" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        zoo.train(["--env", "NhEnv", "-n", "64", "--log-keys-sum", "x", "-f", str(tmp_path / "logs")])
    assert "games of this package have no observations named log_" in capsys.readouterr().err
    # Watched as it was trained: the agent does not see these keys.
    shutil.copytree(tmp_path / "run", tmp_path / "logs/ppo/Logging-v0_1")
    zoo.enjoy(["--algo", "ppo", "--env", "Logging-v0", "-f", str(tmp_path / "logs"), "-n", "12", "--no-render"])


class Talking(gym.Wrapper[Any, Any, Any, Any]):
    """Has other things than figures where `LogKeys` puts them."""

    talk: Any = None

    def step(self, action: Any) -> Any:
        *others, info = self.env.step(action)
        return *others, info | {"log": self.talk}


@pytest.mark.parametrize("talk", ["a text", ["a", "list"], {"text": "x", "row": np.zeros(3), "kept": np.float32(2)}])
def test_what_else_environments_may_say_there_does_no_harm(talk: Any, tmp_path: Path) -> None:
    Talking.talk = talk
    env = Talking(gym.make("CartPole-v1", max_episode_steps=20))  # so that episodes end within the 64 steps
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, device="cpu")
    model.run_folder = tmp_path  # type: ignore[attr-defined]
    model.learn(64, MetricLinesCallback())
    (line,) = [json.loads(each) for each in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert line.get("kept") == (2 if isinstance(talk, dict) else None) and not {"text", "row"} & {*line}
