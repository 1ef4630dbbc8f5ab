"""How a player has fought: figures from scenes, and odds that agree with what the world rolls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sb3_pvp.common.arguments import to_plain
from sb3_pvp.game import Outcome, find_game, seen_scene
from sb3_pvp.games.osrs.figures import figures_of
from sb3_pvp.games.osrs.meta_fields import RANDOMISED
from sb3_pvp.games.osrs.rendering.scene import AttackScene, Scene, scene_of
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.games.osrs.sim.state import HITPOINTS

NAMES = ("alice", "bob")
FIGHTS = 16


@pytest.mark.parametrize("name", ["NhEnv", "DharokEnv"])
def test_odds_are_what_happens(name: str) -> None:
    """Over thousands of attacks with all weapons, damage and hits differ from the expected by chance only."""
    world = SimWorld(FIGHTS, seed=3, reset_params=RANDOMISED if name == "NhEnv" else {}, contract=name)
    world.reset()
    energy, rolled = np.ones((FIGHTS, 2)), list[tuple[bool, float, float, float]]()
    for _ in range(250):
        if over := np.flatnonzero(world.outcome[:, 0] != Outcome.RUNNING).tolist():
            world.reset(over)
            energy[over] = 1
        actions = world.random_actions()
        world.step(actions)
        for fight in range(FIGHTS):
            scene = scene_of(world, fight, NAMES, tuple(actions[fight]))
            for seat, fighter in enumerate(scene.fighters):
                special = bool(energy[fight, seat] - fighter.special_energy > 0.05)
                energy[fight, seat] = fighter.special_energy
                if (attack := fighter.attack) is None or attack.damage is None:
                    continue
                odds = attack.special_odds if special else attack.odds
                if odds is None:
                    assert special and "maul" in fighter.gear["weapon"].lower()
                    continue
                assert 0 <= odds[2] <= odds[0] <= 1 + 1e-9
                rolled.append((special, attack.damage, odds[0], odds[1]))
    table = np.array(rolled, float)
    assert len(table) > 1000
    for rows in (table[table[:, 0] == 0], table[table[:, 0] == 1]):
        if len(rows) == 0:  # all special attacks of the Dharok game are those of mauls
            assert name == "DharokEnv"
            continue
        _, damage, chance, mean = rows.T
        assert abs((damage - mean).sum()) < 4 * np.sqrt(((damage - mean) ** 2).sum())
        assert abs(((damage > 0) - chance).sum()) < 4 * np.sqrt((chance * (1 - chance)).sum())


def test_any_damage_kills_whoever_has_one_hitpoint() -> None:
    world, kills = SimWorld(FIGHTS, seed=1, reset_params={"accountBuild": "MAXED"}), list[tuple[float, float]]()
    world.reset()
    for _ in range(12):
        actions = world.random_actions()
        actions[:, 1] = 0
        world.state["level"][:, 1, HITPOINTS] = 1
        world.step(actions)
        scenes = (scene_of(world, fight, NAMES, tuple(actions[fight])) for fight in range(FIGHTS))
        attacks = [scene.fighters[0].attack for scene in scenes]
        kills += [(each.odds[2], each.odds[0]) for each in attacks if each and each.odds]
    assert len(kills) > 10
    for kill, hit in kills:
        assert kill == pytest.approx(hit)


def changed(scene: Scene, seat: int, **values: Any) -> Scene:
    fighters = list(scene.fighters)
    fighters[seat] = replace(fighters[seat], **values)
    return replace(scene, fighters=(fighters[0], fighters[1]))


def test_planted_figures() -> None:
    world = SimWorld(1, seed=0)
    world.reset()
    start = scene_of(world, 0, NAMES)
    ice = changed(start, 0, attack=AttackScene("magic", 20, False, (0.75, 10.0, 0.5), None))
    dagger = changed(start, 0, attack=AttackScene("melee", 0, True, (0.5, 5.0, 0.0), (0.7, 9.5, 0.5)))
    maul = changed(start, 0, attack=AttackScene("melee", 31, False, (0.5, 5.0, 0.0), None), special_energy=0.25)
    scenes = [
        start,
        changed(changed(ice, 1, frozen_ticks=32, hitsplats=(20,)), 0, wasted=7),
        changed(dagger, 0, special_energy=0.75),
        changed(maul, 1, hitsplats=(31,)),
        changed(changed(maul, 0, attack=None, wasted=4), 0, hitsplats=(3, 4)),
    ]
    assert figures_of(scenes, 0) == [
        ("Hits off prayer", "2 of 3 (67%)"),
        ("Damage dealt", "51"),
        ("Damage taken", "7"),
        ("Damage deserved", "19.5, rolled 20 (+0.5, by 2 of 3 attacks)"),
        ("Chance of a kill", "75.0% in 2 attacks"),
        ("Luck of hits", "1 of 2 did damage, 1.4 expected (-0.4)"),
        ("Luck of magic", "1 of 1 did damage, 0.8 expected (+0.2)"),
        ("Freezes", "1 by 1 spell"),
        ("Food wasted", "11 hitpoints in 2 meals"),
    ]
    assert figures_of([start, start], 1) == [
        ("Hits off prayer", "0 of 0"),
        ("Damage dealt", "0"),
        ("Damage taken", "0"),
        ("Freezes", "0 by 0 spells"),
        ("Food wasted", "0 hitpoints"),
    ]


def test_who_eats_with_full_hitpoints_wastes_food() -> None:
    game = find_game("NhEnv")
    world = SimWorld(1, seed=0)
    world.reset()
    actions = np.zeros((1, 2, game.contract.num_heads), np.int64)
    world.state["level"][0, 0, HITPOINTS] = 105
    actions[0, 0, game.contract.head_index("food")] = 1
    world.step(actions)
    full, seen = scene_of(world, 0, NAMES), seen_scene(game.viewer, world, 0, NAMES, 0)
    assert full.fighters[0].wasted == seen.fighters[0].wasted == 105 + 22 - (99 + 22)
    assert seen_scene(game.viewer, world, 0, NAMES, 1).fighters[0].wasted == 0


def test_scenes_with_odds_are_read_back_and_players_are_not_told() -> None:
    game = find_game("NhEnv")
    viewer: Any = game.viewer
    world, told = SimWorld(1, seed=2), 0
    world.reset()
    for _ in range(40):
        world.step(world.random_actions())
        scene = viewer.scene(world, 0, NAMES)
        assert to_plain(viewer.read_scene(to_plain(scene))) == to_plain(scene)
        attacks = [fighter.attack for fighter in seen_scene(viewer, world, 0, NAMES, 0).fighters if fighter.attack]
        assert all(attack.odds is None and attack.special_odds is None for attack in attacks)
        told += sum(fighter.attack is not None and fighter.attack.odds is not None for fighter in scene.fighters)
    assert told > 3
    old = to_plain(scene)
    for fighter in old["fighters"]:
        fighter.get("attack", {}).pop("odds", None)
        fighter.pop("wasted", None)
    assert viewer.read_scene(old).tick == scene.tick  # a recording of before
