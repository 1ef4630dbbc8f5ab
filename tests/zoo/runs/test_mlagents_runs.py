"""Runs as users of Unity's ML-Agents know them: by a trainer file, stopped once or twice, begun with other weights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
import yaml

from sb3_pvp import zoo
from sb3_pvp.algorithms.mapoca import MAPOCA
from sb3_pvp.callbacks import MaskableCheckpointCallback
from sb3_pvp.callbacks.training_status import STATUS, read_status
from sb3_pvp.envs.fights import Fights
from sb3_pvp.policies.files.model_files import load_opponent
from sb3_pvp.zoo.runs.changes import changes_between
from tests.paths import ROOT

GAME, ROLLOUT = "SoccerTwos-v0", 64 * 2
TRAINER: dict[str, Any] = {
    "trainer_type": "poca",
    "hyperparameters": {"batch_size": 64, "buffer_size": 2 * ROLLOUT, "num_epoch": 1, "learing_rate": 1},
    "network_settings": {"hidden_units": 8, "num_layers": 1},
    "max_steps": 3 * 2 * ROLLOUT,
    "checkpoint_interval": 2 * ROLLOUT,
    "keep_checkpoints": 2,
}
COMMON = ["--seed", "3", "--eval-freq", "-1", "--actors", "0"]
OBSERVATIONS = 10_000


def trainer_file(folder: Path, **changes: Any) -> str:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"behaviors": {"SoccerTwos": {**TRAINER, **changes}}}))
    return str(path)


def run_in(logs: Path, number: int = 1) -> Path:
    return logs / f"mapoca/{GAME}_{number}"


def assert_same_actions(run: Path) -> None:
    """The zip and the graph of a run decide alike, whatever a team sees."""
    model, opponent = MAPOCA.load(run / f"{GAME}.zip"), load_opponent(run / f"{GAME}.onnx")
    contract = model.policy.team_contract
    opponent.check(contract)
    rng = np.random.default_rng(0)
    seen = rng.standard_normal((OBSERVATIONS, 1, contract.num_observations), np.float32)
    masks = rng.random((OBSERVATIONS, contract.num_flat_actions)) < 0.8
    masks[:, contract.head_offsets[:-1]] = True
    wanted, _ = model.predict({"observation": seen, "action_mask": masks.astype(np.int8)}, deterministic=True)  # type: ignore[arg-type]
    state, begins = opponent.initial_state(range(OBSERVATIONS)), np.zeros(OBSERVATIONS, bool)
    decided, _ = opponent.predict(seen, state, begins, True, masks)
    assert np.array_equal(decided, wanted) and len(np.unique(wanted, axis=0)) > 50


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log folder of a whole run by a trainer file."""
    logs = tmp_path_factory.mktemp("logs")
    zoo.train(["--mlagents", trainer_file(logs), "-f", str(logs), *COMMON])
    return logs


