from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch as th

from benchmarks import model_card
from benchmarks.__main__ import main
from benchmarks.card_text import card_text
from sb3_pvp import PvpPPO
from sb3_pvp.envs import NhVecEnv
from sb3_pvp.policies import AutoregressivePolicy
from sb3_pvp.policies.files import shipped
from sb3_pvp.policies.files.model_files import game_of

FACTS = {"description": "Small", "command": "sb3-pvp train", "steps": 2, "cpu_hours": 0.5, "default": True}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the fighters that ship, with nothing in it yet; beside it a model, and what is known of it."""
    model = PvpPPO(AutoregressivePolicy, NhVecEnv(1), n_steps=2, batch_size=2, policy_kwargs={"net_arch": [8]})
    model.learn(2).save(tmp_path / "model.zip")
    (tmp_path / "train.json").write_text(json.dumps(FACTS))
    for module in (shipped, model_card):
        monkeypatch.setattr(module, "shipped_folder", lambda: tmp_path / "models")
    return tmp_path


def run(folder: Path, *options: str) -> int | str | None:
    train = ["--train", str(folder / "train.json"), "--model", str(folder / "model.zip")]
    with pytest.raises(SystemExit) as exit_info:
        main(["model_card", "small", *train, "--episodes", "4", "--behaviour", "2", *options])
    return exit_info.value.code


def test_it_measures_and_writes_a_fighter_with_its_card(folder: Path) -> None:
    responses = folder / "exploit"
    responses.mkdir()
    result = {"value": 0.5, "low": 0.4, "high": 0.6}
    found = {"start": "warm", "seed": 1, "result": result, "curve": [{"steps": 64}]}
    (responses / "exploitability.json").write_text(json.dumps({"lower_bound": 0.4, "responses": [found]}))
    builds = {"builds": {"MED": {"lower_bound": 0.4, "responses": [found]}}}
    (responses / "each-build.json").write_text(json.dumps(builds))
    assert run(folder, "--exploit", str(responses), "--each-build", str(responses)) == 0
    card = shipped.shipped_card("small")
    assert (card.description, card.game, card.lower_bound) == ("Small", "NhEnv", 0.4)
    assert {name: fights.episodes for name, fights in card.fights.items()} == dict.fromkeys(
        ("baseline", "stayalive", "scripted", "switcher", "guard"), 4
    )
    assert {*card.behaviour} == {"baseline", "itself"}
    assert "special attacks chosen, per fight" in card.behaviour["itself"]
    text = (folder / "models" / "small.md").read_text()
    assert text == card_text("small", card) + "\n" and "| warm | 1 | 64 | 50.0% (40.0 to 60.0) |" in text
    assert "| MED | 50.0% (40.0 to 60.0) | 40.0% | warm | 64 | 1 |" in text


def test_the_numbers_of_its_behaviour_depend_on_the_seed_alone(folder: Path) -> None:
    model, found = PvpPPO.load(folder / "model.zip", device="cpu"), []
    for before in (1, 2):
        th.manual_seed(before)
        found.append(model_card._behaviour(model, game_of(model), "baseline", 2, 0))
    assert found[0] == found[1]


@pytest.mark.slow
def test_it_meets_models_that_do_not_ship(folder: Path) -> None:
    assert run(folder, "--rival", str(folder / "model.zip")) == 0
    text = (folder / "models" / "small.md").read_text()
    assert "| `model` | 4 | " in text and "## How it fights" in text
    card = shipped.shipped_card("small").model_copy(update={"behaviour": {"baseline": {}, "itself": {}}})
    assert "## How it fights" not in card_text("small", card)


@pytest.mark.slow
def test_wrong_facts_are_refused_before_any_fight_and_change_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder) == 0
    before = {file.name: file.read_bytes() for file in (folder / "models").iterdir()}
    (folder / "train.json").write_text(json.dumps({**FACTS, "descripton": "Small"}))
    assert run(folder, "--new-version") == 2
    assert "unknown fact 'descripton' (did you mean 'description'?)" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in (folder / "models").iterdir()} == before


@pytest.mark.slow
def test_a_new_version_keeps_the_one_before(folder: Path) -> None:
    assert run(folder) == 0
    models, card = folder / "models", shipped.shipped_card("small")
    before = (models / "small.fighter").read_bytes()
    (models / "other.fighter").write_bytes(before)
    other = card.model_copy(update={"fights": {"small": card.fights["baseline"]}, "default": False})
    (models / "other.json").write_text(other.model_dump_json())
    assert run(folder, "--new-version") == 0
    assert [shipped.shipped_card(name).default for name in ("small", "small@1")] == [True, False]
    assert [*shipped.shipped_card("other").fights] == ["small@1"], "they fought that version"
    assert "`small@1`" in (models / "other.md").read_text()
    assert (folder / "models" / "small@1.fighter").read_bytes() == before
    assert (shipped.shipped_version("small"), shipped.shipped_version("small@1")) == (2, 1)
    assert "small@1" in shipped.shipped_card("small").fights
    assert (folder / "models" / "small@1.md").read_text() == card_text(
        "small@1", shipped.shipped_card("small@1")
    ) + "\n"
