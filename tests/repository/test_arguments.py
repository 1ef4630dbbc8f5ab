"""Whatever users pass, what is wrong with it is one line, with the nearest name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sb3_pvp.common.arguments import Kind, first_error, read_model
from sb3_pvp.common.errors import Refusal, refusals
from sb3_pvp.common.plain_values import from_plain


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
    ({"cards": [], "trumpf": None}, r"^the top is with unknown trumpf \(did you mean 'trump'\?\)$"),
    ({"cards": [RED, RED | {"valeu": 2}]}, r"^cards\[1\] is with unknown valeu \(did you mean 'value'\?\)$"),
    (
        {"cards": [], "trump": RED | {"cardcolor": 2}},
        r"^trump is with unknown cardcolor \(did you mean 'cardColor'\?\)$",
    ),
    ({"cards": [], "by_name": {"ace": RED | {"vale": 2}}}, r"^by_name.ace is with unknown vale \(did you mean 'value'"),
    ({"cards": [], "zzz": 1}, "^the top is with unknown zzz$"),
    ({"cards": [{}]}, r"^cards\[0\] is without cardColor$"),
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
    with pytest.raises(ValueError, match=r"^the top is with unknown ownr \(did you mean 'owner'\?\)$"):
        from_plain(Deck, {"cards": [], "ownr": "me"})
    with pytest.raises(ValueError, match=r"^cards\[0\] is with unknown vale \(did you mean 'value'\?\)$"):
        from_plain(Deck, {"cards": [RED | {"vale": 1}]})


def test_arguments_that_are_models_name_the_nearest_too() -> None:
    with pytest.raises(
        ValueError, match=r"^hand must be .*, got .*: it is with unknown card \(did you mean 'cards'\?\)$"
    ):
        Kind[Hand](Hand, '{"cards": [...]}').read("hand", {"cards": [], "card": 1})


def test_parameters_are_read_by_alias() -> None:
    assert read_model(Card, RED, "reset parameter").color == "red"
    for value, line in (
        ({"color": "red"}, r"unknown reset parameter 'color' \(did you mean 'cardColor'\?\)"),
        ({}, "reset parameter the top is without cardColor"),
        (RED | {"value": "much"}, "reset parameter value should be a valid integer.*, got 'much'"),
    ):
        with pytest.raises(ValueError, match=line):
            read_model(Card, value, "reset parameter")
