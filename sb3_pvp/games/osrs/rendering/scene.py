"""All that is to see of a fight in one tick, as plain values: what text, picture and page are views of.

`dataclasses.asdict` makes JSON of it. Styles are ``"melee"``, ``"ranged"``, ``"magic"`` or ``"none"``; ticks are game
ticks, distances tiles, damage and levels points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.names import require_known
from sb3_pvp.game import NUM_SEATS, Outcome, World
from sb3_pvp.games.osrs.rendering import dharok, nh
from sb3_pvp.games.osrs.rendering.embedded import SeatFacts, seat_facts
from sb3_pvp.games.osrs.rendering.fighter import SKILLS, STYLE_NAMES, Fighter, Look
from sb3_pvp.games.osrs.report import Style

LOOKS = {"NhEnv": nh.LOOK, "DharokEnv": dharok.LOOK}


@dataclass(frozen=True)
class HeadScene:
    """A decision of a fighter.

    Attributes:
        id: of the head.
        entries: the ids of its sub-actions; the first one does nothing.
        chosen: the position of what it chose; ``None`` if that is unknown (the world's bot, or no tick was played).
        open: which entries were not masked when it chose; ``None`` if that is unknown.
    """

    id: str
    entries: tuple[str, ...]
    chosen: int | None = None
    open: tuple[bool, ...] | None = None


@dataclass(frozen=True)
class AttackScene:
    """An attack that was launched in this tick: its ``damage`` was rolled, and has yet to land if it flies.

    ``prayed``: the other fighter's prayer took its part of it.
    """

    style: str
    damage: int
    prayed: bool = False


@dataclass(frozen=True)
class ProjectileScene:
    """A hit on its way to a fighter, which lands in ``ticks`` ticks; ``damage`` is ``None`` if the world hides it."""

    style: str
    ticks: int
    damage: int | None = None


@dataclass(frozen=True)
class FighterScene:
    """A fighter at the end of a tick.

    Attributes:
        name: of who plays.
        hitpoints: points; above ``max_hitpoints`` after some food.
        max_hitpoints: its level.
        prayer: points.
        max_prayer: its level.
        special_energy: full at 1.
        levels: how far the skills attack, strength, defence, ranged and magic are from their base, where they are.
        style: of the wielded weapon.
        weapon: what the contract calls it; empty if it only knows the style.
        special_weapon: the weapon is there for special attacks in melee.
        gear: the worn items by slot (``"weapon"``, ``"head"``, …); empty if the world does not tell.
        armor_off: it took its armour off.
        overhead: ``"none"``, ``"melee"``, ``"ranged"``, ``"magic"``, ``"smite"`` or ``"redemption"``; ``None`` in games
            without overhead prayers.
        frozen_ticks: how long it still cannot walk.
        freeze_immunity_ticks: how long it still cannot be frozen again.
        vengeance: a spell waits to strike back.
        tile: x (east) and y (north). A world that does not tell where fighters stand puts them beside each other.
        can_melee: it stands where it can hit with a blade; ``None`` in games where that is always so.
        moving: it walked.
        first: it is processed first in a tick (PID).
        food_bars: what its food heals, in full health bars; ``brew_bars``: what its brews heal.
        food: pieces by name, those that it has; ``potions``: doses by name.
        waits: ticks until it may attack, eat, drink, … again, where it has to wait.
        hitsplats: the damage numbers that were shown on it.
        attack: what it launched, if anything; the last one counts.
        incoming: hits on their way to it, the next one first.
        heads: its decisions, in the contract's order; none if nobody knows anything of them.
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


@dataclass(frozen=True)
class Scene:
    """A fight at the end of a tick.

    Attributes:
        contract: the name of the game's contract.
        tick: the number of ticks played; 0 at the start.
        outcome: of the first fighter: the name of an `Outcome` in small letters, or what the environment makes of it
            (``"timeout"``).
        distance: between the fighters; 0 on the same tile.
        fighters: seats 0 and 1.
    """

    contract: str
    tick: int
    outcome: str
    distance: int
    fighters: tuple[FighterScene, FighterScene]


def scene_of(
    world: World,
    fight: int,
    names: Sequence[str],
    actions: Sequence[NDArray[np.int64] | None] = (None, None),
    masks: Sequence[NDArray[np.bool_] | None] = (None, None),
) -> Scene:
    """The last tick of a fight. Of the embedded world it knows tiles, worn items and all hits on their way.

    Args:
        world: where the fight takes place.
        fight: its number.
        names: of the two fighters.
        actions: what they chose in this tick, ints ``(heads,)`` each.
        masks: what they could choose from (the masks before the tick), bool ``(A,)`` each.

    Raises:
        ValueError: for a contract whose fighters nobody knows how to draw.
    """
    seats = range(NUM_SEATS)
    fighters = [
        Fighter(
            names[seat], world.contract, world.obs[fight, seat], world.report[fight, seat], actions[seat], masks[seat]
        )
        for seat in seats
    ]
    facts = [seat_facts(world, fight, seat) for seat in seats]
    return fighters_scene(fighters, Outcome(int(world.outcome[fight, 0])), facts)


def fighters_scene(
    fighters: Sequence[Fighter],
    outcome: Outcome = Outcome.RUNNING,
    facts: Sequence[SeatFacts | None] = (None, None),
) -> Scene:
    """See `scene_of`; ``outcome`` is that of the first fighter, ``facts`` are what only the embedded world tells."""
    first, second = fighters
    contract = first.contract.name
    require_known("contract to draw", contract, LOOKS)
    distance = int(first.meta["distance"])
    return Scene(
        contract=contract,
        tick=int(first.meta["episode_ticks"]),
        outcome=outcome.name.lower(),
        distance=distance,
        fighters=(
            _fighter_scene(first, second, facts[0], (0, 0)),
            _fighter_scene(second, first, facts[1], (distance, 0)),
        ),
    )


def _fighter_scene(fighter: Fighter, foe: Fighter, facts: SeatFacts | None, tile: tuple[int, int]) -> FighterScene:
    """``tile`` is where to put it if nobody knows where it stands."""
    meta, look = fighter.meta, LOOKS[fighter.contract.name]
    max_hitpoints, max_prayer = (look.base_level(fighter, skill) for skill in ("hitpoints", "prayer"))
    return FighterScene(
        name=fighter.name,
        hitpoints=_points(meta["current_health_percent"], max_hitpoints),
        max_hitpoints=max_hitpoints,
        prayer=_points(meta["current_prayer_percent"], max_prayer),
        max_prayer=max_prayer,
        special_energy=fighter.see("special_energy_percent") / look.full_energy,
        levels=_levels(fighter, look),
        style=STYLE_NAMES[Style(int(meta["player_attack_style_type"]))],
        weapon=look.weapon(fighter),
        special_weapon=fighter.sees(look.special_weapon),
        gear=facts.gear if facts else {},
        armor_off=fighter.sees(look.armor_off),
        overhead=look.overhead(fighter),
        frozen_ticks=int(meta["player_frozen_ticks"]),
        freeze_immunity_ticks=fighter.count(look.freeze_immunity),
        vengeance=fighter.sees(look.vengeance),
        tile=facts.tile if facts else tile,
        can_melee=fighter.sees(look.can_melee) if look.can_melee else None,
        moving=fighter.sees(look.moving),
        first=fighter.sees("player_has_pid"),
        food_bars=float(meta["remaining_food_scale"]),
        brew_bars=float(meta["remaining_brew_scale"]),
        food=_counts(fighter, look.food) | (facts.uncounted_food if facts else {}),
        potions=_counts(fighter, look.potions),
        waits=_waits(fighter, look),
        hitsplats=facts.hitsplats if facts else _hitsplats(fighter, max_hitpoints),
        attack=_attack(fighter, look.base_level(foe, "hitpoints")),
        incoming=_incoming(fighter, look, facts),
        heads=_heads(fighter),
    )


def _points(fraction: float, base: int) -> int:
    """Whoever has something left has a point."""
    return max(round(float(fraction) * base), 1 if fraction > 0 else 0)


def _levels(fighter: Fighter, look: Look) -> dict[str, int]:
    scales = {skill: float(fighter.meta[f"{skill}_level_scale"]) - 1.0 for skill in SKILLS}
    changes = {skill: round(scale * look.base_level(fighter, skill)) for skill, scale in scales.items()}
    return {skill: change for skill, change in changes.items() if change}


def _counts(fighter: Fighter, supplies: Mapping[str, str]) -> dict[str, int]:
    return {name: count for name, observation in supplies.items() if (count := fighter.count(observation))}


def _waits(fighter: Fighter, look: Look) -> dict[str, int]:
    ticks = {name: round(fighter.see(observation) * unit) for name, (observation, unit) in look.waits.items()}
    return {name: wait for name, wait in ticks.items() if wait}


def _hitsplats(fighter: Fighter, hitpoints: int) -> tuple[int, ...]:
    """Worlds behind a wire tell the sum only."""
    shown = fighter.see("damage_on_player_tick")
    return (round(shown * hitpoints),) if shown > 0 else ()


def _attack(fighter: Fighter, hitpoints: int) -> AttackScene | None:
    """Damage is told as a part of the other one's ``hitpoints``."""
    meta = fighter.meta
    if not meta["hit_present"]:
        return None
    damage = round(float(meta["damage_generated_on_target_scale"]) * hitpoints)
    return AttackScene(STYLE_NAMES[Style(int(meta["attack_type_hit"]))], damage, not meta["hit_off_prayer"])


def _incoming(fighter: Fighter, look: Look, facts: SeatFacts | None) -> tuple[ProjectileScene, ...]:
    """Worlds behind a wire tell at most when the next hit lands."""
    if facts is not None:
        return tuple(ProjectileScene(style, ticks, damage) for style, ticks, damage in facts.incoming)
    ticks = fighter.count(look.next_hit) if look.next_hit else -1
    return (ProjectileScene("none", ticks + 1),) if ticks >= 0 else ()


def _heads(fighter: Fighter) -> tuple[HeadScene, ...]:
    contract, scenes = fighter.contract, []
    if fighter.actions is None and fighter.mask is None:
        return ()
    for index, head in enumerate(contract.heads):
        begin, end = contract.head_offsets[index : index + 2]
        chosen = None if fighter.actions is None else int(fighter.actions[index])
        open_entries = None if fighter.mask is None else tuple(fighter.mask[begin:end].tolist())
        scenes.append(HeadScene(head.id, tuple(action.id for action in head.actions), chosen, open_entries))
    return tuple(scenes)
