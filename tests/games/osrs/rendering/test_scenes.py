"""What is to see of a fight in one tick, as plain values."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest

from sb3_pvp.game import Outcome
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.meta_fields import RANDOMISED
from sb3_pvp.games.osrs.rendering import Scene, scene_of
from sb3_pvp.games.osrs.rendering.embedded import SLOTS
from sb3_pvp.games.osrs.sim import SimWorld, state
from sb3_pvp.games.osrs.sim.items import ITEM_NAMES
from tests.envs.fake_world import FakeWorld

NAMES = ("alice", "bob")


def played(world: SimWorld, ticks: int) -> list[Scene]:
    """Random legal fights, one scene per tick; ended ones start again."""
    world.reset()
    scenes = []
    for _ in range(ticks):
        if world.outcome[0, 0] != Outcome.RUNNING:
            world.reset()
        masks, actions = world.masks[0].copy(), world.random_actions()
        world.step(actions)
        scenes.append(scene_of(world, 0, NAMES, actions[0], masks))
    return scenes


@pytest.mark.parametrize("contract", ["NhEnv", "DharokEnv"])
def test_scenes_are_plain_values(contract: str) -> None:
    params = RANDOMISED if contract == "NhEnv" else {}
    for scene in played(SimWorld(1, seed=1, reset_params=params, contract=contract), 60):
        plain = asdict(scene)
        assert json.loads(json.dumps(plain, allow_nan=False)) == json.loads(json.dumps(plain))
        assert plain["contract"] == contract
        assert [fighter["name"] for fighter in plain["fighters"]] == list(NAMES)


def test_what_was_chosen_was_open() -> None:
    contract = load_contract("NhEnv")
    for scene in played(SimWorld(1, seed=2), 60):
        for fighter in scene.fighters:
            assert [head.id for head in fighter.heads] == [head.id for head in contract.heads]
            for head in fighter.heads:
                assert head.open is not None and head.chosen is not None
                assert len(head.open) == len(head.entries)
                # Where the rules between heads leave nothing, doing nothing is chosen, masked or not.
                assert head.open[head.chosen] or head.chosen == 0


def test_choices_of_the_bot_are_unknown() -> None:
    world = SimWorld(1)
    world.reset()
    assert scene_of(world, 0, NAMES).fighters[1].heads == ()


def test_the_embedded_world_tells_where_fighters_stand_and_what_they_wear() -> None:
    world = SimWorld(1, seed=3, reset_params={"accountBuild": "MAXED"})
    for scene in played(world, 40):
        first, second = scene.fighters
        apart = max(abs(first.tile[0] - second.tile[0]), abs(first.tile[1] - second.tile[1]))
        assert apart == scene.distance
        for fighter in scene.fighters:
            assert fighter.gear["weapon"]
            assert set(fighter.gear) <= set(SLOTS)
            assert not any(character.isdigit() for item in fighter.gear.values() for character in item)
    record = world.state[0, 0]
    assert scene.fighters[0].gear["weapon"].upper().replace(" ", "_") == ITEM_NAMES[record["worn"][state.WEAPON]]
    assert [SLOTS.index(slot) for slot in ("head", "weapon", "ring", "ammo")] == [
        *(state.HEAD, state.WEAPON, state.RING, state.AMMO)
    ]


def test_a_hit_is_seen_launched_flying_and_landed() -> None:
    """Whatever flies comes a tick nearer every tick, and hitsplats are what the hitpoints lost."""
    scenes = played(SimWorld(1, seed=4, reset_params={"accountBuild": "MAXED"}), 200)
    flights, losses = 0, 0
    for before, after in pairwise(scenes):
        if after.tick != before.tick + 1:
            continue
        for old, new in zip(before.fighters, after.fighters, strict=True):
            expected = [(hit.style, hit.ticks - 1, hit.damage) for hit in old.incoming if hit.ticks > 1]
            now = [(hit.style, hit.ticks, hit.damage) for hit in new.incoming]
            if after.outcome == "running":
                assert all(hit in now for hit in expected)
            flights += len(expected)
            losses += sum(new.hitsplats)
            if new.hitsplats and not new.waits.keys() & {"food", "potion", "karambwan"} and after.outcome == "running":
                assert new.hitpoints <= old.hitpoints
    attacks = [fighter.attack for scene in scenes for fighter in scene.fighters if fighter.attack]
    assert flights > 5
    assert losses > 100
    assert {attack.style for attack in attacks} == {"melee", "ranged", "magic"}
    assert {attack.prayed for attack in attacks} == {True, False}


def test_other_worlds_put_fighters_beside_each_other() -> None:
    world = FakeWorld()
    world.reset()
    world.step(np.array([[[3, 1, *[0] * 10], [0] * 12]]))
    first, second = scene_of(world, 0, NAMES).fighters
    assert (first.tile, second.tile) == ((0, 0), (1, 0))
    assert first.gear == {}
    assert first.attack is not None
    assert first.attack.damage == 99 - second.hitpoints
