from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from gymnasium import spaces

from benchmarks.__main__ import main
from benchmarks.learning_curves import VARIANTS, Budget, CurveRun, callback
from benchmarks.learning_curves.curves import Curve, read_curves, table
from benchmarks.learning_curves.records import Evaluation, append_evaluation, read_evaluations
from benchmarks.learning_curves.variants import vary
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.matches.evaluation import Score

pytestmark = pytest.mark.slow  # each trains

STEPS = 4 * 16  # of a rollout
TINY = {"n_envs": 4, "n_steps": 16, "batch_size": 32, "n_epochs": 1}
ROLLOUT = 1 / 60  # minutes of a rollout on the clock of the tests
BUDGET = Budget(cpu_minutes=6 * ROLLOUT, evaluate_every=ROLLOUT, checkpoint_every=2 * ROLLOUT, fights=4)


@pytest.fixture(autouse=True)
def one_second_a_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by a second with every update."""
    seconds, train = [0], PvpPPO.train

    def timed_train(model: PvpPPO) -> None:
        train(model)
        seconds[0] += 1

    monkeypatch.setattr(PvpPPO, "train", timed_train)
    monkeypatch.setattr(callback, "cpu_seconds", lambda: float(seconds[0]))
    monkeypatch.setattr(callback, "time", SimpleNamespace(perf_counter=lambda: 2.0 * seconds[0]))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations that play no fights; they use up random numbers and their result depends on the weights."""

    def evaluate(model: PvpPPO, env: Any, fights: int) -> Score:
        torch.rand(1)
        return Score(wins=int(1e6 * weights_of(model).std()) % 100, losses=50, ticks=fights)

    monkeypatch.setattr(callback, "evaluate_model", evaluate)


def run(*arguments: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["learning_curves", *arguments])
    assert exit_info.value.code == code


def steps_and_seconds(folder: Path) -> list[tuple[int, float]]:
    return [(evaluation.steps, evaluation.cpu_s) for evaluation in read_evaluations(folder)]


def weights_of(model: PvpPPO) -> Any:
    return np.concatenate([tensor.detach().numpy().ravel() for tensor in model.policy.state_dict().values()])


def weights(folder: Path) -> Any:
    return weights_of(PvpPPO.load(folder / "checkpoint.zip"))


