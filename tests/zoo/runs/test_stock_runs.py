"""Runs of algorithms of SB3: what is beside their checkpoints, and what else may stop them from going on."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from sb3_pvp import zoo
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.callbacks import MaskableCheckpointCallback
from sb3_pvp.callbacks.metric_lines import METRICS
from sb3_pvp.zoo.runs.resume import checkpoints_in, running

QUIET = ["--seed", "1", "--eval-freq", "-1", "--verbose", "0", "--log-interval", "1", "--num-threads", "1"]
NETWORK = "policy_kwargs:dict(net_arch=[8])"
DQN = ["learning_starts:20", "train_freq:4", "gradient_steps:1", "batch_size:16", "buffer_size:1000", NETWORK]
PARAMS = {
    "dqn": [*DQN, "normalize:True"],
    "ppo": ["n_envs:2", "n_steps:32", "batch_size:32", "normalize:True", NETWORK],
    "ppo_lstm": ["n_envs:2", "n_steps:32"],
    "sac": ["learning_starts:100", "batch_size:16", "buffer_size:1000", NETWORK],
    "dreamerv3": ["n_envs:2", "rollout_steps:32", "batch_size:2", "batch_length:8", "imag_last:2", "train_ratio:2"],
    "maskable_ppo": ["n_envs:4", "n_steps:16", "batch_size:64", NETWORK],
}


def train(
    folder: Path, algo: str, steps: int, *params: str, env: str = "CartPole-v1", begin: Any = None, more: Any = ()
) -> None:
    given = ["--algo", algo, "--env", env, *QUIET, "-n", str(steps), "--logdir", str(folder), *more]
    zoo.train([*given, "-params", *PARAMS.get(algo, []), *params], begin)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: Any, **keywords: Any) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        train(*arguments, **keywords)
    *_, line = capsys.readouterr().err.strip().splitlines()
    return line


def statistics(model: Any) -> Any:
    """Returns the running mean and so on of what it sees."""
    found = model.get_vec_normalize_env()
    assert isinstance(found, VecNormalize)
    return found.obs_rms


@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_replay_and_statistics_go_on(algo: str, tmp_path: Path) -> None:
    seen: list[Any] = []
    look: Callable[..., None] = lambda _, model: seen.append(model)  # noqa: E731
    train(tmp_path / "run", algo, 192, begin=look)
    train(tmp_path / "run", algo, 256, begin=lambda _, model: seen.append((model, vars(model).copy(), means(model))))
    first, (second, before, mean) = seen
    assert np.array_equal(means(first), mean) and statistics(second).count > 256
    if algo == "dqn":
        assert before["replay_buffer"].pos == 256 and second.replay_buffer.pos == 256, (
            "one buffer, which it went on with"
        )
    kinds = [path.stem.split("_")[1] for path in sorted((tmp_path / "run/checkpoints").glob("*.pkl"))]
    assert kinds == (["replay", "vecnormalize", "vecnormalize"] if algo == "dqn" else ["vecnormalize"] * 2)


def means(model: Any) -> Any:
    return statistics(model).mean.copy()


def test_without_its_replay_it_fills_a_new_one_before_it_learns(tmp_path: Path) -> None:
    train(tmp_path, "dqn", 100)
    for path in tmp_path.glob("checkpoints/*.pkl"):
        path.unlink()
    starts: list[int] = []
    anew = pytest.warns(RuntimeWarning, match="the statistics of VecNormalize begin anew")
    with (
        anew,
        pytest.warns(RuntimeWarning, match="20 steps fill a new replay before it learns: there is no .*replay_buffer"),
    ):
        train(tmp_path, "dqn", 200, begin=lambda _, model: starts.append(model.learning_starts))
    assert starts == [120]


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["dqn", "ppo"])
def test_a_killed_run_has_its_replay_and_statistics(algo: str, tmp_path: Path) -> None:
    fork, found = multiprocessing.get_context("fork"), list[tuple[int, float, int]]()

    def look(_: Any, model: Any) -> None:
        replay = model.replay_buffer.pos if algo == "dqn" else 0
        found.append((model.num_timesteps, statistics(model).count, replay))
        raise SystemExit

    train(tmp_path / "first", algo, 64)  # imports
    for _ in range(3):
        process, newest = fork.Process(target=train, args=(tmp_path / "run", algo, 10**6)), newest_in(tmp_path / "run")
        process.start()
        while newest_in(tmp_path / "run") <= newest + 64:
            assert process.is_alive()
            time.sleep(0.05)
        process.kill()
        process.join()
        with pytest.raises(SystemExit):
            train(tmp_path / "run", algo, 10**6, begin=look)
    for steps, seen, replayed in found:
        assert steps > 64 and steps <= seen <= steps * 1.1 + 2 and replayed in (0 if algo == "ppo" else steps % 1000, 0)


def newest_in(folder: Path) -> int:
    return max(checkpoints_in(folder), default=0)


@pytest.mark.slow
def test_an_algorithm_that_learns_at_every_step_is_not_saved_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, save = list[int](), MaskableCheckpointCallback._save

    def counting(callback: MaskableCheckpointCallback) -> None:
        saved.append(callback.num_timesteps)
        save(callback)

    monkeypatch.setattr(MaskableCheckpointCallback, "_save", counting)
    train(tmp_path, "sac", 300, env="Pendulum-v1")
    assert 2 <= len(saved) < 30 and saved[-1] == 300 and sorted(checkpoints_in(tmp_path))[-1] == 300


@pytest.mark.parametrize("n_envs", [1, 2])
def test_ars_trains_and_goes_on(n_envs: int, tmp_path: Path) -> None:
    for steps in (20, 400):
        train(tmp_path, "ars", steps, f"n_envs:{n_envs}", "n_delta:1", "n_top:1")
    assert (tmp_path / "CartPole-v1.zip").is_file() and (tmp_path / METRICS).is_file()
    assert newest_in(tmp_path) >= 400


def test_another_algorithm_or_environment_is_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path, "ppo", 64)
    assert "began with --algo ppo, not ppo_lstm: use that, or another folder" in refusal(
        capsys, tmp_path, "ppo_lstm", 99
    )
    given = "--env-kwargs", "sutton_barto_reward:True"
    assert "env_kwargs.sutton_barto_reward: none -> True" in refusal(capsys, tmp_path, "ppo", 128, more=given)
    assert newest_in(tmp_path) == 64, "what is refused changes nothing"
    with_rewards = tmp_path.with_name("rewards")
    for steps in (64, 128):
        train(with_rewards, "ppo", steps, more=given)
    assert newest_in(with_rewards) == 128
    saved, null = tmp_path / "CartPole-v1" / "args.yml", "- - env_kwargs\n    - null"
    arguments = saved.read_text("utf-8")
    assert null in arguments
    saved.write_text(arguments.replace(null, null.replace("null", "sutton_barto_reward: true")), "utf-8")
    train(tmp_path, "ppo", 128, more=given)  # a run of an earlier edition, which had them there only
    assert newest_in(tmp_path) == 128


@pytest.mark.slow
def test_the_cures_of_other_hyperparameters_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(tmp_path / "run", "ppo", 64)
    told = refusal(capsys, tmp_path / "run", "ppo", 128, "gamma:0.5")
    cure = "gamma: 0.98 -> 0.5): use those, or start a new run from its model with -i "
    assert cure in told and "--changed" not in told
    checkpoint = told.split(" -i ")[1].split(",")[0]
    assert told.endswith(f"-i {checkpoint}, without --resume and in another --logdir")
    train(tmp_path / "new", "ppo", 64, "gamma:0.5", more=["-i", checkpoint])
    assert PPO.load(tmp_path / "new/CartPole-v1.zip").gamma == 0.5
    train(tmp_path / "run", "ppo", 128)  # use those
    other = "policy_kwargs:dict(net_arch=[16])"
    assert "-i" not in refusal(capsys, tmp_path / "run", "ppo", 256, other).split()
    told = refusal(capsys, tmp_path / "other", "ppo", 64, other, more=["-i", checkpoint])
    assert "-i keeps the networks of its model: set the same ones (policy_kwargs.net_arch: [8] -> [16])" in told
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_the_cures_of_a_world_model_of_another_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [f"policy_kwargs:dict(size={size!r})" for size in ("debug", "micro")]
    train(tmp_path / "run", "dreamerv3", 64, sizes[0])
    told = refusal(capsys, tmp_path / "run", "dreamerv3", 128, sizes[1])
    assert "--changed" not in told and "or start a new run without --resume and in another --logdir" in told
    model = ["-i", str(tmp_path / "run/CartPole-v1.zip")]
    told = refusal(capsys, tmp_path / "other", "dreamerv3", 64, sizes[1], more=model)
    assert "-i keeps the networks of its model: set the same ones (policy_kwargs.size: 'debug' -> 'micro')" in told
    train(tmp_path / "other", "dreamerv3", 64, sizes[0], "ent_coef:0.001", more=model)


def test_the_cures_of_our_own_algorithm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours: dict[str, Any] = {"env": "NhEnv", "more": ["--actors", "0"]}
    train(tmp_path / "run", "maskable_ppo", 64, **ours)
    assert "add --changed to go on" in refusal(capsys, tmp_path / "run", "maskable_ppo", 128, "gamma:0.5", **ours)
    train(tmp_path / "run", "maskable_ppo", 128, "gamma:0.5", env="NhEnv", more=["--actors", "0", "--changed"])
    assert PvpPPO.load(tmp_path / "run/NhEnv.zip").gamma == 0.5
    other = "policy_kwargs:dict(net_arch=[16])"
    assert "--changed" not in refusal(capsys, tmp_path / "run", "maskable_ppo", 192, other, "gamma:0.5", **ours)


def test_the_second_of_two_trainings_that_start_at_once_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, locks = tmp_path / "run", list[Any]()

    def be_second(*_: object) -> None:
        locks.append(running(folder))
        locks[0].__enter__()

    assert "another process is training in" in refusal(capsys, folder, "ppo", 64, begin=be_second)
    assert not (folder / "initial_model.zip").exists()
    locks[0].__exit__(None, None, None)
    config = yaml.load((folder / "CartPole-v1/config.yml").read_text(), Loader=yaml.UnsafeLoader)
    assert config["n_steps"] == 32
