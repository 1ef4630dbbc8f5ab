"""Encoding of arrays on the wire (protocol.md §2.5, §4)."""

from __future__ import annotations

import json

import hypothesis.extra.numpy as numpy_strategies
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, Style, camel_case
from sb3_pvp.games.osrs.remote.replies import ReplyEncoder
from tests.games.osrs.remote.fake_world import FakeWorld
from tests.paths import DATA

ENCODER = ReplyEncoder(load_contract("NhEnv"))
NUM_OBSERVATIONS = load_contract("NhEnv").num_observations
IS_INT = np.array([observation.kind == "int" for observation in load_contract("NhEnv").observations])
RECORDED = json.loads((DATA / "rsps_reply.json").read_text())


def meta_of(**fields: object) -> dict[str, object]:
    """Returns ``meta`` as it is read back from the wire, for a record with these fields."""
    record = np.zeros(1, META_DTYPE)
    record["current_player_prayer_type"] = Style.NONE
    for name, value in fields.items():
        record[name] = value
    world = FakeWorld(1, 0)
    world.meta[0, 1] = record[0]
    fields_on_wire: dict[str, object] = json.loads(ENCODER.views(world, [1]).meta[1] + b"}")
    return fields_on_wire


def types(values: dict[str, object]) -> dict[str, str]:
    """Returns the names of the values' types."""
    return {name: type(value).__name__ for name, value in values.items()}


def test_names() -> None:
    assert camel_case("damage_generated_on_target_scale") == "damageGeneratedOnTargetScale"
    assert camel_case("distance") == "distance"


def test_keys_and_types_are_those_of_a_recorded_reply() -> None:
    quiet = meta_of()
    always = set(RECORDED["always"])
    assert set(quiet) == always
    assert quiet["currentPlayerPrayerType"] == "null"
    everything = meta_of(**{name: True for name in META_DTYPE.names or () if name.endswith("_present")})
    assert types(everything) == RECORDED["types"]


def test_prayers_of_a_hit_are_left_out_when_there_are_none() -> None:
    meta = meta_of(hit_present=True, attack_type_hit=Style.MAGIC, target_prayer_type=Style.NONE)
    assert meta["attackTypeHit"] == "MAGIC"
    assert "targetPrayerType" not in meta
    assert "attackTypeReceived" not in meta
    assert meta_of(received_present=True, player_prayer_type=Style.RANGED)["playerPrayerType"] == "RANGED"


def test_numbers_are_written_as_the_reference_writes_them() -> None:
    line = ENCODER.observation(np.ones(NUM_OBSERVATIONS, np.float32))
    kinds = [type(value).__name__ for value in json.loads(line)]
    assert "".join(kind[0] for kind in kinds) == RECORDED["observation_kinds"]
    assert line.count(b"1.0") == kinds.count("float")


def observations(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[NDArray[np.float32]]:
    """A strategy for observations made of these numbers."""
    return numpy_strategies.arrays(np.float32, NUM_OBSERVATIONS, elements=numbers)


@given(observations(st.floats(-(2.0**53), 2.0**53, width=32, exclude_min=True, exclude_max=True)))
def test_every_number_survives_the_round_trip(obs: NDArray[np.float32]) -> None:
    read = json.loads(ENCODER.observation(obs))
    assert [type(value) is int for value in read] == IS_INT.tolist()
    # Numbers too small to matter lose decimals.
    exact = np.where(np.abs(obs) < 1e-6, np.round(obs.astype(np.float64), 15), obs)
    assert np.array_equal(np.array(read, np.float32), np.where(IS_INT, np.trunc(obs), exact).astype(np.float32))


@given(observations(st.integers(-1000, 1000).map(lambda number: float(np.float32(number / 100)))))
def test_fractions_have_no_more_decimals_than_they_need(obs: NDArray[np.float32]) -> None:
    text = ENCODER.observation(obs).decode()
    for number, is_int in zip(text[1:-1].split(","), IS_INT, strict=True):
        assert len(number.partition(".")[2]) <= 2 - 2 * is_int


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**53, -(2.0**60)])
@pytest.mark.parametrize("is_int", [False, True])
def test_numbers_that_json_cannot_hold_are_never_sent(value: float, is_int: bool) -> None:
    obs = np.zeros(NUM_OBSERVATIONS, np.float32)
    obs[np.flatnonzero(is_int == IS_INT)[-1]] = value
    with pytest.raises(ValueError, match="number"):
        ENCODER.observation(obs)


def test_masks_and_the_shape_of_a_reply() -> None:
    world = FakeWorld(2, 0)
    world.reset()
    world.masks[1, 0, 5] = False
    views = ENCODER.views(world, [2], [3])
    reply = json.loads(views.reply(2, with_target=True, outcome="WON"))
    assert list(reply) == ["body"]
    assert list(reply["body"]) == ["obs", "actionMasks", "terminalState", "meta"]
    assert [len(head) for head in reply["body"]["actionMasks"]] == list(world.contract.head_sizes)
    assert reply["body"]["actionMasks"][1] == [True, False, True]
    assert reply["body"]["meta"]["targetActionMasks"][1] == [True, True, True]
    assert reply["body"]["meta"]["targetObs"][1] == 1
