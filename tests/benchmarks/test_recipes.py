"""The study of recipes: its variants, and the report of what best responses win."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.learning_curves.records import Evaluation, append_evaluation, fix_settings
from benchmarks.learning_curves.run import CHECKPOINT
from benchmarks.recipes import study
from sb3_pvp import PvpPPO
from sb3_pvp.algorithms.presets import find_preset
from sb3_pvp.callbacks.exploiters.best_response import FIGURES
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.players.league import League
from sb3_pvp.policies import AutoregressivePolicy
from tests.paths import ROOT


def _run(folder: Path, recipe: str, win_rate: float, exploited: float | None) -> Path:
    folder.mkdir()
    fix_settings(folder, {"preset": recipe, "variant": "full", "seed": 3, "hyperparams": {}})
    append_evaluation(folder, Evaluation(1000, 2, 60.0, 61.0, 9, 1, 0, 0, win_rate, (0.5, 0.95), 80.0))
    if exploited is not None:
        curve = [{"steps": 500, "value": 0.4}, {"steps": 1000, "value": exploited}]
        response = {"start": "warm", "seed": 0, "curve": curve, "result": {"value": exploited}}
        figures = {"lower_bound": exploited - 0.03, "responses": [response]}
        (folder / "exploit" / "checkpoint").mkdir(parents=True)
        (folder / "exploit" / "checkpoint" / FIGURES).write_text(json.dumps(figures))
    return folder


def test_the_least_exploited_recipe_comes_first(tmp_path: Path) -> None:
    easy, hard = _run(tmp_path / "a", "easy", 0.97, 0.9), _run(tmp_path / "b", "hard", 0.9, 0.6)
    lines = study.table([*study.read_run(easy), *study.read_run(hard)]).splitlines()
    assert lines[2] == "| hard | 1 | 0.0 M | 90.0% |  | 60.0% |  |"
    assert lines[3].startswith("| easy | 1 |")


def test_seeds_share_a_row(tmp_path: Path) -> None:
    found = [study.read_run(_run(tmp_path / str(rate), "hard", rate, 0.5 + rate / 10))[0] for rate in (0.8, 0.9)]
    rated = [
        run.model_copy(update={"rating": (1500.0 + shift, 0, 0)}) for run, shift in zip(found, (0, 20), strict=True)
    ]
    row = study.table(rated).splitlines()[2]
    assert row == ("| hard | 2 | 0.0 M | 85.0% (80.0% to 90.0%) |  | 58.5% (58.0% to 59.0%) | 1510 (1500 to 1520) |")


def test_a_report_replaces_the_same_run_and_keeps_the_others(tmp_path: Path) -> None:
    found = tmp_path / "recipes.json"
    study.merged(found, study.read_run(_run(tmp_path / "a", "easy", 0.5, None)))
    study.merged(found, study.read_run(_run(tmp_path / "b", "hard", 0.9, 0.6)))
    again = study.merged(found, study.read_run(_run(tmp_path / "c", "easy", 0.7, 0.8)))
    assert [(each.recipe, each.win_rate) for each in again] == [("easy", 0.7), ("hard", 0.9)]
    study.draw(tmp_path / "recipes.png", again)
    assert (tmp_path / "recipes.png").read_bytes().startswith(b"\x89PNG")


def test_fighters_measured_by_build_are_judged_by_the_worst_and_so_is_the_averaged_policy(tmp_path: Path) -> None:
    run = _run(tmp_path / "a", "hard", 0.9, 0.5)
    for fighter, rates in {"checkpoint": {"MED": 0.6, "PURE": 0.8}, "averaged": {"MED": 0.7, "PURE": 0.65}}.items():
        for build, rate in rates.items():
            place = run / "exploit" / f"{fighter}-each-build" / build
            place.mkdir(parents=True)
            (place / FIGURES).write_text(json.dumps({"result": {"value": rate}}))
    found = study.merged(tmp_path / "recipes.json", study.read_run(run))
    assert [(each.recipe, each.exploited) for each in found] == [("hard", 0.8), ("hard, averaged", 0.7)]
    head, _, *rows = study.table(found).splitlines()
    assert head == "| recipe | seeds | steps | win rate against the baseline | MED | PURE | worst build | rating |"
    assert rows[0] == "| hard, averaged | 1 | 0.0 M |  | 70.0% | 65.0% | 70.0% |  |"
    study.draw(tmp_path / "recipes.png", found)
    assert (tmp_path / "recipes.png").read_bytes().startswith(b"\x89PNG")


def test_a_league_of_runs_fights_as_they_have_trained(tmp_path: Path) -> None:
    run, builds = _run(tmp_path / "a", "easy", 0.5, None), {"randomizeBuild": True}
    PvpPPO(AutoregressivePolicy, NhVecEnv(4, reset_params=builds), n_steps=8, batch_size=8).save(run / CHECKPOINT)
    study.add_to_league(tmp_path / "league", [run])
    league = League.existing(tmp_path / "league")
    assert league.fights["reset_params"] == builds
    assert [str(player) for player in league.players()] == ["easy-3@1000"]


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no learning curve"):
        study.read_run(tmp_path)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "recipes").glob("*.yml")), ids=lambda path: path.stem)
def test_each_recipe_is_a_preset(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    hyperparams = find_preset(str(path)).hyperparams()
    assert {"n_envs", "ent_coef", "callback"} <= hyperparams.keys()


def test_builds_are_drawn_by_what_best_responses_win(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"PURE": 0.8, "ZERKER": 0.65, "MED": 0.5, "MAXED": 0.3}
    assert study.drawn_builds(rates, 5) == [*["PURE"] * 5, *["ZERKER"] * 3, "MED", "MAXED"]
    assert study.drawn_builds({"PURE": 0.4, "MED": 0.5}, 5) == ["PURE", "MED"]
    figures = {"builds": {name: {"result": {"value": rate}} for name, rate in rates.items()}}
    (tmp_path / "each-build.json").write_text(json.dumps(figures))
    with pytest.raises(SystemExit, match="0"):
        main(["recipes", "builds", str(tmp_path), "--most", "3"])
    assert capsys.readouterr().out == "randomBuildOptions: [PURE, PURE, PURE, ZERKER, ZERKER, MED, MAXED]\n"
    with pytest.raises(SystemExit, match="2"):
        main(["recipes", "builds", str(tmp_path / "nowhere")])


def test_a_build_may_be_listed_more_than_once() -> None:
    env = NhVecEnv(64, reset_params={"randomizeBuild": True, "randomBuildOptions": ["PURE", "PURE", "PURE", "MED"]})
    env.reset()
    found = [str(info["build"]) for info in env.reset_infos]
    assert {*found} == {"PURE", "MED"} and found.count("PURE") > 36
