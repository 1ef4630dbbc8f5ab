"""How arrays are written on the wire (protocol.md §2.5, §4)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sb3_pvp.contract import load_contract
from sb3_pvp.rsps.replies import MetaEncoder, ReplyEncoder
from sb3_pvp.world import META_DTYPE, Style, camel_case
from tests.rsps.fake_world import FakeWorld

RECORDED = json.loads((Path(__file__).parent.parent / "data" / "rsps_reply.json").read_text())


def meta_of(**fields: object) -> dict[str, object]:
    record = np.zeros(1, META_DTYPE)
    record["current_player_prayer_type"] = Style.NONE
    for name, value in fields.items():
        record[name] = value
    fields_on_wire: dict[str, object] = json.loads(MetaEncoder().encode(record)[0])
    return fields_on_wire


def types(values: dict[str, object]) -> dict[str, str]:
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
    contract = load_contract("NhEnv")
    (line,) = ReplyEncoder(contract).observations(np.ones((1, contract.num_observations), np.float32))
    kinds = [type(value).__name__ for value in json.loads(line)]
    assert "".join(kind[0] for kind in kinds) == RECORDED["observation_kinds"]
    assert line.count(b"1.0") == kinds.count("float")


def test_masks_and_the_shape_of_a_reply() -> None:
    world = FakeWorld(2, 0)
    world.reset()
    world.masks[1, 0, 5] = False
    snapshots = ReplyEncoder(world.contract).snapshots(world, np.array([1]))
    reply = json.loads(snapshots[0].reply(0, with_target=True, terminal_state="WON"))
    assert list(reply) == ["body"]
    assert list(reply["body"]) == ["obs", "actionMasks", "terminalState", "meta"]
    assert [len(head) for head in reply["body"]["actionMasks"]] == list(world.contract.head_sizes)
    assert reply["body"]["actionMasks"][1] == [True, False, True]
    assert reply["body"]["meta"]["targetActionMasks"][1] == [True, True, True]
    assert reply["body"]["meta"]["targetObs"][1] == 1
