"""What a human may do in these fights, and the reasons why something is impossible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sb3_pvp.game import Outcome, controls_of, find_game, pressed_actions, seen_scene
from sb3_pvp.games.osrs.meta_fields import RANDOMISED
from sb3_pvp.games.osrs.sim import SimWorld

GAMES = ("NhEnv", "DharokEnv")
#: For the page: tabs, closing and starting.
KEYS_OF_PAGES = {"Escape", "Tab", "Enter", " "}


@pytest.mark.parametrize("name", GAMES)
def test_everything_can_be_done_by_one_key(name: str) -> None:
    game = find_game(name)
    groups = controls_of(game.viewer, game.contract)
    controls = [control for group in groups for control in group.controls]
    assert all(len(control.key) == 1 for control in controls)
    assert KEYS_OF_PAGES.isdisjoint(control.key for control in controls)
    done = {each for control in controls for each in (control.action, *control.also)}
    first = {head.actions[0].id for head in game.contract.heads}
    assert {action.id for head in game.contract.heads for action in head.actions} - first <= done
    for control in controls:  # no rule of the contract breaks what a control does
        played = pressed_actions(game.contract, np.ones(game.contract.num_flat_actions, bool), [control])
        for each in (control.action, *control.also):
            head, entry = game.contract.action_index(each)
            assert played[head] == entry
        for head in range(game.contract.num_heads):
            assert game.contract.conditional_mask(np.ones(game.contract.num_flat_actions, bool), played[:head])[
                played[head]
            ]


def test_a_click_on_the_ground_moves_there() -> None:
    viewer: Any = find_game("NhEnv").viewer
    assert viewer.at_offset(0, 0) == "move_under_target"
    assert viewer.at_offset(-1, 0) == viewer.at_offset(0, 1) == "move_next_to_target"
    assert viewer.at_offset(-1, 1) == "move_diagonal_to_target"
    assert viewer.at_offset(2, 1) == "farcast_2_tiles" and viewer.at_offset(0, -9) == "farcast_7_tiles"
    moves = {control.action for group in viewer.controls() for control in group.controls if group.label == "Movement"}
    assert {viewer.at_offset(east, 0) for east in range(9)} <= moves
    dharok: Any = find_game("DharokEnv").viewer
    assert dharok.at_offset(3, 0) is None


@pytest.mark.parametrize("name", GAMES)
def test_there_is_a_true_reason_for_all_that_is_impossible(name: str) -> None:
    game, counts = find_game(name), {"cooldown": 0, "left": 0, "frozen": 0}
    viewer: Any = game.viewer
    world = SimWorld(6, seed=5, reset_params=RANDOMISED if name == "NhEnv" else {}, contract=name)
    world.reset()
    actions = [control.action for group in viewer.controls() for control in group.controls]
    seconds = {
        "use_brew": "brew_doses",
        "use_restore_potion": "super_restore_doses",
        "eat_karambwan": "karambwan_count",
    }
    for _ in range(250):
        if over := np.flatnonzero(world.outcome[:, 0] != Outcome.RUNNING).tolist():
            world.reset(over)
        world.step(world.random_actions())
        for fight in range(6):

            def see(observation: str, fight: int = fight) -> float:
                return float(world.obs[fight, 1, world.contract.observation_index(observation)])

            scene = seen_scene(viewer, world, fight, ("a", "b"), 1)
            reasons = viewer.why_not(scene, 1)
            for action in actions:
                if world.masks[fight, 1, world.contract.flat_index(action)]:
                    continue
                reason = reasons[action]
                assert reason and "\n" not in reason
                if action in seconds:
                    assert reason.endswith("left") == (see(seconds[action]) == 0)
                    counts["left"] += reason.endswith("left")
                if "attack" in action and "cooldown" in reason:
                    assert see("attack_cycle_ticks") > 0
                    counts["cooldown"] += 1
                if "frozen for" in reason:
                    assert scene.fighters[1].frozen_ticks > 0
                    counts["frozen"] += 1
    assert counts["cooldown"] > 50 and counts["left"] > 50 and (counts["frozen"] > 50) == (name == "NhEnv")


def test_the_overhead_prayer_is_kept() -> None:
    game = find_game("NhEnv")
    viewer: Any = game.viewer
    params = {"onlySwitchPrayerWhenAboutToAttack": False}
    world = SimWorld(1, seed=1, reset_params=params)
    world.reset()
    assert viewer.idle(seen_scene(viewer, world, 0, ("a", "b"), 0), 0) == ("no_gear",)
    controls = {control.action: control for group in viewer.controls() for control in group.controls}
    pressed = [controls["ranged_prayer"]]
    gear = viewer.scene(world, 0, ("a", "b")).fighters[0].gear
    for _ in range(5):
        idle = viewer.idle(seen_scene(viewer, world, 0, ("a", "b"), 0), 0)
        mine = pressed_actions(game.contract, world.masks[0, 0], pressed, idle)
        world.step(np.stack([mine, np.zeros_like(mine)])[None])
        pressed = []
        assert seen_scene(viewer, world, 0, ("a", "b"), 0).fighters[0].overhead == "ranged"
        assert viewer.scene(world, 0, ("a", "b")).fighters[0].gear == gear, "nothing was put on"
        assert mine[game.contract.head_index("prayer")] == game.contract.action_index("ranged_prayer")[1]
