"""What happened in a recorded fight, tick by tick, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from sb3_pvp.games.osrs.rendering.scene import FighterScene, Scene

Kind = Literal["attack", "special", "damage", "freeze", "vengeance", "food", "potion", "death", "end"]
#: Special energy comes in tenths; whoever has less than before by this much has used it.
_SPENT = 0.05


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes:
        tick: when: the number of the recording's moment.
        kind: of event.
        seat: whom it is about, 0 or 1; ``None``: both.
        text: what, without the fighter's name in front.
        amount: damage, or how much was used up.
        style: of an attack.
        prayed: the victim prayed against that attack.
    """

    tick: int
    kind: Kind
    seat: int | None
    text: str
    amount: int = 0
    style: str = ""
    prayed: bool = False


def events_of(scenes: Sequence[Scene]) -> list[Event]:
    """All events from scene to scene, in order; an end only where this game has more to say than who wins."""
    events = [event for tick, pair in enumerate(pairwise(scenes), 1) for event in _tick(tick, *pair)]
    if scenes[-1].outcome == "tied":
        events.append(Event(len(scenes) - 1, "end", None, "nobody wins: both are dead, or nobody has food left"))
    return events


def _tick(tick: int, before: Scene, now: Scene) -> Iterator[Event]:
    """Attacks of both first, then what became of the fighters."""
    for seat, (old, new) in enumerate(zip(before.fighters, now.fighters, strict=True)):
        yield from _attack(tick, seat, old, new)
    for seat, (old, new) in enumerate(zip(before.fighters, now.fighters, strict=True)):
        yield from _suffered(tick, seat, old, new)
        yield from _used(tick, seat, "food", "eats", old.food, new.food)
        yield from _used(tick, seat, "potion", "drinks", old.potions, new.potions)


def _attack(tick: int, seat: int, old: FighterScene, new: FighterScene) -> Iterator[Event]:
    is_special = old.special_energy - new.special_energy > _SPENT
    if new.attack is None:
        if is_special:
            yield Event(tick, "special", seat, f"uses special energy ({new.special_energy:.0%} left)")
        return
    attack, weapon = new.attack, new.gear.get("weapon") or new.weapon
    with_weapon = f" with {weapon}" if weapon and not (attack.style == "magic" and not is_special) else ""
    rolled = f"hits {attack.damage}" if attack.damage else "misses"
    prays = new.overhead is not None
    against = (", against prayer" if attack.prayed else ", off prayer") if prays and attack.damage else ""
    text = f"{'special ' if is_special else ''}{attack.style} attack{with_weapon} {rolled}{against}"
    kind: Kind = "special" if is_special else "attack"
    yield Event(tick, kind, seat, text, attack.damage, attack.style, attack.prayed)


def _suffered(tick: int, seat: int, old: FighterScene, new: FighterScene) -> Iterator[Event]:
    if sum(new.hitsplats):
        numbers = " + ".join(map(str, new.hitsplats))
        yield Event(tick, "damage", seat, f"takes {numbers}, {new.hitpoints} left", sum(new.hitsplats))
    if new.frozen_ticks > old.frozen_ticks:
        yield Event(tick, "freeze", seat, f"is frozen for {new.frozen_ticks} ticks", new.frozen_ticks)
    if new.vengeance != old.vengeance:
        yield Event(tick, "vengeance", seat, "casts vengeance" if new.vengeance else "strikes back by vengeance")
    if not new.hitpoints and old.hitpoints:
        yield Event(tick, "death", seat, "dies")


def _used(
    tick: int, seat: int, kind: Kind, verb: str, old: Mapping[str, int], new: Mapping[str, int]
) -> Iterator[Event]:
    for name, count in old.items():
        if (left := new.get(name, 0)) < count:
            yield Event(tick, kind, seat, f"{verb} {name} ({left} left)", count - left)
