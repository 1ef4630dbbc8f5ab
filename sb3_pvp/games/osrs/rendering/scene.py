"""The visible state of a fight in one tick as plain values, from which text, picture and replay page are drawn.

Styles are ``"melee"``, ``"ranged"``, ``"magic"`` or ``"none"``. Times are in ticks, distances in tiles, damage and
levels in points. The dataclasses are part of the format of recorded fights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.errors import require_known
from sb3_pvp.game import NUM_SEATS, Outcome, World
from sb3_pvp.game.contract import Head, load_contract
from sb3_pvp.games.osrs.meta_fields import Style
from sb3_pvp.games.osrs.rendering import dharok, nh
from sb3_pvp.games.osrs.rendering.embedded import SeatFacts, seat_facts
from sb3_pvp.games.osrs.rendering.fighter import SKILLS, STYLE_NAMES, ObservationMap, ShownFighter

OBSERVATION_MAPS = {"NhEnv": nh.OBSERVATION_MAP, "DharokEnv": dharok.OBSERVATION_MAP}


@dataclass(frozen=True)
class HeadScene:
    """A fighter's choice in one action head.

    Attributes:
        id: of the head.
        entries: the ids of its sub-actions; the first one does nothing.
        chosen: the position of the chosen entry; ``None`` if unknown (for the world's bot, and before the first tick).
        open: which entries were not masked; ``None`` if unknown.
    """

    id: str
    entries: tuple[str, ...]
    chosen: int | None = None
    open: tuple[bool, ...] | None = None


@dataclass(frozen=True)
class AttackScene:
    """An attack that was launched in this tick. Its ``damage`` is rolled already, but a projectile has yet to land.

    Attributes:
        style: of the attack.
        damage: of all its hits; ``None`` if it is hidden.
        prayed: whether the other fighter's prayer reduced it.
        odds: its chance to do damage, its mean damage, and its chance to kill; ``None`` if the world does not tell.
        special_odds: the same, if it is a special attack: that shows by the special energy of the tick before.
    """

    style: str
    damage: int | None
    prayed: bool = False
    odds: tuple[float, float, float] | None = None
    special_odds: tuple[float, float, float] | None = None


#: Of both seats, by head; ``None``: unknown.
Choices = Sequence[Sequence[Any] | None]


@dataclass(frozen=True)
class ProjectileScene:
    """A hit that lands in ``ticks`` ticks; ``damage`` is ``None`` if the world hides it."""

    style: str
    ticks: int
    damage: int | None = None


@dataclass(frozen=True)
class FighterScene:
    """A fighter at the end of a tick.

    Attributes:
        name: of the player.
        hitpoints, prayer: points; hitpoints are above ``max_hitpoints`` after some food.
        max_hitpoints, max_prayer: the base levels.
        special_energy: full at 1.
        style: of the wielded weapon.
        weapon: its name in the contract; empty if that only has the style.
        special_weapon: whether the weapon is one for melee special attacks.
        armor_off: whether the armour was taken off.
        overhead: ``"none"``, ``"melee"``, ``"ranged"``, ``"magic"``, ``"smite"`` or ``"redemption"``; ``None`` in games
            without overhead prayers.
        frozen_ticks, freeze_immunity_ticks: ticks until it can walk, and be frozen, again.
        vengeance: whether the vengeance spell is active.
        tile: x (east) and y (north). Without positions from the world, the fighters are placed beside each other.
        can_melee: whether it is in melee range; ``None`` in games where it always is.
        moving: whether it walked.
        first: whether it is processed first in a tick (PID).
        food_bars, brew_bars: what its food and its brews heal, in full health bars.
        levels: changes of attack, strength, defence, ranged and magic from the base level, except zeros.
        gear: the worn items by slot (``"weapon"``, ``"head"``, …); empty if unknown.
        food, potions: pieces and doses by name, except zeros.
        waits: ticks until it may attack, eat, drink, … again, except zeros.
        hitsplats: the damage numbers that appeared on it.
        attack: the last attack that it launched, if any.
        incoming: hits on their way to it, the next one first.
        heads: its choices in the contract's order; empty if unknown.
        wasted: points that its food and brews of this tick would have healed above the most that they can.
        hidden: whether only the other player sees its prayer points, levels, gear and supplies, so that there are none
            here. Its hitpoints are then those that were last seen, 0 before they were.
    """

    name: str
    hitpoints: int
    max_hitpoints: int
    prayer: int
    max_prayer: int
    special_energy: float
    style: str
    weapon: str
    special_weapon: bool
    armor_off: bool
    overhead: str | None
    frozen_ticks: int
    freeze_immunity_ticks: int
    vengeance: bool
    tile: tuple[int, int]
    can_melee: bool | None
    moving: bool
    first: bool
    food_bars: float
    brew_bars: float
    levels: Mapping[str, int] = field(default_factory=dict)
    gear: Mapping[str, str] = field(default_factory=dict)
    food: Mapping[str, int] = field(default_factory=dict)
    potions: Mapping[str, int] = field(default_factory=dict)
    waits: Mapping[str, int] = field(default_factory=dict)
    hitsplats: tuple[int, ...] = ()
    attack: AttackScene | None = None
    incoming: tuple[ProjectileScene, ...] = ()
    heads: tuple[HeadScene, ...] = ()
    wasted: int = 0
    hidden: bool = False


@dataclass(frozen=True)
class Scene:
    """A fight at the end of a tick.

    Attributes:
        contract: its name.
        tick: the number of ticks played; 0 at the start.
        outcome: of the first fighter: the name of an `Outcome` in lower case, or ``"timeout"``, which the environment
            adds.
        distance: between the fighters; 0 on the same tile.
        fighters: seats 0 and 1.
    """

    contract: str
    tick: int
    outcome: str
    distance: int
    fighters: tuple[FighterScene, FighterScene]


def with_choices(scene: Scene, chosen: Choices, masks: Choices) -> Scene:
    """Returns a scene that was made without choices, with those of both seats and what was open, by head."""
    heads = load_contract(scene.contract).heads
    fighters = [
        replace(
            fighter, heads=tuple(map(_choices, heads, own, repeat(None) if legal is None else legal)) if own else ()
        )
        for fighter, own, legal in zip(scene.fighters, chosen, masks, strict=True)
    ]
    return replace(scene, fighters=(fighters[0], fighters[1]))


def _choices(head: Head, chosen: int, mask: str | None) -> HeadScene:
    is_open = None if mask is None else tuple(each == "1" for each in mask)
    return HeadScene(head.id, tuple(each.id for each in head.actions), chosen, is_open)


def scene_of(
    world: World,
    fight: int,
    names: Sequence[str],
    actions: Sequence[NDArray[np.int64] | None] = (None, None),
    masks: Sequence[NDArray[np.bool_] | None] = (None, None),
) -> Scene:
    """Returns the scene after the last tick; in the embedded world with tiles, worn items and all hits on their way.

    Args:
        world: the world of the fight.
        fight: its number.
        names: of the two players.
        actions: of both seats in this tick, ints ``(heads,)`` each; ``None`` if unknown.
        masks: that applied to them, from before the tick, bool ``(A,)`` each; ``None`` if unknown.

    Raises `ValueError` for a contract other than those of NhEnv and DharokEnv.
    """
    seats = range(NUM_SEATS)
    fighters = [
        ShownFighter(
            names[seat], world.contract, world.obs[fight, seat], world.report[fight, seat], actions[seat], masks[seat]
        )
        for seat in seats
    ]
    facts = [seat_facts(world, fight, seat, _casts_blood(world, actions[seat])) for seat in seats]
    return fighters_scene(fighters, Outcome(int(world.outcome[fight, 0])), facts)


def fighters_scene(
    fighters: Sequence[ShownFighter],
    outcome: Outcome = Outcome.RUNNING,
    facts: Sequence[SeatFacts | None] = (None, None),
) -> Scene:
    """Returns the scene of two fighters; ``outcome`` is the first one's, ``facts`` come from the embedded world."""
    first, second = fighters
    contract = first.contract.name
    require_known("contract to draw", contract, OBSERVATION_MAPS)
    distance = int(first.meta["distance"])
    return Scene(
        contract=contract,
        tick=int(first.meta["episode_ticks"]),
        outcome=outcome.name.lower(),
        distance=distance,
        fighters=(
            fighter_scene(first, second, facts[0], (0, 0)),
            fighter_scene(second, first, facts[1], (distance, 0)),  # to the east: the direction is unknown
        ),
    )


def fighter_scene(
    fighter: ShownFighter, foe: ShownFighter, facts: SeatFacts | None, tile: tuple[int, int]
) -> FighterScene:
    """Returns the scene of one fighter; ``tile`` is its place if the facts do not include one."""
    meta, ids = fighter.meta, OBSERVATION_MAPS[fighter.contract.name]
    max_hitpoints, max_prayer = (ids.base_level(fighter, skill) for skill in ("hitpoints", "prayer"))
    return FighterScene(
        name=fighter.name,
        hitpoints=points_of(meta["current_health_percent"], max_hitpoints),
        max_hitpoints=max_hitpoints,
        prayer=points_of(meta["current_prayer_percent"], max_prayer),
        max_prayer=max_prayer,
        special_energy=fighter.see("special_energy_percent") / ids.full_energy,
        levels=_levels(fighter, ids),
        style=STYLE_NAMES[Style(int(meta["player_attack_style_type"]))],
        weapon=ids.weapon(fighter),
        special_weapon=fighter.sees(ids.special_weapon),
        gear=facts.gear if facts else {},
        armor_off=fighter.sees(ids.armor_off),
        overhead=ids.overhead(fighter),
        frozen_ticks=int(meta["player_frozen_ticks"]),
        freeze_immunity_ticks=fighter.count(ids.freeze_immunity),  # 0 in contracts without it
        vengeance=fighter.sees(ids.vengeance),
        tile=facts.tile if facts else tile,
        can_melee=fighter.sees(ids.can_melee) if ids.can_melee else None,
        moving=fighter.sees(ids.moving),
        first=fighter.sees("player_has_pid"),
        food_bars=float(meta["remaining_food_scale"]),
        brew_bars=float(meta["remaining_brew_scale"]),
        food=_counts(fighter, ids.food) | (facts.uncounted_food if facts else {}),
        potions=_counts(fighter, ids.potions),
        waits=waits_of(fighter, ids),
        hitsplats=facts.hitsplats if facts else _hitsplats(fighter, max_hitpoints),
        attack=_attack(fighter, ids.base_level(foe, "hitpoints"), facts),
        incoming=_incoming(fighter, ids, facts),
        heads=_heads(fighter),
        wasted=round((meta["wasted_food_scale"] + meta["wasted_brew_scale"]) * max_hitpoints),  # 0 unless present
    )


def points_of(fraction: float, base: int) -> int:
    """Converts a fraction to points; at least 1 if it is positive, since 0 means none left."""
    return max(round(float(fraction) * base), 1 if fraction > 0 else 0)


def _levels(fighter: ShownFighter, ids: ObservationMap) -> dict[str, int]:
    # Meta records have the current level as a share of the base level.
    scales = {skill: float(fighter.meta[f"{skill}_level_scale"]) - 1.0 for skill in SKILLS}
    changes = {skill: round(scale * ids.base_level(fighter, skill)) for skill, scale in scales.items()}
    return {skill: change for skill, change in changes.items() if change}


def _counts(fighter: ShownFighter, supplies: Mapping[str, str]) -> dict[str, int]:
    return {name: count for name, observation in supplies.items() if (count := fighter.count(observation))}


def waits_of(fighter: ShownFighter, ids: ObservationMap) -> dict[str, int]:
    ticks = {name: round(fighter.see(observation) * unit) for name, (observation, unit) in ids.waits.items()}
    return {name: wait for name, wait in ticks.items() if wait}


def _hitsplats(fighter: ShownFighter, hitpoints: int) -> tuple[int, ...]:
    """Returns the damage that appeared, as one number: a server only sends the sum."""
    shown = fighter.see("damage_on_player_tick")
    return (round(shown * hitpoints),) if shown > 0 else ()


def _casts_blood(world: World, actions: NDArray[np.int64] | None) -> bool:
    """Returns whether a spell of these actions is one of blood; if they are unknown, of ice."""
    if actions is None or world.contract.name != "NhEnv":
        return False
    head, entry = world.contract.action_index("use_blood_spell")
    return bool(actions[head] == entry)


def _attack(fighter: ShownFighter, hitpoints: int, facts: SeatFacts | None) -> AttackScene | None:
    """Returns the fighter's attack in this tick, whose damage is reported in shares of the foe's ``hitpoints``."""
    meta = fighter.meta
    if not meta["hit_present"]:
        return None
    damage = round(float(meta["damage_generated_on_target_scale"]) * hitpoints)
    style, odds = STYLE_NAMES[Style(int(meta["attack_type_hit"]))], facts.odds if facts else (None, None)
    return AttackScene(style, damage, not meta["hit_off_prayer"], *odds)


def _incoming(fighter: ShownFighter, ids: ObservationMap, facts: SeatFacts | None) -> tuple[ProjectileScene, ...]:
    """Returns the hits on their way to a fighter; a server sends at most the time of the next one."""
    if facts is not None:
        return tuple(ProjectileScene(style, ticks, damage) for style, ticks, damage in facts.incoming)
    ticks = fighter.count(ids.next_hit) if ids.next_hit else -1  # -1 is also the observation for no hit
    return (ProjectileScene("none", ticks + 1),) if ticks >= 0 else ()


def _heads(fighter: ShownFighter) -> tuple[HeadScene, ...]:
    contract, scenes = fighter.contract, []
    if fighter.actions is None and fighter.mask is None:
        return ()
    for index, head in enumerate(contract.heads):
        begin, end = contract.head_offsets[index : index + 2]
        chosen = None if fighter.actions is None else int(fighter.actions[index])
        open_entries = None if fighter.mask is None else tuple(fighter.mask[begin:end].tolist())
        scenes.append(HeadScene(head.id, tuple(action.id for action in head.actions), chosen, open_entries))
    return tuple(scenes)
