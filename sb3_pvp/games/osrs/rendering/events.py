"""The events of a recorded fight, derived from the differences between successive scenes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from sb3_pvp.games.osrs.rendering.scene import FighterScene, Scene

Kind = Literal["attack", "special", "damage", "freeze", "vengeance", "food", "potion", "death", "end"]
SPENT = 0.05  # a larger loss of special energy is a special attack; energy, full at 1, changes in tenths


@dataclass(frozen=True)
class Event:
    """Something that happened in a tick.

    Attributes:
        tick: the index of the recording's moment.
        kind: of event.
        seat: of the fighter, 0 or 1; ``None`` for both.
        text: a description that follows the fighter's name.
        amount: the damage, or the number of pieces or doses used.
        style: of an attack.
        prayed: whether the victim's prayer reduced the attack.
    """

    tick: int
    kind: Kind
    seat: int | None
    text: str
    amount: int = 0
    style: str = ""
    prayed: bool = False


def events_of(scenes: Sequence[Scene]) -> list[Event]:
    """Returns all events in order. An end is included for ties only, whose reason replay pages do not know."""
    events = [event for tick, pair in enumerate(pairwise(scenes), 1) for event in _events_of_tick(tick, *pair)]
    if scenes[-1].outcome == "tied":
        reason = "both fighters died, or one has no food left"  # the outcome does not say which
        events.append(Event(len(scenes) - 1, "end", None, f"the fight is tied: {reason}"))
    return events


def _events_of_tick(tick: int, before: Scene, now: Scene) -> Iterator[Event]:
    """Yields the attacks of both fighters first, then their effects."""
    for seat, (old, new) in enumerate(zip(before.fighters, now.fighters, strict=True)):
        yield from _attacks(tick, seat, old, new)
    for seat, (old, new) in enumerate(zip(before.fighters, now.fighters, strict=True)):
        yield from _effects(tick, seat, old, new)
        yield from _consumption(tick, seat, "food", "eats", old.food, new.food)
        yield from _consumption(tick, seat, "potion", "drinks", old.potions, new.potions)


def _attacks(tick: int, seat: int, old: FighterScene, new: FighterScene) -> Iterator[Event]:
    is_special = old.special_energy - new.special_energy > SPENT
    if new.attack is None:
        if is_special:
            yield Event(tick, "special", seat, f"uses special energy ({new.special_energy:.0%} left)")
        return
    attack, weapon = new.attack, new.gear.get("weapon") or new.weapon
    # Spells do not depend on the weapon, special attacks with magic do.
    with_weapon = f" with {weapon}" if weapon and not (attack.style == "magic" and not is_special) else ""
    rolled = "" if attack.damage is None else f" hits {attack.damage}" if attack.damage else " misses"
    prays = new.overhead is not None
    against = (", against prayer" if attack.prayed else ", off prayer") if prays and attack.damage != 0 else ""
    text = f"{'special ' if is_special else ''}{attack.style} attack{with_weapon}{rolled}{against}"
    kind: Kind = "special" if is_special else "attack"
    yield Event(tick, kind, seat, text, attack.damage or 0, attack.style, attack.prayed)


def _effects(tick: int, seat: int, old: FighterScene, new: FighterScene) -> Iterator[Event]:
    if sum(new.hitsplats):
        numbers = " + ".join(map(str, new.hitsplats))
        left = "" if new.hidden else f", {new.hitpoints} left"  # what is seen of them is a tick late
        yield Event(tick, "damage", seat, f"takes {numbers}{left}", sum(new.hitsplats))
    if new.frozen_ticks > old.frozen_ticks:
        yield Event(tick, "freeze", seat, f"is frozen for {new.frozen_ticks} ticks", new.frozen_ticks)
    if new.vengeance != old.vengeance:
        yield Event(tick, "vengeance", seat, "casts vengeance" if new.vengeance else "strikes back by vengeance")
    if not new.hitpoints and old.hitpoints:
        yield Event(tick, "death", seat, "dies")


def _consumption(
    tick: int, seat: int, kind: Kind, verb: str, old: Mapping[str, int], new: Mapping[str, int]
) -> Iterator[Event]:
    for name, count in old.items():
        if (left := new.get(name, 0)) < count:
            yield Event(tick, kind, seat, f"{verb} {name} ({left} left)", count - left)
