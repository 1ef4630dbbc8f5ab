"""How a player has fought, in the figures that players of the game know from its trackers of performance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sb3_pvp.games.osrs.rendering.events import SPENT
from sb3_pvp.games.osrs.rendering.scene import AttackScene, Scene

Odds = tuple[float, float, float]


def figures_of(scenes: Sequence[Scene], seat: int) -> list[tuple[str, str]]:
    """Returns pairs of a label and a text for the player of a seat, from full scenes, the start first.

    What is due to luck is compared with what the levels, gear and prayers of each attack let expect. That leaves out
    the special attacks of granite mauls, and all on servers, which tell none of these.
    """
    other, attacks, ticks = 1 - seat, list[AttackScene](), list[tuple[AttackScene, Odds]]()
    for before, now in pairwise(scenes):
        attack = now.fighters[seat].attack
        if attack is not None:
            spent = before.fighters[seat].special_energy - now.fighters[seat].special_energy > SPENT
            attacks.append(attack)
            if (odds := attack.special_odds if spent else attack.odds) is not None:
                ticks.append((attack, odds))
    dealt, taken = (sum(sum(scene.fighters[each].hitsplats) for scene in scenes[1:]) for each in (other, seat))
    found = [("Damage dealt", f"{dealt}"), ("Damage taken", f"{taken}")]
    if scenes[0].fighters[seat].overhead is not None:
        off = sum(not attack.prayed for attack in attacks)
        found.insert(0, ("Hits off prayer", _of(off, len(attacks))))
    if ticks:
        rolled, deserved = sum(attack.damage or 0 for attack, _ in ticks), sum(mean for _, (_, mean, _) in ticks)
        counted = "" if len(ticks) == len(attacks) else f", by {len(ticks)} of {len(attacks)} attacks"
        found.append(("Damage deserved", f"{deserved:.1f}, rolled {rolled} ({rolled - deserved:+.1f}{counted})"))
        found.append(("Chance of a kill", _kills([kill for _, (_, _, kill) in ticks])))
        found.append(("Luck of hits", _luck(ticks)))
        if magic := [each for each in ticks if each[0].style == "magic"]:
            found.append(("Luck of magic", _luck(magic)))
    if scenes[0].contract == "NhEnv":
        freezes = sum(
            new.fighters[other].frozen_ticks > old.fighters[other].frozen_ticks for old, new in pairwise(scenes)
        )
        casts = sum(attack.style == "magic" for attack in attacks)
        found.append(("Freezes", f"{freezes} by {casts} spell{'s' * (casts != 1)}"))
    wasted = [scene.fighters[seat].wasted for scene in scenes if scene.fighters[seat].wasted]
    meals = f" in {len(wasted)} meal{'s' * (len(wasted) != 1)}" if wasted else ""
    return [*found, ("Food wasted", f"{sum(wasted)} hitpoints{meals}")]


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({part / whole:.0%})" if whole else "")


def _luck(ticks: Sequence[tuple[AttackScene, Odds]]) -> str:
    hits, expected = sum(bool(attack.damage) for attack, _ in ticks), sum(chance for _, (chance, _, _) in ticks)
    return f"{hits} of {len(ticks)} did damage, {expected:.1f} expected ({hits - expected:+.1f})"


def _kills(chances: Sequence[float]) -> str:
    """Returns the number of attacks that could have killed, and how likely it was that one of them does."""
    none, able = 1.0, [chance for chance in chances if chance > 0]
    for chance in able:
        none *= 1 - chance
    return f"{1 - none:.1%} in {len(able)} attack{'s' * (len(able) != 1)}"
