"""Both sides of a match act alike, unless somebody says otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch as th

from sb3_pvp import PvpPPO
from sb3_pvp.callbacks import WinRateEvalCallback
from sb3_pvp.callbacks.evaluations import read_rows
from sb3_pvp.cli import main
from sb3_pvp.envs import PvpVecEnv
from sb3_pvp.players.opponents import OpponentChoice, playing_like
from sb3_pvp.policies import AutoregressivePolicy
from tests.cli.coins import Dice


def thrower() -> PvpPPO:
    """Throws a six most often, which ties with a six and beats all else."""
    model = PvpPPO(AutoregressivePolicy, PvpVecEnv(4, game="tests.cli.coins:Dice"), n_steps=4, batch_size=8, seed=0)
    with th.no_grad():
        bias: Any = model.policy.heads.direct.bias
        bias[-1] = 1.0
    return model


@pytest.fixture(scope="module")
def dice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dice") / "dice.zip"
    thrower().save(path)
    return path


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[dict[str, Any], str]:
    """The figures of ``evaluate``, and its text."""
    printed = []
    for more in (["--json"], []):
        with pytest.raises(SystemExit) as ended:
            main(["evaluate", *map(str, arguments), "--episodes", "200", *more])
        printed.append(capsys.readouterr())
        assert not ended.value.code, printed[-1].err
    return json.loads(printed[0].out), printed[1].out


@pytest.mark.parametrize("safe", [[], ["--safe", "--game", "tests.cli.coins:Dice"]])
def test_a_model_ties_with_itself(dice: Path, safe: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found, text = evaluated(capsys, dice, "--opponent", dice, *safe)
    assert found["ties"] == 200 and found["opponent_deterministic"] is True
    assert "both with the most likely actions" in text
    found, text = evaluated(capsys, dice, "--opponent", dice, "--stochastic", *safe)
    assert found["opponent_deterministic"] is False and 0.2 < found["wins"] / (found["wins"] + found["losses"]) < 0.8
    assert "both with sampled actions" in text


def test_one_side_may_be_told_to_act_otherwise(dice: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, text = evaluated(capsys, dice, "--opponent", dice, "--opponent-stochastic")
    assert found["losses"] == 0 < found["wins"] and found["opponent_deterministic"] is False
    assert "with the most likely actions, the opponent with sampled actions" in text
    found, _ = evaluated(capsys, dice, "--opponent", dice, "--stochastic", "--opponent-deterministic")
    assert found["wins"] == 0 < found["losses"]


def test_an_opponent_that_is_no_model(dice: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, text = evaluated(capsys, dice, "--opponent", "baseline")
    assert found["opponent_deterministic"] is None and "opponent with" not in text
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(dice), "--opponent-deterministic", "--episodes", "2"])
    assert ended.value.code == 2 and "baseline is no model" in capsys.readouterr().err
    assert playing_like("noop", True, game=Dice()) == OpponentChoice("noop")


@pytest.mark.parametrize(("given", "ties"), [({}, 1.0), ({"opponent_deterministic": False}, None)])
def test_in_evaluations_while_training(given: dict[str, Any], ties: float | None, dice: Path, tmp_path: Path) -> None:
    model = thrower()
    model.run_folder = tmp_path
    callback = WinRateEvalCallback([str(dice)], deterministic=True, background=False, n_eval_episodes=64, **given)
    model.learning_rate, model.lr_schedule = 0.0, lambda _: 0.0
    model.learn(16, callback)
    rows = read_rows(tmp_path / "win_rates.csv")
    rates = [float(row["tie_rate"]) for row in rows]
    assert rates and all(rate == ties if ties is not None else rate < 1 for rate in rates)
    assert all(float(row["lose_rate"]) == 0 for row in rows)
