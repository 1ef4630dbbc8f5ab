"""Exercises for humans: what they judge, and that their opponents let somebody who is good score all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sb3_pvp.game import Control, Drill, Outcome, Verdict, find_game, pressed_actions, seen_scene
from sb3_pvp.games.osrs.drills import judge_eating, judge_prayers, judge_switches
from sb3_pvp.games.osrs.rendering.scene import AttackScene, Scene
from sb3_pvp.games.osrs.sim import SimWorld
from sb3_pvp.players.opponents import ScriptedOpponent

NAMES = ("human", "script")
GAME = find_game("NhEnv")
VIEWER: Any = GAME.viewer
CONTROLS: dict[str, Control] = {each.action: each for group in VIEWER.controls() for each in group.controls}
PRAYERS = {"melee": "melee_prayer", "ranged": "ranged_prayer", "magic": "mage_prayer"}
Human = Callable[[Scene, int], list[str]]


def played(drill: Drill, human: Human, seed: int, seat: int = 0) -> tuple[list[Scene], list[NDArray[np.int64]]]:
    """The scenes and the human's actions of a drill, by what it presses when it sees something."""
    world = SimWorld(1, seed=seed, reset_params=drill.reset_params)
    world.reset()
    opponent, other = ScriptedOpponent(drill.opponent, GAME.contract, GAME), 1 - seat
    state = opponent.initial_state([seed])
    scenes, actions = [VIEWER.scene(world, 0, NAMES)], []
    while len(actions) < drill.ticks and world.outcome[0, 0] == Outcome.RUNNING:
        seen = seen_scene(VIEWER, world, 0, NAMES, seat)
        pressed = [CONTROLS[each] for each in human(seen, seat)]
        both = np.zeros((1, 2, GAME.contract.num_heads), np.int64)
        both[0, seat] = pressed_actions(GAME.contract, world.masks[0, seat], pressed, VIEWER.idle(seen, seat))
        begins, masks = np.zeros(1, bool), world.masks[:, other]
        both[:, other], state = opponent.predict(world.obs[:, other], state, begins, False, masks)
        world.step(both)
        scenes.append(VIEWER.scene(world, 0, NAMES))
        actions.append(both[0, seat])
    return scenes, actions


def prays(seen: Scene, seat: int) -> list[str]:
    one = seen.fighters[seat]
    return [PRAYERS[seen.fighters[1 - seat].style], *(["eat_primary_food"] if one.hitpoints < 50 else [])]


def eats(seen: Scene, seat: int) -> list[str]:
    one = seen.fighters[seat]
    if one.hitpoints > 0.5 * one.max_hitpoints:
        return []
    return ["eat_primary_food"] if one.food.get("anglerfish") else ["eat_karambwan"]


def switches(seen: Scene, seat: int) -> list[str]:
    open_to_ice = seen.fighters[1 - seat].overhead != "magic"
    return [] if "attack" in seen.fighters[seat].waits else ["use_ice_spell" if open_to_ice else "basic_ranged_attack"]


def test_there_are_three_drills_of_a_minute() -> None:
    assert [(drill.id, drill.ticks) for drill in VIEWER.drills()] == [
        *(("prayers", 100), ("eating", 100), ("switches", 100)),
    ]
    dharok: Any = find_game("DharokEnv").viewer
    assert dharok.drills() == ()


@pytest.mark.parametrize(("number", "human"), [(0, prays), (1, eats), (2, switches)])
@pytest.mark.parametrize("seat", [0, 1])
def test_who_is_good_scores_all_and_who_sleeps_nothing(number: int, human: Human, seat: int) -> None:
    drill = VIEWER.drills()[number]
    scenes, actions = played(drill, human, seed=6, seat=seat)
    verdicts = drill.judge(scenes, actions, seat)
    assert len(scenes) == 101 and len(verdicts) > 3
    assert [each for each in verdicts if not each.hit] == []
    scenes, actions = played(drill, lambda seen, seat: [], seed=6, seat=seat)
    verdicts = drill.judge(scenes, actions, seat)
    assert len(verdicts) > 3 and not any(each.hit for each in verdicts)
    assert all(0 < each.tick < len(scenes) and each.reason for each in verdicts)
    assert [each.tick for each in verdicts] == sorted(each.tick for each in verdicts)


