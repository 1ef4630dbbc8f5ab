"""Storages that others have made: one line says what is wrong with them, and the file stays as it is.

The databases in tests/data/foreign are those that Optuna tests its own upgrades with (MIT licence).
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import optuna
import pytest

from sb3_pvp import zoo
from sb3_pvp.cli import main
from sb3_pvp.common.errors import Refusal
from sb3_pvp.zoo.sweeps.study import open_storage, overview
from tests.paths import DATA
from tests.zoo.sweeps.study_workers import open_queue

DATABASES = ("0.9.0", "2.6.0", "3.2.0")
STUDY = {"op_code": 0, "worker_id": "w", "study_name": "s", "directions": [2]}


def database(folder: Path, version: str) -> Path:
    name = f"optuna_{version}.a.db"
    (folder / name).write_bytes(gzip.decompress((DATA / f"foreign/{name}.gz").read_bytes()))
    return folder / name


def sweep(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", *arguments])
    return int(stopped.value.code or 0)


def train(folder: Path, *more: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        zoo.train(["--algo", "ppo", "--env", "CartPole-v1", "-n", "8", "-f", str(folder / "logs"), *more])
    return int(stopped.value.code or 0)


def one_error(captured: pytest.CaptureFixture[str]) -> str:
    (line,) = captured.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("way", ["list", "best", "trial", "optimize"])
@pytest.mark.parametrize("version", DATABASES)
def test_a_database_of_another_optuna_stays_as_it_is(
    version: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = database(tmp_path, version)
    before, url = file.read_bytes(), f"sqlite:///{file}"
    if way in ("list", "best"):
        code = sweep(way, url, *(["--study-name", "multi"] if way == "best" else []))
    else:
        more = ["--trial-id", "0"] if way == "trial" else ["-optimize", "--n-trials", "1", "--no-optim-plots"]
        code = train(tmp_path, "--storage", url, "--study-name", "multi", *more)
    assert file.read_bytes() == before
    if version != "3.2.0":
        assert code == 2 and f"ptuna {version}" in one_error(capsys)
        assert {path.name for path in tmp_path.iterdir()} <= {file.name, "logs"}
    elif way == "list":  # what it can read, it shows
        assert code == 0 and "multi" in capsys.readouterr().out
    else:
        assert code == 2 and "multi" in one_error(capsys)


def test_a_database_of_something_else_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "league.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE matches (id)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(Refusal, match="it is a database of something else, with the table matches"):
        open_queue(f"sqlite:///{file}", 1)
    with pytest.raises(Refusal, match="it is a database of something else"):
        overview(f"sqlite:///{file}")
    assert file.read_bytes() == before


@pytest.mark.parametrize("directions", [["minimize"], ["maximize", "maximize"]])
def test_a_sweep_does_not_go_on_with_an_empty_study_of_others(directions: list[str], tmp_path: Path) -> None:
    journal = str(tmp_path / "sweep.log")
    study = optuna.create_study(study_name="study", storage=open_storage(journal)[0], directions=directions)
    with pytest.raises(Refusal, match="study 'study' does not maximise one value"):
        open_queue(journal, 1)
    assert not study.user_attrs


@pytest.mark.parametrize("line", ["[1]", '"text"', "1", "null", "{}", "text", '{"op_code": "x"}', '{"op_code": 4}'])
@pytest.mark.parametrize("way", ["list", "best", "trial", "optimize"])
def test_a_line_of_a_journal_that_is_no_operation_is_named(
    line: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.log"
    file.write_text(f"{json.dumps(STUDY)}\n{line}\n")
    before = file.read_bytes()
    if way in ("list", "best"):
        assert sweep(way, str(file)) == 2
    else:
        more = ["--trial-id", "0"] if way == "trial" else ["-optimize", "--n-trials", "1", "--no-optim-plots"]
        assert train(tmp_path, "--storage", str(file), "--study-name", "s", *more) == 2
    assert "sweep.log: a line in it is no operation on a study" in one_error(capsys)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--storage", "sweep.log"], "--storage is where -optimize keeps a study: add -optimize, or --trial-id"),
        (["--storage", "sweep.log", "--study-name", "s"], "add -optimize, or --trial-id"),
        (["--trial-id", "0"], "--trial-id is a trial of a study: give its --storage"),
        (["--trial-id", "0", "--storage", "gone.log", "--study-name", "s"], "there is no file gone.log"),
        (["--trial-id", "0", "--storage", "sqlite:///gone.db"], "there is no file gone.db"),
    ],
)
@pytest.mark.parametrize("algo", ["ppo", "maskable_ppo"])
def test_options_of_studies_without_effect_are_refused(
    algo: str, options: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    env = "CartPole-v1" if algo == "ppo" else "NhEnv"
    assert train(tmp_path, "--algo", algo, "--env", env, *options) == 2
    expected = words if algo == "ppo" or "there is" not in words else "sweep best STORAGE --trial-id 0"
    assert expected in one_error(capsys)
    assert not [*tmp_path.iterdir()]


def test_trial_0_counts(tmp_path: Path) -> None:
    """With rl-zoo3's own options: it takes its hyperparameters, those on the command line above them."""
    journal = tmp_path / "sweep.log"
    zoo_params = {
        "batch_size": 8, "n_steps_pow": 3, "one_minus_gamma": 0.05, "learning_rate": 0.002, "ent_coef": 0.01,
        "clip_range": 0.3, "n_epochs": 1, "one_minus_gae_lambda": 0.1, "max_grad_norm": 0.7, "vf_coef": 0.4,
        "net_arch": "tiny", "activation_fn": "tanh", "batch_size_pow": 3, "gamma": 0.95, "gae_lambda": 0.9,
        "n_steps": 8,
    }  # fmt: skip
    study = optuna.create_study(study_name="s", storage=open_storage(str(journal))[0], direction="maximize")
    distributions = {name: optuna.distributions.CategoricalDistribution([each]) for name, each in zoo_params.items()}
    study.add_trial(optuna.create_trial(params=zoo_params, distributions=distributions, value=1.0))
    more = ["--storage", str(journal), "--trial-id", "0", "-params", "n_envs:1", "vf_coef:0.3", "--eval-freq", "-1"]
    zoo.train(["--algo", "ppo", "--env", "CartPole-v1", "-n", "8", "-f", str(tmp_path), "--verbose", "0", *more])
    config = (tmp_path / "ppo/CartPole-v1_1/CartPole-v1/config.yml").read_text()
    assert "- max_grad_norm\n    - 0.7" in config and "- vf_coef\n    - 0.3" in config
