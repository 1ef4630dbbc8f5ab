"""Hyperparameter sweeps through the front end: trials that train and fight, and what is done with what they found."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
import torch
import yaml
from optuna.trial import TrialState
from sb3_contrib.common.envs import InvalidActionEnvDiscrete
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp import zoo
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.common.worker_pool import WorkerPool
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.players.league import League
from sb3_pvp.zoo.sweeps.study import SEED, best_configuration
from tests.zoo.sweeps.tiny_sweeps import STEPS, results, retrain, run_sweep, study_in

REWARDS = zoo.find_preset("NhEnv").hyperparams()["env_kwargs"]["rewards"]
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep of four trials, of which all files were kept."""
    folder = tmp_path_factory.mktemp("swept")
    journal, trials = str(folder / "sweep.log"), str(folder / "trials")
    run_sweep(folder, 3, "--storage", journal, "--seed", "5", "--optimization-log-path", trials, "--pruner", "none")
    # The same command with more trials resumes the study; its first seed stays.
    run_sweep(folder, 4, "--storage", journal, "--seed", "6", "--optimization-log-path", trials, "--pruner", "none")
    return folder


def same_weights(first: PvpPPO, second: PvpPPO) -> bool:
    states = [model.policy.state_dict() for model in (first, second)]
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_trials_are_measured_and_reported(swept: Path) -> None:
    study = study_in(swept / "sweep.log")
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 4
    assert len({str(trial.params) for trial in study.trials}) == 4
    for trial in study.trials:
        assert set(trial.intermediate_values) == {1, 2}
        assert trial.value == trial.intermediate_values[2]
        assert trial.value * 2 in (0, 1, 2), "two fights against one opponent"
    report = swept / "logs/maskable_ppo/sweep_maskable_ppo-NhEnv"
    assert {path.name for path in report.iterdir()} == {"trials.csv", "best.yml"}
    assert len((report / "trials.csv").read_text().splitlines()) == 5
    assert (report / "best.yml").read_text() == best_configuration(study)[1]
    assert not list((swept / "logs/maskable_ppo").glob("NhEnv_*")), "no folder of a run that never was"


@pytest.mark.parametrize("number", [0, 2])
def test_a_trial_is_trained_again_by_its_number(swept: Path, tmp_path: Path, number: int) -> None:
    trial = study_in(swept / "sweep.log").trials[number]
    (tmp_path / "trial.yml").write_text(best_configuration(study_in(swept / "sweep.log"), number, STEPS)[1])
    given = ["-conf", str(tmp_path / "trial.yml"), "--seed", str(trial.user_attrs[SEED])]
    model, config = retrain(tmp_path, *given)
    assert config["n_steps"] == trial.params["n_steps"]
    assert config["policy_kwargs"]["net_arch"] == [int(size) for size in trial.params["net_arch"].split("x")]
    assert config["env_kwargs"]["rewards"] == {**REWARDS, "damage_dealt": trial.params["damage_dealt"]}
    assert config["env_kwargs"]["reset_params"]["randomizeBuild"] is True, "what is not varied stays"
    (before,) = (swept / f"trials/trial_{number}").rglob("NhEnv.zip")
    assert same_weights(model, PvpPPO.load(before))


def test_the_winner_is_trained_from_its_file(swept: Path, tmp_path: Path) -> None:
    best = study_in(swept / "sweep.log").best_trial
    file = swept / "logs/maskable_ppo/sweep_maskable_ppo-NhEnv/best.yml"
    seed = str(best.user_attrs[SEED])
    model, config = retrain(tmp_path / "long", "-conf", str(file), "-n", str(STEPS), "--seed", seed)
    assert config["n_timesteps"] == 4_000_000, "the configuration is for as long a run as that it came from"
    assert model.num_timesteps == STEPS
    short = tmp_path / "best.yml"
    short.write_text(best_configuration(study_in(swept / "sweep.log"), n_timesteps=STEPS)[1])
    model, _ = retrain(tmp_path / "short", "-conf", str(short), "--seed", seed)
    (before,) = (swept / f"trials/trial_{best.number}").rglob("NhEnv.zip")
    assert same_weights(model, PvpPPO.load(before))