def test_a_trainer_file_trains_by_one_command(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_in(finished)
    model = MAPOCA.load(run / f"{GAME}.zip")
    assert model.num_timesteps == 3 * ROLLOUT and model.trained_rollouts == 3
    assert_same_actions(run)


def test_its_status_is_that_of_ml_agents(finished: Path) -> None:
    run = run_in(finished)
    content = json.loads((run / "run_logs" / "training_status.json").read_text())
    assert [*content] == ["SoccerTwos", "metadata"]
    metadata = {"stats_format_version": "0.3.0", "mlagents_version": "1.1.0", "torch_version": th.__version__}
    assert content["metadata"] == metadata
    names = {"steps", "file_path", "reward", "creation_time", "auxillary_file_paths"}
    saved, final = content["SoccerTwos"]["checkpoints"], content["SoccerTwos"]["final_checkpoint"]
    assert all(each.keys() == names for each in (*saved, final))
    assert [each["steps"] for each in saved] == [2 * 2 * ROLLOUT, 3 * 2 * ROLLOUT]  # of agents; two files are kept
    assert [each["file_path"] for each in saved] == [f"checkpoints/main_{n * ROLLOUT}_steps.zip" for n in (2, 3)]
    assert final["file_path"] == f"{GAME}.onnx" and final["auxillary_file_paths"] == [f"{GAME}.zip"]
    status = read_status(run / STATUS)["SoccerTwos"]
    assert status.steps == 3 * 2 * ROLLOUT and status.elo is None
    assert status.newest_file(run) == run / f"{GAME}.onnx"


def test_the_preset_that_ships_trains_and_tells_its_elo(tmp_path: Path) -> None:
    small = ["-params", "n_envs:8", "n_steps:16", "batch_size:32", "policy_kwargs.net_arch:[8, 8]"]
    zoo.train(["--preset", "SoccerTwos", *small, "-n", str(2 * ROLLOUT), "-f", str(tmp_path), *COMMON])
    run = run_in(tmp_path)
    status = read_status(run / STATUS)["SoccerTwos"]
    assert status.steps == 2 * 2 * ROLLOUT and len(status.checkpoints) == 1  # the last one
    assert status.elo is not None and 1100 < status.elo < 1300
    assert_same_actions(run)


def start(logs: Path, *words: str) -> subprocess.Popen[str]:
    """Starts a training in a group of its own, where Ctrl-C is not ignored, as it is in the background of shells."""
    return subprocess.Popen(
        [sys.executable, "-m", "sb3_pvp.cli", "train", *words, "-f", str(logs), *COMMON],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 300
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_is_stopped_leaves_a_zip_and_a_graph(number: signal.Signals, tmp_path: Path) -> None:
    words = ["--mlagents", trainer_file(tmp_path, max_steps=10**9)]
    process = start(tmp_path, *words)
    try:
        wait_for(run_in(tmp_path) / f"checkpoints/main_{2 * ROLLOUT}_steps.zip", process)
        os.killpg(process.pid, number)
        said = process.communicate(timeout=300)[1]
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in said and "stopped; resume after" in said
    check_stopped(tmp_path, words)


def test_a_signal_leaves_a_zip_and_a_graph_that_act_alike_and_resuming_is_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--mlagents", trainer_file(tmp_path, max_steps=10**9)]
    step, newest = Fights.step, run_in(tmp_path) / f"checkpoints/main_{2 * ROLLOUT}_steps.zip"

    def stepping(*given: Any) -> None:
        if newest.exists():
            signal.raise_signal(signal.SIGINT)
        step(*given)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch, pytest.raises(SystemExit, match="130"):
            patch.setattr(Fights, "step", stepping)
            zoo.train([*words, "-f", str(tmp_path), *COMMON])
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.startswith(f"train: stopped; resume after {2 * ROLLOUT} steps")
    check_stopped(tmp_path, words)


def check_stopped(tmp_path: Path, words: list[str]) -> None:
    """What a stopped run leaves acts alike, and resumed it becomes what it would have been."""
    run = run_in(tmp_path)
    assert_same_actions(run)
    status = read_status(run / STATUS)["SoccerTwos"]
    assert status.final is not None and status.final.steps == 2 * MAPOCA.load(run / f"{GAME}.zip").num_timesteps
    stopped = status.steps // 2 // ROLLOUT
    logs = {"resumed": tmp_path, "whole": tmp_path / "whole"}
    steps = ["-n", str((stopped + 1) * ROLLOUT)]
    for name, resume in (("resumed", ["--resume", str(run)]), ("whole", [])):
        zoo.train([*words, *resume, *steps, "-f", str(logs[name]), *COMMON])
    one, other = (MAPOCA.load(run_in(each) / f"{GAME}.zip").policy.state_dict() for each in logs.values())
    assert all(th.equal(part, other[name]) for name, part in one.items())


@pytest.mark.parametrize("place", ["in a step", "in the export"])
def test_a_second_ctrl_c_stops_at_once_and_leaves_the_zip(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps: list[str] = []
    step, export = Fights.step, MaskableCheckpointCallback.finish

    def stepping(*given: Any) -> None:
        steps.append("step")
        if len(steps) == 3:
            for _ in range(2 if place == "in a step" else 1):
                signal.raise_signal(signal.SIGINT)
        step(*given)

    def exporting(*given: Any) -> None:
        steps.append("export")
        signal.raise_signal(signal.SIGTERM)  # as a second one to the whole group
        signal.raise_signal(signal.SIGINT)
        export(*given)

    monkeypatch.setattr(Fights, "step", stepping)
    monkeypatch.setattr(MaskableCheckpointCallback, "finish", exporting)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as end:
            zoo.train(["--mlagents", trainer_file(tmp_path), "-f", str(tmp_path), *COMMON])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    run = run_in(tmp_path)
    assert end.value.code == 130 and capsys.readouterr().err.startswith(f"train: stopped; resume after {ROLLOUT} steps")
    assert (run / f"{GAME}.zip").is_file() and not (run / f"{GAME}.onnx").exists()
    assert steps[2:] == (["step"] if place == "in a step" else ["step", "export"])


def weights_of(model: Path) -> dict[str, th.Tensor]:
    parts: dict[str, th.Tensor] = MAPOCA.load(model).policy.state_dict()
    return parts


def test_a_run_begins_with_the_weights_of_another_and_counts_from_0(finished: Path, tmp_path: Path) -> None:
    words = ["--mlagents", trainer_file(tmp_path), "-f", str(tmp_path), *COMMON]
    source = run_in(finished)
    for number, (wanted, file) in enumerate(
        ((str(source), f"{GAME}.zip"), (f"{source}@{2 * ROLLOUT}", f"checkpoints/main_{2 * ROLLOUT}_steps.zip")), 1
    ):
        zoo.train([*words, "--initialize-from", wanted])
        begun, ended = (MAPOCA.load(run_in(tmp_path, number) / name) for name in ("initial_model.zip", f"{GAME}.zip"))
        assert (begun.num_timesteps, begun.trained_rollouts) == (0, 0)
        assert (ended.num_timesteps, ended.trained_rollouts) == (3 * ROLLOUT, 3)
        own = begun.policy.state_dict()
        assert all(th.equal(part, own[name]) for name, part in weights_of(source / file).items())
    assert sorted(path.name for path in (run_in(tmp_path) / "checkpoints").iterdir()) == [
        f"main_{rollouts * ROLLOUT}_steps.zip" for rollouts in (2, 3)
    ]


def test_changed_hyperparameters_are_told_and_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_in(tmp_path)

    def train(rollouts: int, *words: str, **changes: Any) -> tuple[int, str, str]:
        capsys.readouterr()
        code = 0
        given = ["--mlagents", trainer_file(tmp_path, **changes), "-n", str(rollouts * ROLLOUT), "-f", str(tmp_path)]
        try:
            zoo.train([*given, *COMMON, *words])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    assert train(1)[0] == 0
    shared = TRAINER["hyperparameters"]
    other = {"hyperparameters": {**shared, "learning_rate": 0.5, "learning_rate_schedule": "constant", "num_epoch": 2}}
    code, _, error = train(2, "--resume", str(run), **other)
    assert code == 2 and error.count("\n") == 1 and "n_epochs: 1 -> 2" in error and "add --changed" in error
    code, output, _ = train(2, "--resume", str(run), "--changed", **other)
    told = [line.removeprefix("Changed ") for line in output.splitlines() if line.startswith("Changed ")]
    assert (
        code == 0
        and len(told) == 4
        and "n_epochs: 1 -> 2" in told
        and told[2].endswith("'initial_value': 0.0003, 'type': 'linear'} -> 0.5")
    )
    model = MAPOCA.load(run / f"{GAME}.zip")
    assert (model.num_timesteps, model.n_epochs) == (2 * ROLLOUT, 2)
    assert model.policy.optimizer.param_groups[0]["lr"] == 0.5 and not model.schedules
    # What it goes on with is what it has from then on.
    assert train(3, "--resume", str(run), **other)[0] == 0
    code, _, error = train(4, "--resume", str(run), "--changed", network_settings={"hidden_units": 16})
    assert code == 2 and "policy_kwargs cannot change when a run is resumed" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--changed"], "--changed is for --resume"),
        (["--initialize-from", "{run}", "-i", "{run}"], "take one of them"),
        (["--initialize-from", "{run}@7"], "has no checkpoint after 7 steps; it has 256, 384"),
        (["--initialize-from", "{logs}"], "has no model: give the folder of a run"),
        (["--initialize-from", "{logs}/nothing.zip"], "nothing.zip"),
        (["--mlagents", "{logs}/nothing.yaml"], "nothing.yaml"),
        (["--mlagents", "{logs}/config.yaml", "--preset", "SoccerTwos"], "leave one of them out"),
    ],
)
def test_impossible_options_are_one_line(
    words: list[str], said: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.format(run=run_in(finished), logs=finished) for word in words]
    with pytest.raises(SystemExit) as end:
        zoo.train(["--algo", "mapoca", "--env", GAME, "-f", str(tmp_path / "logs"), *COMMON, *given])
    error = capsys.readouterr().err
    assert end.value.code == 2 and error.count("\n") == 1 and said in error, error
    assert not (tmp_path / "logs").exists()


def test_a_change_is_of_a_setting_and_not_of_all_around_it() -> None:
    name = "sb3_pvp.callbacks.MaskableCheckpointCallback"
    before = {
        "gamma": 0.9,
        "policy_kwargs": {"net_arch": [8], "shared": True},
        "callback": [{name: {"keep": 2}}, "x.Y"],
    }
    now = {"policy_kwargs": {"net_arch": [8, 8], "shared": True}, "callback": [{name: {"keep": 3}}], "n_steps": 4}
    assert [str(each) for each in changes_between(before, now)] == [
        "gamma: 0.9 -> none",
        "policy_kwargs.net_arch: [8] -> [8, 8]",
        "callback.MaskableCheckpointCallback.keep: 2 -> 3",
        "callback.x.Y: True -> none",
        "n_steps: none -> 4",
    ]
    assert changes_between(before, before) == []
