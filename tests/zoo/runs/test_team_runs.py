"""Runs of MAPOCA in the zoo: with the defaults of its file, killed and resumed, swept, and refused in one line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch as th

from sb3_pvp import zoo
from sb3_pvp.algorithms.mapoca import MAPOCA
from sb3_pvp.algorithms.presets import presets
from sb3_pvp.cli import main
from sb3_pvp.matches.curves import find_runs, read_curve
from sb3_pvp.players.league import League
from sb3_pvp.policies.files.model_files import load
from tests.paths import ROOT

GAME, ROLLOUT = "SoccerTwos-v0", 8 * 16
TINY = ["--algo", "mapoca", "--env", GAME, "--seed", "3", "--eval-freq", "-1"]
SETTINGS = {
    "n_envs": 8,
    "n_steps": 16,
    "batch_size": 32,
    "policy_kwargs.net_arch": [16, 16],
    "callback": [
        "sb3_pvp.callbacks.MaskableCheckpointCallback",
        {"sb3_pvp.callbacks.LeagueCallback": {"snapshot_every": 1}},
        {"sb3_pvp.callbacks.SelfPlayCallback": {"self_play": 0.5, "past": 0.5, "match_maker": "window_latest"}},
    ],
}
PARAMS = ["-params", *(f"{name}:{value!r}" for name, value in SETTINGS.items())]


def run_in(logs: Path, number: int = 1) -> Path:
    return logs / f"mapoca/{GAME}_{number}"


def same_weights(*runs: Path) -> bool:
    one, other = (load(run / f"{GAME}.zip") for run in runs)
    parts = other.policy.state_dict()
    return all(th.equal(part, parts[name]) for name, part in one.policy.state_dict().items())


def test_a_run_with_self_play_is_trained_and_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zoo.train([*TINY, "-n", str(3 * ROLLOUT), "-f", str(tmp_path), *PARAMS])
    run = run_in(tmp_path)
    model = load(run / f"{GAME}.zip")
    assert type(model) is MAPOCA and model.num_timesteps == 3 * ROLLOUT and model.game == GAME
    assert [player.step for player in League.existing(run / "league").players()] == [0, ROLLOUT, 2 * ROLLOUT]
    zoo.enjoy(["--algo", "mapoca", "--env", GAME, "-f", str(tmp_path), "-n", "5", "--no-render"])
    file = str(run / f"{GAME}.zip")
    with pytest.raises(SystemExit) as end:
        main(["evaluate", file, "--opponent", file, "--episodes", "2", "--jobs", "1", "--json"])
    assert not end.value.code
    with pytest.raises(SystemExit) as end:
        main(["record", file, "--opponent", "chaser", "-o", str(tmp_path / "game.json")])
    assert not end.value.code and (tmp_path / "game.json").is_file()


@pytest.mark.slow
def test_a_run_with_a_ghost_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    ghost = {"save_steps": 300, "team_change": 900, "swap_steps": 100, "time_horizon": 20}
    callbacks = ["sb3_pvp.callbacks.MaskableCheckpointCallback", {"sb3_pvp.callbacks.GhostSelfPlayCallback": ghost}]
    params = ["-params", *(f"{name}:{value!r}" for name, value in (SETTINGS | {"callback": callbacks}).items())]
    for folder, rollouts in (("whole", 6), ("parts", 3), ("parts", 6)):
        given = [*TINY, "-n", str(rollouts * ROLLOUT), "-f", str(tmp_path / folder), *params]
        zoo.train(
            [*given, *(["--resume", str(run_in(tmp_path / folder))] if rollouts == 6 and folder == "parts" else [])]
        )
    whole, parts = (run_in(tmp_path / folder) for folder in ("whole", "parts"))
    assert same_weights(whole, parts)
    curves = [(run / "ghost_elo.csv").read_text() for run in (whole, parts)]
    assert curves[0] == curves[1] and curves[0].count("\n") == 7
    (run,) = find_runs([str(whole)])
    assert read_curve(run, "ghost_elo").steps.tolist() == [(number + 1) * ROLLOUT for number in range(6)]


@pytest.mark.slow
@pytest.mark.parametrize("actors", [0, 2])
def test_a_killed_run_resumes_exactly(actors: int, tmp_path: Path) -> None:
    options = [*TINY, "-n", str(5 * ROLLOUT), "--actors", str(actors), "--synchronous", *PARAMS]
    command = [sys.executable, str(ROOT / "scripts/train.py"), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    killed = run_in(tmp_path / "killed")
    for rollouts in (1, 3):
        process = subprocess.Popen([*command, "--resume", "-f", str(tmp_path / "killed")], env=environment)
        while not (killed / f"checkpoints/main_{rollouts * ROLLOUT}_steps.zip").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    for folder, resume in (("killed", ["--resume"]), ("whole", [])):
        subprocess.run([*command, *resume, "-f", str(tmp_path / folder)], env=environment, check=True)
    assert same_weights(run_in(tmp_path / "whole"), killed)


def test_presets_name_their_algorithm() -> None:
    of_teams = {name: preset for name, preset in presets().items() if preset.algo == "mapoca"}
    games = "SoccerTwos", "StrikersVsGoalie"
    assert {*of_teams} == {*games, *(f"mapoca-{game}-v0" for game in games)}
    of_models = {name for name, preset in presets().items() if preset.algo == "dreamerv3"}
    assert of_models == {"Atari", "Crafter", "DmControl", "MiniGrid", "ScreenGalagaDreamer", "VizDoom"}
    others = presets().keys() - of_teams - of_models
    assert others and all(presets()[name].algo == "maskable_ppo" for name in others)


@pytest.mark.slow
def test_a_sweep_varies_what_mapoca_has(tmp_path: Path) -> None:
    options = ["--n-trials", "2", "--n-jobs", "1", "--study-name", "s", "--storage", f"sqlite:///{tmp_path}/s.db"]
    options += ["--reference-pool", "chaser", "--reference-fights", "2"]
    zoo.train([*TINY, "-n", str(2 * ROLLOUT), "-optimize", *options, "-f", str(tmp_path), *PARAMS])
    import optuna

    trials = optuna.load_study(study_name="s", storage=f"sqlite:///{tmp_path}/s.db").trials
    assert len(trials) == 2 and all(trial.value is not None for trial in trials)
    assert {"net_arch", "learning_rate", "ent_coef", "clip_range", "n_epochs"} <= trials[1].params.keys()
    assert not {"head_arch", "activation", "damage_dealt"} & trials[1].params.keys()


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--env", "NhEnv"], ""),
        (["--env", "StrikersVsGoalie-v0", "-params", "policy_kwargs:{'net_arch': [8]}"], "do not see or do the same"),
        (["--env", GAME, "-params", "policy_kwargs:{'net_arch': [16, 8]}"], "equal multiples of 4"),
        (["--env", GAME, "-params", "policy:'MlpPolicy'"], "unknown policy 'MlpPolicy'.*MAPOCAPolicy"),
        (["--env", GAME, "-params", "max_grad_norm:0.5"], "MAPOCA has no max_grad_norm: leave it out"),
        (["--env", GAME, "-params", "clip_losses:True"], "unknown hyperparameter 'clip_losses'"),
    ],
)
def test_impossible_settings_are_one_line(
    options: list[str], fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given: Any = ["--algo", "mapoca", "-n", "16", "-f", str(tmp_path / "logs"), "--eval-freq", "-1", *options]
    if not fault:
        small = ["-params", "n_envs:2", "n_steps:8", "batch_size:8", "policy_kwargs:{'net_arch': [8]}"]
        with pytest.warns(UserWarning, match="NhEnv has no agents: MAPOCA takes each side as one large agent"):
            zoo.train([*given, *small])
        return
    with pytest.raises(SystemExit) as end:
        zoo.train(given)
    error = capsys.readouterr().err
    assert end.value.code == 2 and error.count("\n") == 1
    assert re.search(fault, error), error
    assert not (tmp_path / "logs").exists()