@pytest.mark.slow
def test_a_sweep_is_reproducible(swept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "again.log"
    run_sweep(tmp_path, 3, "--storage", str(journal), "--seed", "5", "--pruner", "none", "--verbose", "1")
    assert results(study_in(journal).trials) == results(study_in(swept / "sweep.log").trials[:3])
    output = capsys.readouterr().out
    assert all(f"[{number + 1} of 3] Trial {number}: win rate " in output for number in range(3))


@pytest.mark.slow
def test_trials_in_several_processes(
    swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--storage", str(tmp_path / "s.log"), "--seed", "5", "--pruner", "none", "--n-jobs", "2"]
    stream = WorkerPool.stream

    def interrupted(pool: WorkerPool, function: Any, parts: Any) -> Iterator[str]:
        for number, text in enumerate(stream(pool, function, parts)):
            if number == 1:
                raise KeyboardInterrupt
            yield text

    with monkeypatch.context() as patch, pytest.raises(SystemExit, match="130"):
        patch.setattr(WorkerPool, "stream", interrupted)
        run_sweep(tmp_path, 6, *given)
    output = capsys.readouterr()
    assert "Trials in 2 processes, see --n-jobs" in output.out
    assert "stopped; the same command resumes the study" in output.err and "Traceback" not in output.err
    stopped = study_in(tmp_path / "s.log").trials
    assert not any(trial.state is TrialState.RUNNING for trial in stopped), "what was running has failed, and is queued"
    run_sweep(tmp_path, 6, *given[:-1], "1")
    trials = study_in(tmp_path / "s.log").trials
    finished = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    assert len(finished) == 6 and len({str(trial.params) for trial in finished}) == 6
    (first,) = (trial for trial in finished if trial.params == study_in(swept / "sweep.log").trials[0].params)
    assert first.intermediate_values == study_in(swept / "sweep.log").trials[0].intermediate_values
    assert (tmp_path / "logs/maskable_ppo/sweep_maskable_ppo-NhEnv/trials.csv").is_file()


def test_only_legal_actions_are_sent(strict: list[int], tmp_path: Path) -> None:
    run_sweep(tmp_path, 1)
    assert set(strict) == {4, 2}, "training in four fights, and two fights of evaluation"


SELF_PLAY = """\
n_steps: {choices: [4]}
net_arch: {choices: ["4"]}
self_play: {low: 0.4}
past: {}
"""


@pytest.mark.slow
def test_trials_of_self_play_have_leagues_of_their_own(tmp_path: Path) -> None:
    kept = ["--optimization-log-path", str(tmp_path / "trials"), "--storage", str(tmp_path / "s.log")]
    run_sweep(tmp_path, 2, *kept, "--pruner", "none", space=SELF_PLAY, preset="DharokPastSelfPlay")
    for trial in study_in(tmp_path / "s.log").trials:
        run = tmp_path / f"trials/trial_{trial.number}/maskable_ppo/DharokEnv_1"
        assert {player.step for player in League.existing(run / "league").players()} >= {0}
        config = yaml.safe_load((tmp_path / f"trials/trial_{trial.number}/hyperparameters.yml").read_text())
        (options,) = (each for each in config["DharokEnv"]["callback"] if "SelfPlayCallback" in str(each))
        shares = options["sb3_pvp.callbacks.SelfPlayCallback"]
        assert shares["self_play"] in (0.5, 1.0)
        assert 0 <= shares["past"] <= 1 - shares["self_play"]


@pytest.mark.slow
def test_a_trial_without_a_chance_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([1.0, 1.0, 1.0, 1.0, 0.0])
    monkeypatch.setattr("sb3_pvp.zoo.sweeps.sweep.win_rates", lambda *_: {"sweep/win_rate": next(rates)})
    run_sweep(tmp_path, 3, "--storage", str(tmp_path / "s.log"))
    trials = study_in(tmp_path / "s.log").trials
    assert [trial.state for trial in trials] == [TrialState.COMPLETE, TrialState.COMPLETE, TrialState.PRUNED]
    assert trials[2].intermediate_values == {1: 0.0}


def test_a_trial_ends_when_its_cpu_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def spend(seconds: float, result: Any = None) -> Any:
        clock[0] += seconds
        return result

    train = PvpPPO.train
    monkeypatch.setattr("sb3_pvp.zoo.sweeps.objectives.time.process_time", lambda: clock[0])
    monkeypatch.setattr(PvpPPO, "train", lambda model: spend(10, train(model)))
    rates = "sb3_pvp.zoo.sweeps.sweep.win_rates"
    monkeypatch.setattr(rates, lambda *_: spend(1000, {"sweep/win_rate": clock[0] / 1e6}))
    given = ["--storage", str(tmp_path / "s.log"), "--pruner", "none", "--trial-cpu-seconds", "20"]
    run_sweep(tmp_path, 1, *given, space="n_steps: {choices: [4]}\nclip_range: {}\n")
    (trial,) = study_in(tmp_path / "s.log").trials
    assert trial.user_attrs["steps"] == 32 + 4, "two rollouts of 4 x 4, 10 s each, and a step, instead of 96"
    assert set(trial.intermediate_values) == {1, 2}, "evaluations, which do not count, are spread over the time"
    assert "after 36 steps" in best_configuration(study_in(tmp_path / "s.log"))[1]
    with pytest.raises(SystemExit):  # all trials of a study have the same limit
        run_sweep(tmp_path, 2, *given[:-1], "30", space="n_steps: {choices: [4]}\nclip_range: {}\n")


@pytest.mark.slow
def test_hyperband(tmp_path: Path) -> None:
    run_sweep(tmp_path, 3, "--pruner", "hyperband", "--storage", str(tmp_path / "s.log"), "--sampler", "random")
    assert {trial.state for trial in study_in(tmp_path / "s.log").trials} <= set(FINISHED)


def break_learning(monkeypatch: pytest.MonkeyPatch, error: Exception, diverges: bool = False, after: int = 0) -> None:
    """Lets learning fail after some rollouts, with NaN weights if it diverges."""
    train, calls = PvpPPO.train, [0]

    def broken(model: PvpPPO) -> None:
        train(model)
        calls[0] += 1
        if calls[0] > after:
            if diverges:
                next(model.policy.parameters()).data.fill_(np.nan)
            raise error

    monkeypatch.setattr(PvpPPO, "train", broken)


def test_an_error_is_shown_and_is_no_bad_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_learning(monkeypatch, ValueError("the sky is falling"))
    with pytest.raises(ValueError, match="the sky is falling"):
        run_sweep(tmp_path, 3, "--storage", str(tmp_path / "s.log"))
    assert [trial.state for trial in study_in(tmp_path / "s.log").trials] == [TrialState.FAIL]
    monkeypatch.undo()
    run_sweep(tmp_path, 1, "--storage", str(tmp_path / "s.log"))
    assert study_in(tmp_path / "s.log").trials[1].state is TrialState.COMPLETE


@pytest.mark.slow
def test_a_later_error_is_shown_and_the_sweep_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    space = "n_steps: {choices: [8]}\nnet_arch: {choices: ['4']}\nclip_range: {}"
    break_learning(monkeypatch, ValueError("the sky is falling"), after=3)  # rollouts of the first trial
    with pytest.raises(ValueError, match="falling"):
        run_sweep(tmp_path, 3, "--storage", str(tmp_path / "s.log"), space=space)
    states = [trial.state for trial in study_in(tmp_path / "s.log").trials]
    assert states == [TrialState.COMPLETE, TrialState.FAIL, TrialState.FAIL], "more failed than were completed"
    assert "the sky is falling" in capsys.readouterr().err


@pytest.mark.slow
def test_divergence_is_a_bad_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_learning(monkeypatch, ValueError("nan in the logits"), diverges=True)
    run_sweep(tmp_path, 2, "--storage", str(tmp_path / "s.log"))
    assert [trial.state for trial in study_in(tmp_path / "s.log").trials] == [TrialState.PRUNED] * 2


class Remembering(BaseCallback):
    """Remembers which instances were created, and for which training ended."""

    begun: ClassVar[list[Remembering]] = []
    ended: ClassVar[list[Remembering]] = []

    def _on_training_start(self) -> None:
        self.begun.append(self)

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self.ended.append(self)


@pytest.mark.slow
def test_callbacks_are_new_in_every_trial_and_cleaned_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_learning(monkeypatch, ValueError("nan in the logits"), diverges=True)
    preset = tmp_path / "mine.yml"
    callbacks = ["sb3_pvp.callbacks.FightMetricsCallback", f"{__name__}.Remembering"]
    preset.write_text(yaml.safe_dump({"NhEnv": {**zoo.find_preset("NhEnv").hyperparams(), "callback": callbacks}}))
    run_sweep(tmp_path, 2, preset=str(preset))
    assert len(Remembering.begun) == 2
    assert set(Remembering.begun) == set(Remembering.ended)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "train: stopped; the same command resumes the study in its --storage"),
        (EOFError(), 1, "the process of an environment has ended"),
    ],
)
def test_an_interrupted_trial_is_done_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    said: str,
) -> None:
    given = ["--storage", str(tmp_path / "s.log"), "--seed", "5"]
    with monkeypatch.context() as patch, pytest.raises(SystemExit, match=str(code)):
        break_learning(patch, error, after=1)
        run_sweep(tmp_path, 1, *given)
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "logs").exists()
    run_sweep(tmp_path, 1, *given)
    first, second = study_in(tmp_path / "s.log").trials
    assert (first.state, second.state) == (TrialState.FAIL, TrialState.COMPLETE)
    assert (first.params, first.user_attrs[SEED]) == (second.params, second.user_attrs[SEED])


