"""Runs of DreamerV3 in rl-zoo3: trained, killed and resumed with replay and metrics, and watched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sb3_pvp import zoo
from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
from sb3_pvp.algorithms.dreamer.sequences import SequenceReplayBuffer
from sb3_pvp.players.league import League, MatchRecord
from tests.paths import ROOT

ROLLOUT = 4 * 20
COMMAND = ["--algo", "dreamerv3", "--seed", "1", "--eval-freq", "-1", "--verbose", "0", "--resume"]
PARAMS = ["-params", "n_envs:4", "batch_size:4", "batch_length:8", "train_ratio:16", "policy_kwargs:dict(size='debug')"]
PARAMS += ["rollout_steps:20", "buffer_size:600", "imagined_steps:4"]
#: A league of snapshots, and half of the fights against itself.
LEAGUE = """
NhEnv:
  policy: MultiInputPolicy
  n_timesteps: 400
  env_kwargs: { max_episode_ticks: 12 }
  callback:
    - sb3_pvp.callbacks.LeagueCallback: { snapshot_every: 1 }
    - sb3_pvp.callbacks.SelfPlayCallback: { self_play: 0.5, past: 0.25, target: 0.25, targets: [scripted], seed: 3 }
"""
FALLS = "{ type: linear, initial_value: 0.03, final_value: 0.0003, change_over_time_steps: 4 }"


def train(folder: Path, rollouts: int, env: str = "NhEnv", *more: str) -> Path:
    zoo.train([*COMMAND, "--env", env, "-f", str(folder), "-n", str(rollouts * ROLLOUT), *more, *PARAMS])
    return run_in(folder, env)


def run_in(folder: Path, env: str = "NhEnv") -> Path:
    return folder / f"dreamerv3/{env}_1"


def replay_of(run: Path) -> SequenceReplayBuffer:
    """Opens the replay of a run as it was when the run's model was saved."""
    model = DreamerV3.load(run / f"{run.name[:-2]}.zip", device="cpu")
    model.n_envs, model.run_folder = 4, run
    model._open_replay(is_new=False)
    from sb3_pvp.algorithms.ppo.resumable import unpack

    assert model.training_state is not None
    replay: SequenceReplayBuffer = model.replay_buffer
    assert replay.set_state(unpack(model.training_state)["parts"]["dreamer"]["replay"])
    return replay


def assert_same(first: Path, second: Path) -> None:
    """Weights, optimiser, counts, replay with its latents, and what the next sequences are."""
    models = [DreamerV3.load(run / "NhEnv.zip", device="cpu") for run in (first, second)]
    for states in (
        [model.policy.state_dict() for model in models],
        [model.policy.optimizer.state_dict()["state"][0] for model in models],
    ):
        assert all(np.array_equal(part, states[1][name]) for name, part in states[0].items())
    assert (
        len({(model.num_timesteps, model.trained_rollouts, model.n_updates, model._episode_num) for model in models})
        == 1
    )
    replays = [replay_of(run) for run in (first, second)]
    assert np.array_equal(replays[0].counts, replays[1].counts) and replays[0].fresh == replays[1].fresh
    rows = int(min(replays[0].counts.min(), replays[0].rows)) * 4
    for name in replays[0].records.dtype.names:
        assert np.array_equal(replays[0].records[name][:rows], replays[1].records[name][:rows]), name
    assert all(map(np.array_equal, *(replay.choose(16) for replay in replays)))


def matches_of(run: Path) -> list[MatchRecord]:
    return [replace(record, finished_at=0.0) for record in League(run / "league").log.records(counted_only=False)]


@pytest.mark.slow
def test_a_killed_run_resumes_exactly(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/train.py"), *COMMAND, "--env", "NhEnv", "-n", str(12 * ROLLOUT)]
    command += ["-f", str(tmp_path / "killed"), *PARAMS]
    environment, killed = os.environ | {"PYTHONPATH": str(ROOT)}, run_in(tmp_path / "killed")
    # In the middle of rollouts, updates and writing: the buffer has room for 600 records and is full at the second one.
    for steps, more in ((3 * ROLLOUT, 0.0), (7 * ROLLOUT, 0.15), (10 * ROLLOUT, 0.05)):
        process = subprocess.Popen(command, env=environment)
        while not (killed / f"checkpoints/main_{steps}_steps.zip").exists():
            assert process.poll() is None
            time.sleep(0.005)
        time.sleep(more)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, env=environment, check=True)
    assert_same(train(tmp_path / "whole", 12), killed)


