"""``sb3-pvp export``, and commands that read files which need not be trusted."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sb3_pvp import PvpPPO, load
from sb3_pvp.callbacks.exploiters.best_response import BestResponses
from sb3_pvp.cli import main
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from tests.policies.export.exported import poisoned

MED = {"accountBuild": "MED"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "fighter.zip"
    PvpPPO(AutoregressivePolicy, NhVecEnv(1, reset_params=MED), n_steps=2, batch_size=2, seed=0).save(path)
    return path


@pytest.fixture(scope="module")
def exported(model: Path) -> Path:
    with pytest.raises(SystemExit) as done:
        main(["export", str(model), "--no-onnx"])
    assert done.value.code == 0
    return model.with_suffix(".fighter")


def sb3_pvp(*words: object, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        main([*map(str, words)])
    output = capsys.readouterr()
    assert done.value.code == code, output.err
    return output.err if code else output.out


def evaluate(*words: object, capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(sb3_pvp("evaluate", *words, "--episodes", 4, "--json", capsys=capsys))


def test_export_tells_what_it_wrote(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "new" / "other.fighter"
    told = json.loads(sb3_pvp("export", model, "-o", target, "--no-onnx", "--json", capsys=capsys))
    assert told["file"] == str(target) and told["bytes"] == target.stat().st_size
    assert [*told["entries"]] == ["policy.safetensors"]
    assert (told["game"], told["contract"], told["steps"]) == ("NhEnv", "NhEnv", 0)
    assert "ends in .fighter" in sb3_pvp("export", model, "-o", tmp_path / "x.zip", capsys=capsys, code=2)


def test_a_temperature_makes_choices_more_even(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def weights(*words: object) -> Any:
        sb3_pvp("export", model, "-o", target := tmp_path / "x.fighter", "--no-onnx", *words, capsys=capsys)
        return load(target).policy.action_net.layers(11)[-1][0]

    before = weights()
    assert (weights("--temperature", "2") * 2 == before).all()
    assert (weights("--temperature", '{"prayer": 4}') * 4 == before).all()
    assert (weights("--temperature", '{"attack": 4}') == before).all()
    for wrong, why in (("warm", "must be a number, or some as in"), ('{"prayr": 2}', "prayer"), ("-1", "positive")):
        assert why in sb3_pvp(
            "export", model, "-o", tmp_path / "y.fighter", "--temperature", wrong, capsys=capsys, code=2
        )
    assert not (tmp_path / "y.fighter").exists()


def test_without_onnx_the_file_has_no_graphs(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the default install; whoever wants the graphs is told how to get them."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    target = tmp_path / "a file.fighter"
    with pytest.raises(SystemExit) as done:
        main(["export", str(model), "-o", str(target)])
    output = capsys.readouterr()
    assert done.value.code == 0 and 'pip install "sb3-pvp[onnx]"' in output.err
    assert f"sb3-pvp evaluate '{target}'" in output.out
    assert evaluate(target, capsys=capsys)["episodes"] == 4
    graph = sb3_pvp("export", model, "-o", tmp_path / "x.onnx", capsys=capsys, code=2)
    assert 'pip install "sb3-pvp[onnx]"' in graph, "a graph alone cannot do without"


def test_a_fighter_file_is_a_model_and_an_opponent(
    model: Path, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = evaluate(model, capsys=capsys)
    assert result["start"] == MED
    for words in ((exported,), (exported, "--safe"), (model, "--safe")):
        assert evaluate(*words, capsys=capsys) | {"model": ""} == result | {"model": ""}
    fought = evaluate(model, "--opponent", model, capsys=capsys)
    for words in ((exported, "--opponent", exported), (model, "--safe", "--opponent", model)):
        found = evaluate(*words, capsys=capsys)
        assert found | {"opponent": "", "model": ""} == fought | {"opponent": "", "model": ""}
    fight = tmp_path / "fight.json.gz"
    sb3_pvp("record", exported, "--opponent", model, "-o", fight, capsys=capsys)
    assert fight.is_file()


def test_a_fighter_file_can_be_exploited(exported: Path, tmp_path: Path) -> None:
    """Processes, which would start with `poll`, only see the zip that is made of it."""
    for _ in range(2):  # the second time finds the files of the first
        with closing(BestResponses(exported, tmp_path / "responses", steps=64)) as search:
            assert search.name == "fighter"
    assert load(tmp_path / "responses" / "fighter.zip").reset_params == MED  # type: ignore[attr-defined]


def test_evaluate_safe_runs_no_pickle(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = poisoned(model, tmp_path / "done", "policy_class", tmp_path / "evil.zip")
    evaluate(evil, "--safe", "--opponent", evil, capsys=capsys)
    spoiled = poisoned(model, tmp_path / "done", "policy.pth", tmp_path / "spoiled.zip")
    for words in ((spoiled,), (model, "--opponent", spoiled)):
        error = sb3_pvp("evaluate", *words, "--safe", capsys=capsys, code=2)
        assert error.count("\n") == 1 and "spoiled.zip" in error
    assert not (tmp_path / "done").exists()
    league = sb3_pvp("evaluate", model, "--safe", "--opponent", f"league:{tmp_path}", capsys=capsys, code=2)
    assert "--safe does not read leagues" in league
    sb3_pvp("evaluate", evil, capsys=capsys, code=2)  # without --safe, it runs
    assert (tmp_path / "done").is_dir()