def test_what_a_sweep_without_storage_has_found_is_reported_when_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    space = "n_steps: {choices: [8]}\nnet_arch: {choices: ['4']}\nclip_range: {}"
    break_learning(monkeypatch, KeyboardInterrupt(), after=3)  # rollouts of the first trial
    with pytest.raises(SystemExit, match="130"):
        run_sweep(tmp_path, 3, space=space)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "train: stopped; only a study in a --storage can be resumed"
    assert list((tmp_path / "logs").rglob("best.yml"))


def open_things() -> tuple[int, int]:
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files in /proc")
@pytest.mark.parametrize("n_trials", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_nothing_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_trials: int) -> None:
    run_sweep(tmp_path, 1)
    made: list[PvpVecEnv] = []
    init = PvpVecEnv.__init__
    monkeypatch.setattr(PvpVecEnv, "__init__", lambda env, *a, **k: (made.append(env), init(env, *a, **k))[1])
    closed: list[PvpVecEnv] = []
    close = PvpVecEnv.close
    monkeypatch.setattr(PvpVecEnv, "close", lambda env: (closed.append(env), close(env))[1])
    before = open_things()
    run_sweep(tmp_path, n_trials)
    assert open_things() == before
    assert len(made) == 2 * n_trials
    assert set(map(id, made)) == set(map(id, closed))


