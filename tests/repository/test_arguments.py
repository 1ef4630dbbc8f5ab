"""Whatever users pass, what is wrong with it is one line, with the nearest name."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sb3_pvp.common.arguments import (
    Kind,
    OptionalPath,
    PositiveInt,
    Share,
    checked,
    from_plain,
    read_model,
)
from sb3_pvp.common.errors import Refusal, first_error, refusals


class Card(BaseModel):
    model_config = ConfigDict(extra="forbid")
    color: Annotated[str, Field(alias="cardColor")]
    value: int = 1


class Hand(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cards: list[Card]
    trump: Card | None = None
    by_name: dict[str, Card] = {}


@dataclass(frozen=True)
class Deck:
    cards: tuple[Card, ...]
    owner: str = ""


RED = {"cardColor": "red"}
HANDS = [
    ({"cards": [], "trumpf": None}, r"^the top level has an unknown field 'trumpf' \(did you mean 'trump'\?\)$"),
    ({"cards": [RED, RED | {"valeu": 2}]}, r"^cards\[1\] has an unknown field 'valeu' \(did you mean 'value'\?\)$"),
    (
        {"cards": [], "trump": RED | {"cardcolor": 2}},
        r"^trump has an unknown field 'cardcolor' \(did you mean 'cardColor'\?\)$",
    ),
    ({"cards": [], "by_name": {"ace": RED | {"vale": 2}}}, r"^by_name.ace has an unknown field 'vale' \(did you mean"),
    ({"cards": [], "zzz": 1}, "^the top level has an unknown field 'zzz'$"),
    ({"cards": [{}]}, r"^cards\[0\] lacks 'cardColor'$"),
    ({"cards": 3}, "^cards should be a valid list, got 3$"),
]


@pytest.mark.parametrize(("value", "line"), HANDS)
def test_what_is_wrong_with_a_model_is_one_line_with_the_nearest_name(value: Any, line: str) -> None:
    with pytest.raises(ValidationError) as error:
        Hand.model_validate(value)
    with pytest.raises(ValueError, match=line):
        raise ValueError(first_error(error.value, of=Hand))
    with pytest.raises(Refusal, match=line.split(r" \(")[0]), refusals():
        Hand.model_validate(value)


def test_what_is_wrong_with_a_dataclass_too() -> None:
    with pytest.raises(ValueError, match=r"^the top level has an unknown field 'ownr' \(did you mean 'owner'\?\)$"):
        from_plain(Deck, {"cards": [], "ownr": "me"})
    with pytest.raises(ValueError, match=r"^cards\[0\] has an unknown field 'vale' \(did you mean 'value'\?\)$"):
        from_plain(Deck, {"cards": [RED | {"vale": 1}]})


def test_arguments_that_are_models_name_the_nearest_too() -> None:
    with pytest.raises(
        ValueError, match=r"^hand must be .*, got .*: it has an unknown field 'card' \(did you mean 'cards'\?\)$"
    ):
        Kind[Hand](Hand, '{"cards": [...]}').read("hand", {"cards": [], "card": 1})


def test_parameters_are_read_by_alias() -> None:
    assert read_model(Card, RED, "reset parameter").color == "red"
    for value, line in (
        ({"color": "red"}, r"unknown reset parameter 'color' \(did you mean 'cardColor'\?\)"),
        ({}, "reset parameter mapping lacks 'cardColor'"),
        (RED | {"value": "much"}, "reset parameter value should be a valid integer.*, got 'much'"),
    ):
        with pytest.raises(ValueError, match=line):
            read_model(Card, value, "reset parameter")


class _Checked:
    @checked
    def __init__(
        self,
        n_envs: PositiveInt,
        share: Share = 0.5,
        mode: Literal["min", "max"] = "min",
        weight: float = 1.0,
        path: OptionalPath = None,
        limit: PositiveInt | None = None,
    ) -> None:
        self.given = n_envs, share, mode, weight, path, limit


def test_checked_arguments_are_those_of_python() -> None:
    given: Any = np.int64(3)
    assert type(_Checked(given).given[0]) is int
    assert _Checked(2, 1, weight=4, limit=None).given == (2, 1, "min", 4, None, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "_Checked lacks 'n_envs'"),
        ({"n_envs": True}, "n_envs must be a positive integer, got True"),
        ({"n_env": 1}, "unknown argument of _Checked 'n_env' (did you mean 'n_envs'?). Known: "),
        ({"n_envs": 1, "share": 2}, "share must be a number from 0 to 1, got 2"),
        ({"n_envs": 1, "mode": "most"}, "mode should be 'min' or 'max', got 'most'"),
        ({"n_envs": 1, "weight": math.nan}, "weight should be a finite number, got nan"),
        ({"n_envs": 1, "path": 3}, "path must be a path, got 3"),
        ({"n_envs": 1, "limit": 0}, "limit must be a positive integer, got 0"),
    ],
)
def test_checked_arguments_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)) as refused:
        _Checked(**arguments)
    assert "\n" not in str(refused.value)


def test_too_many_positional_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="_Checked takes at most 6 arguments, got 7"):
        _Checked(*range(1, 8))  # type: ignore[arg-type]
