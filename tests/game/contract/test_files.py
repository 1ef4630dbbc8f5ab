"""Contract files of both formats, and the names they are registered under."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from random_contracts import contracts

from sb3_pvp.game.contract import Contract, ContractError, load_contract, model, read_contract, register_contract
from sb3_pvp.games import osrs

NH_FILE = Path(osrs.__file__).parent / "contracts" / "NhEnv.json"
RULES = ("require_all", "require_any", "require_none")


def wire_json(contract: Contract) -> dict[str, Any]:
    """A contract as the original system writes it (contract.md §1); optional fields only where they say something."""
    data = dataclasses.asdict(contract)
    for action in (action for head in data["heads"] for action in head["actions"]):
        rules = {rule: ids for rule in RULES if (ids := action.pop(rule))}
        action.update({"dependencies": rules} if rules else {})
    for observation in data["observations"]:
        del observation["kind"]
        for flag in ("partial", "constant"):
            if not observation[flag]:
                del observation[flag]
    return {"actions": data["heads"], "observations": data["observations"]}


def without_kinds(contract: Contract) -> Contract:
    """The wire format does not distinguish integers from floats."""
    observations = tuple(dataclasses.replace(observation, kind="float") for observation in contract.observations)
    return dataclasses.replace(contract, observations=observations)


def written(folder: Path, data: Any, name: str = "Custom.json") -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["NhEnv", "DharokEnv"])
def test_the_wire_format_says_the_same(name: str, tmp_path: Path) -> None:
    contract = load_contract(name)
    path = written(tmp_path, wire_json(contract), f"{name}.json")
    assert load_contract(path) == load_contract(str(path)) == without_kinds(contract)


@given(contracts())
def test_any_contract_survives_the_wire_format(tmp_path_factory: pytest.TempPathFactory, contract: Contract) -> None:
    path = written(tmp_path_factory.getbasetemp(), wire_json(contract), "Random.json")
    assert read_contract(path) == without_kinds(contract)


def broken(path: str, value: Any, data: dict[str, Any]) -> dict[str, Any]:
    *folders, last = path.split("/")
    place: Any = data
    for step in folders:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("comment", "x", "the top level has an unknown field 'comment'"),
        ("actions/0/note", 1, r"actions\[0\] has an unknown field 'note'"),
        ("actions/1/actions/1/dependancies", {}, r"actions\[1\].actions\[1\] has an unknown field 'dependancies'"),
        ("actions/1/actions/1/dependencies/require", [], r"actions\[1\] has an unknown field 'require'"),
        ("actions/1/actions/1/dependencies/require_all", "melee_attack", "require_all should be a valid"),
        ("actions/1/actions/1/dependencies/require_all", ["prayers"], "names 'prayers', which is not a sub-action"),
        ("actions/0/actions/1/dependencies", {"require_any": ["use_brew"]}, "names 'use_brew', which is not decided"),
        ("observations/3/partial", 1, "partial should be a valid boolean, got 1"),
        ("observations/3/id", None, r"observations\[3\].id should be a valid string"),
        ("actions", {}, "actions should be a valid"),
    ],
)
def test_errors_about_wire_files_name_file_and_field(path: str, value: Any, message: str, tmp_path: Path) -> None:
    file = written(tmp_path, broken(path, value, wire_json(load_contract("NhEnv"))))
    with pytest.raises(ContractError, match=f"(?s)Custom.json: .*{message}"):
        load_contract(file)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", 2, "only version 1 of the format"),
        ("heads/0/about", 3, r"actions\[0\].description should be a valid string, got 3"),
        ("observations/0/kind", "double", r"observations\[0\].kind should be 'int' or 'float', got 'double'"),
        ("observations/0/flags", ["partly"], r"observations\[0\] has an unknown field 'partly'"),
        ("observations/0/note", "x", r"observations\[0\] has an unknown field 'note'"),
    ],
)
def test_errors_about_our_files_name_file_and_field(path: str, value: Any, message: str, tmp_path: Path) -> None:
    file = written(tmp_path, broken(path, value, json.loads(NH_FILE.read_text(encoding="utf-8"))))
    with pytest.raises(ContractError, match=f"Custom.json: .*{message}"):
        load_contract(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "must be an object"),
        ('{"actions": []}', "lacks 'observations'"),
        ('{"actions": [], "actions": []}', "is repeated"),
    ],
)
def test_files_that_are_no_contract(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=message):
        load_contract(written(tmp_path, text))


def test_a_missing_file() -> None:
    with pytest.raises(ContractError, match=r"cannot read contract file .*nowhere\.json"):
        load_contract("nowhere.json")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        ContractError, match=r"'NHEnv' \(did you mean 'NhEnv'\?\). Known: NhEnv, ChessPixelsPvP-v0, ChessPvP-v0"
    ):
        load_contract("NHEnv")


@pytest.mark.parametrize("name", [3, None, ["NhEnv"]])
def test_what_is_neither_a_name_nor_a_file(name: Any) -> None:
    with pytest.raises(ContractError, match="a contract is a name, the path of a file or a Contract, got"):
        load_contract(name)


def test_a_name_always_gives_the_same_contract() -> None:
    assert load_contract("NhEnv") is load_contract("NhEnv")


def test_registering_a_custom_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_registered", dict(model._registered))
    register_contract("Mine", written(tmp_path, wire_json(load_contract("DharokEnv"))))
    register_contract("Other", load_contract("DharokEnv"))
    assert load_contract("Mine").num_observations == load_contract("Other").num_observations == 40
    with pytest.raises(ContractError, match="'Mine' is already registered"):
        register_contract("Mine", load_contract("NhEnv"))