def test_a_switcher_shows_its_weapon_and_attacks_in_all_styles() -> None:
    scenes, _ = played(VIEWER.drills()[0], prays, seed=8)
    styles = [scene.fighters[1].style for scene in scenes]
    attacks = [(tick, scene.fighters[1].attack) for tick, scene in enumerate(scenes) if scene.fighters[1].attack]
    assert {attack.style for _, attack in attacks if attack} == {"melee", "ranged", "magic"}
    shown = [styles[tick - 1] == attack.style for tick, attack in attacks if attack and tick > 1]
    assert sum(shown) >= 0.9 * len(shown)


def changed(scene: Scene, seat: int, **values: Any) -> Scene:
    fighters = list(scene.fighters)
    fighters[seat] = replace(fighters[seat], **values)
    return replace(scene, fighters=(fighters[0], fighters[1]))


@pytest.fixture(scope="module")
def calm() -> Scene:
    """The start of a fight, without attacks."""
    world = SimWorld(1, seed=0, reset_params=VIEWER.drills()[0].reset_params)
    world.reset()
    start: Scene = VIEWER.scene(world, 0, NAMES)
    return start


def told(verdicts: Sequence[Verdict]) -> list[tuple[int, bool, str]]:
    return [(each.tick, each.hit, each.reason) for each in verdicts]


def test_planted_prayers(calm: Scene) -> None:
    scenes = [calm] * 8
    scenes[2] = changed(changed(calm, 1, attack=AttackScene("magic", 9, False)), 0, overhead="melee")
    scenes[4] = changed(changed(calm, 1, attack=AttackScene("ranged", 4, True)), 0, overhead="ranged")
    scenes[5] = changed(changed(calm, 1, attack=AttackScene("melee", 0, False)), 0, overhead="smite")
    scenes[6] = changed(calm, 0, attack=AttackScene("melee", 50, False))  # the own attack does not matter
    assert told(judge_prayers(scenes, [], 0)) == [
        (2, False, "it attacked with magic while you prayed against melee"),
        (4, True, "you met its ranged attack"),
        (5, False, "it attacked with melee while nothing protected you"),
    ]
    dead = changed(calm, 0, hitpoints=0)
    assert told(judge_prayers([calm, calm, dead], [], 0)) == [(2, False, "you died, which ended the drill")]


def test_planted_meals(calm: Scene) -> None:
    food = {"anglerfish": 3, "karambwan": 1}
    full, low = (changed(calm, 0, hitpoints=each, food=food, waits={}, potions={}) for each in (99, 40))
    fewer = {"anglerfish": 2, "karambwan": 1}
    ate, wasted = changed(low, 0, food=fewer, hitpoints=62), changed(full, 0, food=fewer, hitpoints=121, wasted=5)
    busy = changed(low, 0, waits={"food": 2, "karambwan": 2})
    assert told(judge_eating([full, full, low, low], [], 0)) == [
        (3, False, "you did not eat at 40 of 99 hitpoints"),
    ]
    assert told(judge_eating([low, ate, changed(ate, 0, hitpoints=70)], [], 0)) == [
        (1, True, "you ate in time, at 40 of 99 hitpoints"),
    ]
    assert told(judge_eating([full, wasted], [], 0)) == [
        (1, False, "you ate too early: 5 points were wasted at 99 of 99 hitpoints"),
    ]
    assert judge_eating([busy, busy, busy], [], 0) == []
    assert judge_eating([changed(low, 0, food={})] * 3, [], 0) == []


def test_planted_attacks(calm: Scene) -> None:
    nothing, order = np.zeros(GAME.contract.num_heads, np.int64), np.ones(GAME.contract.num_heads, np.int64)
    ready = changed(changed(calm, 0, waits={}), 1, overhead="magic")
    waiting = changed(ready, 0, waits={"attack": 3})

    def attacked(style: str, overhead: str) -> Scene:
        return changed(changed(waiting, 0, attack=AttackScene(style, 3, False)), 1, overhead=overhead)

    def verdicts(after: Scene, order: NDArray[np.int64]) -> list[tuple[int, bool, str]]:
        return told(judge_switches([ready, after, waiting], [order, nothing], 0))

    assert verdicts(ready, nothing)[0] == (1, False, "you could attack and did not")
    assert verdicts(ready, order)[0] == (1, False, "your attack was out of reach")
    assert verdicts(attacked("magic", "ranged"), order) == [
        (1, False, "you attacked with magic into its prayer against magic"),
    ]
    # It prayed too late for a human to see.
    assert verdicts(attacked("ranged", "ranged"), order) == [(1, True, "you attacked with ranged, off its prayer")]
    assert judge_switches([waiting, waiting], [nothing], 0) == []