@pytest.mark.usefixtures("quick")
def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, broken = (CurveRun(tmp_path / name, seed=3, changes=TINY) for name in ("whole", "broken"))
    whole.train(BUDGET)
    evaluate = callback.evaluate_model

    def killed(model: Any, *arguments: Any) -> Score:
        if model.num_timesteps == 4 * STEPS:
            raise KeyboardInterrupt
        return evaluate(model, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(callback, "evaluate_model", killed)
        with pytest.raises(KeyboardInterrupt):
            broken.train(BUDGET)
    # Three rollouts were evaluated, two of them are in the checkpoint.
    assert len(read_evaluations(broken.folder)) == 4
    assert PvpPPO.load(broken.folder / "checkpoint.zip").trained_rollouts == 2
    broken.train(BUDGET)
    assert steps_and_seconds(broken.folder) == [(rollout * STEPS, rollout) for rollout in range(7)]
    assert read_evaluations(broken.folder) == read_evaluations(whole.folder)
    assert np.array_equal(weights(whole.folder), weights(broken.folder))


def test_a_finished_run_can_be_prolonged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--out", str(tmp_path), "--hyperparams", json.dumps(TINY), "--fights", "4", "--evaluate-every", "1"]
    for minutes, evaluations in ((2, 2), (2, 2), (4, 3)):
        run("train", *options, "--cpu-minutes", str(minutes * ROLLOUT))
        assert len(read_evaluations(tmp_path)) == evaluations
    assert steps_and_seconds(tmp_path)[-1] == (4 * STEPS, 4)
    output = capsys.readouterr()
    assert output.out == ""
    assert f"{4 * STEPS} steps" in output.err


def test_it_stops_at_the_win_rate_and_at_the_limit_of_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([Score(wins=3, losses=1), Score(), Score(wins=4), Score(wins=3, losses=1)])
    with monkeypatch.context() as patch:
        patch.setattr(callback, "evaluate_model", lambda *_: next(scores))
        budget = Budget(evaluate_every=ROLLOUT, win_rate=0.75)
        CurveRun(tmp_path / "won", changes=TINY).train(budget)
    assert [evaluation.win_rate for evaluation in read_evaluations(tmp_path / "won")] == [0.75, 0, 1, 0.75]
    CurveRun(tmp_path / "limit", changes=TINY, n_timesteps=2 * STEPS).train(Budget(fights=4))
    assert [evaluation.steps for evaluation in read_evaluations(tmp_path / "limit")] == [0, 2 * STEPS]
    assert PvpPPO.load(tmp_path / "limit/checkpoint.zip").trained_rollouts == 2


@pytest.mark.usefixtures("quick")
def test_evaluations_are_closer_at_the_beginning_and_are_no_training(tmp_path: Path) -> None:
    CurveRun(tmp_path / "often", changes=TINY).train(Budget(cpu_minutes=8 / 60, evaluate_every=4 / 60, fights=4))
    assert [seconds for _, seconds in steps_and_seconds(tmp_path / "often")] == [0, 4, 8]
    CurveRun(tmp_path / "early", changes=TINY).train(Budget(cpu_minutes=13 / 60, evaluate_every=1, fights=4))
    assert [seconds for _, seconds in steps_and_seconds(tmp_path / "early")] == [0, 10, 13]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_variants_leave_out(tmp_path: Path, variant: str) -> None:
    run("train", "--out", str(tmp_path), "--variant", variant, "--hyperparams", json.dumps(TINY), "--fights", "2",
        "--cpu-minutes", str(2 * ROLLOUT))  # fmt: skip
    model = PvpPPO.load(tmp_path / "checkpoint.zip")
    assert isinstance(model.observation_space, spaces.Dict)
    assert ("privileged" in model.observation_space.spaces) == (variant != "no-privileged-critic")
    assert model.policy_kwargs.get("autoregressive", True) == (variant != "no-autoregression")
    settings = yaml.safe_load((tmp_path / "hyperparams.yml").read_text())["NhEnv"]
    parameters = settings["env_kwargs"]["reset_params"]
    assert parameters["randomizeBuild"] and parameters["randomizeGear"] and parameters["randomizeFightType"]
    assert len(parameters["randomBuildOptions"]) == 7


def test_without_shaping_only_the_outcome_counts() -> None:
    from sb3_pvp.envs import NhVecEnv

    given = {"env_kwargs": {"opponent": "scripted", "rewards": {"win": 2, "no_prayer_tick": -1}}}
    env_kwargs = vary("no-shaping", given)["env_kwargs"]
    env = NhVecEnv(8, **env_kwargs)
    env.reset()
    seen = set()
    for _ in range(400):
        actions = [env.action_space.sample(mask) for mask in _split(env)]
        seen |= set(env.step(np.array(actions))[1].tolist())
    assert env_kwargs["opponent"] == "scripted"
    assert {0.0, -1.0} <= seen <= {0.0, -1.0, 2.0}


def _split(env: Any) -> list[Any]:
    cuts = np.cumsum(env.action_space.nvec)[:-1]
    return [tuple(np.split(mask.astype(np.int8), cuts)) for mask in env.action_masks()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["train"], "--out"),
        (["train", "--out", "x", "--preset", "core"], "did you mean 'Core'"),
        (["train", "--out", "x", "--variant", "no-shapes"], "did you mean 'no-shaping'"),
        (["train", "--out", "x", "--cpu-minutes", "-1"], "--cpu-minutes"),
        (["train", "--out", "x", "--hyperparams", "[]"], "JSON object"),
        (["train", "--out", "run", "--seed", "1"], "seed 0"),
        (["plot"], "SOURCES"),
        (["plot", "x"], "no learning curve"),
        (["plot", "run"], "no evaluation yet"),
        (["plot", "text"], "no curves"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_usage_is_one_line(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    CurveRun(Path("run")).prepare()
    Path("text").write_text("no JSON")
    run(*options, code=2)
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert words in output.err
    assert not Path("x").exists()


def evaluation(steps: int, win_rate: float) -> Evaluation:
    return Evaluation.of(
        Score(wins=round(200 * win_rate), losses=round(200 * (1 - win_rate))), steps, 1, steps / 1e4, 1
    )


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    append_evaluation(tmp_path, evaluation(100, 0.5))
    with (tmp_path / "evaluations.jsonl").open("a") as file:
        file.write('{"steps": 200, "roll')
    assert read_evaluations(tmp_path) == [evaluation(100, 0.5)]


def test_the_table_names_the_first_evaluation_that_reached_a_share() -> None:
    learned = [evaluation(0, 0.1), evaluation(1_000_000, 0.6), evaluation(2_000_000, 0.9), evaluation(3_000_000, 0.85)]
    curve = Curve({"preset": "NhEnv", "variant": "full", "seed": 4}, learned)
    row = [cell.strip() for cell in table([curve]).splitlines()[-1].strip("|").split("|")]
    assert row == [
        "NhEnv, seed 4",
        "10.0%",
        "2.00 M steps, 200 CPU s",
        "2.00 M steps, 200 CPU s",
        "-",
        "-",
        "-",
        "85.0% (79.4% to 89.3%) after 3.00 M steps, 5 CPU min",
    ]


def test_the_median_of_seeds_counts_those_that_never_got_there() -> None:
    at = {1: 1_000_000, 2: 3_000_000, 3: 2_000_000, 4: None, 5: None}
    learned = {seed: [evaluation(0, 0.1), *([evaluation(steps, 0.9)] if steps else [])] for seed, steps in at.items()}
    curves = [Curve({"preset": "NhEnv", "variant": "full", "seed": seed}, learned[seed]) for seed in at]
    row = [cell.strip() for cell in table(curves).splitlines()[2].strip("|").split("|")]
    assert row == ["**NhEnv, median of 5**", "", "**300 CPU s**", "**300 CPU s**", "-", "-", "-", ""]


def test_a_picture_can_be_drawn_again_from_its_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(2):
        folder = tmp_path / str(seed)
        CurveRun(folder, seed=seed).prepare()
        for steps in (0, 1000, 2000):
            append_evaluation(folder, evaluation(steps, 0.2))
    data, picture = str(tmp_path / "curves.json"), tmp_path / "curves.png"
    run("plot", str(tmp_path / "0"), str(tmp_path / "1"), "-o", str(picture), "--json", data)
    first, printed = picture.read_bytes(), capsys.readouterr().out
    assert first.startswith(b"\x89PNG")
    assert "NhEnv, seed 1" in printed
    run("plot", data, "-o", str(picture))
    assert (picture.read_bytes(), capsys.readouterr().out) == (first, printed)
    assert len(read_curves([Path(data)])) == 2