class MaskedGame(InvalidActionEnvDiscrete):
    """A game of another package."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(dim=4, n_invalid_actions=1)


@pytest.mark.slow
def test_games_of_others_are_measured_by_their_rewards(tmp_path: Path) -> None:
    if "MaskedGame" not in gymnasium.registry:
        gymnasium.register("MaskedGame", entry_point=MaskedGame)
    config = tmp_path / "game.yml"
    config.write_text("MaskedGame: {n_envs: 2, n_timesteps: 64, policy: MlpPolicy, n_steps: 16, batch_size: 16}")
    game = ["--algo", "maskable_ppo", "--env", "MaskedGame", "-conf", str(config), "-f", str(tmp_path), "-optimize"]
    space = tmp_path / "space.yml"
    space.write_text("n_steps: {choices: [8, 16]}\nnet_arch: {choices: ['4']}\nlearning_rate: {}")
    game += ["--search-space", str(space), "--n-trials", "2", "--storage", str(tmp_path / "s.log"), "--verbose", "0"]
    zoo.train([*game, "--no-optim-plots", "--eval-episodes", "2"])
    trials = study_in(tmp_path / "s.log").trials
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 2
    assert all(0 <= trial.value <= 100 for trial in trials)


def test_the_help_names_what_rl_zoo3_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        zoo.train(["--help"])
    text = capsys.readouterr().out
    for option in ("--preset", "--reference-pool", "--search-space", "hyperband", "--n-trials"):
        assert option in text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--reference-pool", "nop"], "did you mean 'noop'"),
        (["--reference-pool", "noop", "noop"], "need different names"),
        (["--reference-pool", "gone.zip"], "gone.zip"),
        (["--storage", "s.log", "--distribute", "2"], "is this command on each of them, without --distribute"),
        (["--reference-fights", "0"], "--reference-fights must be at least 1, got 0"),
        (["--pruner", "medan"], "invalid choice: 'medan' (choose from 'halving', 'median', 'hyperband', 'none')"),
        (["--search-space", "gone.yml"], "gone.yml"),
        (["--storage", "x.txt"], "--storage must be a journal"),
        (["--n-jobs", "0"], "--n-jobs must be at least 1, got 0"),
        (["--n-trials", "0"], "--n-trials must be at least 1, got 0"),
        (["--max-total-trials", "0"], "--max-total-trials must be at least 1, got 0"),
        (["--n-evaluations", "0"], "--n-evaluations must be at least 1, got 0"),
        (["--n-evaluations", "-1"], "--n-evaluations must be at least 1, got -1"),
        (["--n-startup-trials", "-1"], "--n-startup-trials must be at least 0, got -1"),
        (["--storage", "SWEPT", "--reference-fights", "3"], "measure.fights = 2, not 3: choose another --study-name"),
        (["--storage", "SWEPT", "-n", "32"], "n_timesteps = 96, not 32"),
    ],
)
def test_impossible_sweeps_are_one_line(
    swept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    journal = str(swept / "sweep.log")
    before = Path(journal).read_bytes()
    with pytest.raises(SystemExit, match="2"):
        run_sweep(tmp_path, 5, *(journal if each == "SWEPT" else each for each in more))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("train: error: ") and message in line
    assert not (tmp_path / "logs").exists()
    assert Path(journal).read_bytes() == before


def test_a_trial_is_not_trained_by_its_number_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        retrain(tmp_path, "--storage", "sweep.log", "--trial-id", "0")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("train: error: ") and "sb3-pvp sweep best STORAGE --trial-id 0 -o trial.yml" in line
    assert not (tmp_path / "maskable_ppo").exists()
