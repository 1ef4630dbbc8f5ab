"""What ``sb3-pvp sweep`` prints about studies; nothing is trained here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from optuna.trial import TrialState

from sb3_pvp import zoo
from sb3_pvp.algorithms.presets import Preset
from sb3_pvp.cli import main
from sb3_pvp.zoo.sweeps.space import DEFAULT_SPACE, applicable, read_space
from sb3_pvp.zoo.sweeps.study import StudySettings
from tests.zoo.sweeps.study_workers import open_queue

NAMES = ("n_steps", "clip_range", "ent_coef")
SPACE = {name: DEFAULT_SPACE[name] for name in NAMES}


def run(*arguments: str | Path) -> object:
    """Runs the console script and returns its exit code."""
    with pytest.raises(SystemExit) as exit_info:
        main(["sweep", *map(str, arguments)])
    return exit_info.value.code


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A journal with a study of eight trials whose results are their clip ranges."""
    path = str(tmp_path_factory.mktemp("studies") / "sweep.log")
    block = zoo.find_preset("NhEnv").hyperparams()
    what = {"algo": "maskable_ppo", "env_id": "NhEnv", "n_timesteps": 10**5, "seed": 1}
    settings = StudySettings(block=block, space=SPACE, measure={"fights": 1}, **what)
    study, queue = open_queue(path, 8, settings)
    with queue.process_lock():
        while (trial := queue.next_trial()) is not None:
            trial.report(trial.params["clip_range"], 1)
            if trial.number == 1:
                queue.study.tell(trial, state=TrialState.PRUNED)
            else:
                queue.study.tell(trial, trial.params["clip_range"], TrialState.COMPLETE)
    assert len(study.trials) == 8
    return path


def test_studies_are_listed(storage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", storage) == 0
    header, *trials = capsys.readouterr().out.splitlines()
    assert header.split() == ["study", "trial", "state", "value", "took"]
    expected = [["study", "0", "complete"], ["study", "1", "pruned"]]
    assert [trial.split()[:3] for trial in trials][:2] == expected and len(trials) == 8
    assert run("list", storage, "--json") == 0
    listed = json.loads(capsys.readouterr().out)["trials"]
    assert [trial["state"] for trial in listed].count("complete") == 7
    assert all(trial["value"] == trial["params"]["clip_range"] for trial in listed if trial["state"] == "complete")


def test_the_best_configuration_is_a_preset(storage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("best", storage, "--json", "-o", tmp_path / "best.yml") == 0
    best = json.loads(capsys.readouterr().out)
    base, found = zoo.find_preset("NhEnv"), Preset("best", tmp_path / "best.yml", "NhEnv").hyperparams()
    assert found["clip_range"] == best["value"] and found["n_steps"] == best["params"]["n_steps"]
    assert {key for key in found if found[key] != base.hyperparams().get(key)} <= set(NAMES)
    assert found["ent_coef"]["change_over_time_steps"] == -(-4_000_000 // (128 * found["n_steps"]))
    assert run("best", storage, "-o", tmp_path / "best.yml") == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'best.yml'}: Trial {best['trial']} of study study")
    assert run("best", storage, "--trial-id", "0", "-n", "1000") == 0
    text = capsys.readouterr().out
    assert text.startswith("# Trial 0 of study study") and yaml.safe_load(text)["NhEnv"]["n_timesteps"] == 1000


def test_the_space_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("space") == 0
    (tmp_path / "space.yml").write_text(capsys.readouterr().out)
    expected = applicable(DEFAULT_SPACE, zoo.find_preset("NhEnv").hyperparams(), is_ours=True)
    assert read_space(tmp_path / "space.yml") == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "command"),
        (("best",), "storage"),
        (("best", "gone.log"), "there is no file gone.log"),
        (("list", "gone.txt"), "must be a journal"),
        (("best", "STORAGE", "--study-name", "studi"), "did you mean 'study'"),
        (("best", "STORAGE", "--trial-id", "8"), "has no trial 8, it has trials 0 to 7"),
        (("best", "STORAGE", "-n", "0"), "n-timesteps"),
        (("space", "--preset", "Cor"), "did you mean 'Core'"),
        (("space", "--search-space", "gone.yml"), "gone.yml"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: tuple[str, ...], words: str, storage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*(storage if each == "STORAGE" else each for each in arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sb3-pvp: error: ") and words.lower() in line.lower()