@pytest.mark.slow
def test_a_league_resumes_with_the_replay_and_who_sat_opposite(tmp_path: Path) -> None:
    """Both seats of itself, its past selves and a script, whose fights end in the middle of rollouts."""
    (tmp_path / "run.yml").write_text(LEAGUE)
    folders = [tmp_path / "whole", tmp_path / "parts"]
    for folder, lengths in zip(folders, ([5], [2, 3, 5]), strict=True):
        for rollouts in lengths:
            train(folder, rollouts, "NhEnv", "-conf", str(tmp_path / "run.yml"))
    runs = [run_in(folder) for folder in folders]
    assert_same(*runs)
    replays = [replay_of(run) for run in runs]
    names = replays[0].names
    assert names == replays[1].names and np.array_equal(replays[0].present, replays[1].present)
    assert {"self", "scripted"} < {*names} and sum("@" in name for name in names) > 1
    logs = [matches_of(run) for run in runs]
    assert logs[0] == logs[1] and len(logs[0]) > 10


@pytest.mark.slow
def test_other_environments_go_on_with_new_episodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(tmp_path, 2, "CartPole-v1")
    before = replay_of(run)
    with pytest.warns(UserWarning, match="resumes with new episodes"):
        assert train(tmp_path, 4, "CartPole-v1") == run
    model, after = DreamerV3.load(run / "CartPole-v1.zip", device="cpu"), replay_of(run)
    assert model.num_timesteps == 4 * ROLLOUT and model.trained_rollouts == 4
    assert (after.counts - before.counts).sum() > 2 * ROLLOUT
    rows = int(before.counts.min()) * 4
    for name in ("observation/observation", "action/action", "reward"):
        assert np.array_equal(before.records[name][:rows], after.records[name][:rows])
    # One update for each two records, from the first one on.
    assert abs(model.n_updates - (after.counts.sum() - 4 * 8 - 4 * 8) / 2) < 8
    zoo.enjoy(["--algo", "dreamerv3", "--env", "CartPole-v1", "-f", str(tmp_path), "-n", "60", "--no-render"])
    assert "Episode Reward" in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupted_run_goes_on_after_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice in the middle of a rollout, and in its last step: as the run that was not, match by match."""
    (tmp_path / "run.yml").write_text(f"{LEAGUE}  ent_coef: {FALLS}\n")
    conf = "-conf", str(tmp_path / "run.yml")
    whole = train(tmp_path / "whole", 4, "NhEnv", *conf)
    act, run = DreamerV3._act, run_in(tmp_path / "stopped")

    def stop(model: DreamerV3) -> Any:
        if model.num_timesteps == at - 4:
            os.kill(os.getpid(), signal.SIGTERM)  # a shell may have told its background not to heed Ctrl-C
        return act(model)

    for at in (ROLLOUT + 32, ROLLOUT + 64, 2 * ROLLOUT):
        with monkeypatch.context() as patched, pytest.raises(SystemExit):
            patched.setattr(DreamerV3, "_act", stop)
            train(tmp_path / "stopped", 4, "NhEnv", *conf)
        assert (run / f"checkpoints/main_{at}_steps.zip").is_file()
    train(tmp_path / "stopped", 4, "NhEnv", *conf)
    assert_same(whole, run)
    logs = [matches_of(each) for each in (whole, run)]
    assert logs[0] == logs[1] and len(logs[0]) >= 10


@pytest.mark.slow
def test_a_replay_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(*more: str) -> str:
        with pytest.raises(SystemExit):
            train(tmp_path, 4, "NhEnv", *more)
        *_, line = capsys.readouterr().err.strip().splitlines()
        return line

    run = train(tmp_path, 2)
    rows = (run / "replay/rows").read_bytes()
    os.truncate(run / "replay/rows", 1000)
    assert "is damaged: it" in refusal()
    (run / "replay/rows").write_bytes(rows)
    about = (run / "replay/about.json").read_text()
    (run / "replay/about.json").write_text("{")
    assert "about.json: it is damaged" in refusal()
    (run / "replay/about.json").write_text(about.replace('"count": ', '"count": 1'))
    assert "rows of another kind" in refusal()
    (run / "replay/about.json").write_text(about)
    write = os.pwrite

    def full(*given: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        assert "No space left on device" in refusal() and os.pwrite is not write
    train(tmp_path, 3)
    shutil.rmtree(run / "replay")
    with pytest.warns(UserWarning, match="no replay of this run any more"):
        train(tmp_path, 4)
    assert replay_of(run).counts.max() < 2.5 * ROLLOUT / 4


@pytest.mark.slow
def test_a_run_whose_newest_checkpoint_is_damaged_begins_its_replay_anew(tmp_path: Path) -> None:
    run = train(tmp_path, 3)
    os.truncate(run / f"checkpoints/main_{3 * ROLLOUT}_steps.zip", 5000)
    with pytest.warns(RuntimeWarning, match="it is damaged"):
        train(tmp_path, 5)
    assert DreamerV3.load(run / "NhEnv.zip", device="cpu").num_timesteps == 5 * ROLLOUT
    # Three rollouts, as it went on from the end of the second one; each reset is a record too.
    assert 3 * ROLLOUT / 4 <= replay_of(run).counts.max() < 4 * ROLLOUT / 4
