"""Exercises for a human, a minute each: prayers, eating, and attacks off prayer, with the reason of each miss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import Drill, Verdict
from sb3_pvp.games.osrs.rendering.scene import FighterScene, Scene

MINUTE = 100  # ticks
LOW = 0.5  # of the hitpoints: a fighter in a drill has to eat from here on
#: Free switches, as in the game itself: fighters are usually held to those that matter (nh-actions.md §4).
_FREE = {
    "accountBuild": "MED",
    "onlySwitchPrayerWhenAboutToAttack": False,
    "onlySwitchGearWhenAttackSoon": False,
    "allowMovingIfCanAttack": True,
}
_ATTACK = 0  # the head of attacks, whose entry 0 is none
Actions = Sequence[NDArray[np.int64]]


def _until_death(verdicts: Iterator[Verdict], scenes: Sequence[Scene], seat: int) -> list[Verdict]:
    dead = [tick for tick, scene in enumerate(scenes) if scene.fighters[seat].hitpoints <= 0]
    found = [each for each in verdicts if not dead or each.tick <= dead[0]]
    return [*found, *(Verdict(tick, False, "you died, which ended the drill") for tick in dead[:1])]


def judge_prayers(scenes: Sequence[Scene], actions: Actions, seat: int) -> list[Verdict]:
    """Judges each attack of the opponent by the protection prayer that it met when it was made."""

    def verdicts() -> Iterator[Verdict]:
        for tick, scene in enumerate(scenes):
            attack, overhead = scene.fighters[1 - seat].attack, scene.fighters[seat].overhead
            if attack is None or tick == 0:
                continue
            held = (
                f"you prayed against {overhead}"
                if overhead in ("melee", "ranged", "magic")
                else "nothing protected you"
            )
            said = (
                f"you met its {attack.style} attack"
                if attack.prayed
                else f"it attacked with {attack.style} while {held}"
            )
            yield Verdict(tick, attack.prayed, said)

    return _until_death(verdicts(), scenes, seat)


def _pieces(one: FighterScene) -> int:
    return sum(one.food.values()) + one.potions.get("brew", 0)


def _can_eat(one: FighterScene) -> bool:
    main = any(count for name, count in one.food.items() if name != "karambwan") and "food" not in one.waits
    return main or (one.food.get("karambwan", 0) > 0 and "karambwan" not in one.waits)


def judge_eating(scenes: Sequence[Scene], actions: Actions, seat: int) -> list[Verdict]:
    """Judges each piece of food or dose of a brew by its waste, and each tick with few hitpoints and none eaten."""

    def verdicts() -> Iterator[Verdict]:
        for tick, (before, now) in enumerate(pairwise(each.fighters[seat] for each in scenes), 1):
            health = f"{before.hitpoints} of {before.max_hitpoints} hitpoints"
            if _pieces(now) < _pieces(before):
                wasted = f"you ate too early: {now.wasted} points were wasted at {health}"
                yield Verdict(tick, not now.wasted, wasted if now.wasted else f"you ate in time, at {health}")
            elif 0 < before.hitpoints <= LOW * before.max_hitpoints and _can_eat(before):
                yield Verdict(tick, False, f"you did not eat at {health}")

    return _until_death(verdicts(), scenes, seat)


def judge_switches(scenes: Sequence[Scene], actions: Actions, seat: int) -> list[Verdict]:
    """Judges each tick in which the player could attack by the prayer that it saw the opponent in before."""

    def verdicts() -> Iterator[Verdict]:
        for tick, (before, now) in enumerate(pairwise(scenes), 1):
            me, attack, overhead = before.fighters[seat], now.fighters[seat].attack, before.fighters[1 - seat].overhead
            if "attack" in me.waits or before.fighters[1 - seat].hitpoints <= 0:
                continue
            if attack is None:
                ordered = actions[tick - 1][_ATTACK] != 0
                said = "your attack was out of reach" if ordered else "you could attack and did not"
            elif attack.style == overhead:
                said = f"you attacked with {attack.style} into its prayer against {overhead}"
            else:
                said = f"you attacked with {attack.style}, off its prayer"
            yield Verdict(tick, attack is not None and attack.style != overhead, said)

    return _until_death(verdicts(), scenes, seat)


DRILLS = (
    Drill(
        "prayers",
        "Prayer switching",
        "Pray against the weapon that it wields: each of its attacks must meet the right protection prayer.",
        "switcher",
        _FREE,
        MINUTE,
        judge_prayers,
    ),
    Drill(
        "eating",
        "Eating under fire",
        "Stay alive: eat at half of your hitpoints, and waste nothing.",
        "scripted",
        _FREE,
        MINUTE,
        judge_eating,
    ),
    Drill(
        "switches",
        "Switch and attack",
        "Attack as soon as you can, in a style that it does not pray against.",
        "guard",
        _FREE,
        MINUTE,
        judge_switches,
    ),
)
