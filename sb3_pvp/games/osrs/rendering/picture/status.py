"""The panel with a fighter's points, gear, conditions and supplies, beside the arena."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pygame

from sb3_pvp.games.osrs.rendering.picture.brush import bar, text_width, write
from sb3_pvp.games.osrs.rendering.picture.palette import (
    DAMAGE,
    ENERGY,
    FAINT,
    HEALTH,
    ICE,
    LINE,
    LOST_HEALTH,
    OVERHEADS,
    PANEL,
    PRAYER,
    SEATS,
    STATUS,
    STYLES,
    SUPPLIES,
    TEXT,
    VENGEANCE,
    Color,
    health_color,
)
from sb3_pvp.games.osrs.rendering.scene import FighterScene

_INDENT = 12  # pixels, as below
_LINE_HEIGHT, _SIZE = 19, 17
#: The large items besides the weapon, for which there is room.
_SHOWN_SLOTS = ("head", "neck", "body", "legs", "shield")
_SKILLS = {"attack": "att", "strength": "str", "defence": "def", "ranged": "rng", "magic": "mag"}
_SHORT = {"anglerfish": "angler", "karambwan": "karam"}

Line = tuple[str, Color]


def draw_status(surface: pygame.Surface, fighter: FighterScene, seat: int) -> None:
    """Draws the panel of a seat."""
    left, top, width, height = STATUS[seat]
    pygame.draw.rect(surface, PANEL, (left, top, width, height))
    left, width = left + _INDENT, width - 2 * _INDENT
    badge = 62 if fighter.first else 0  # room for "acts first" beside the name
    write(surface, fighter.name, (left, top + 10), 24, SEATS[seat], width=width - badge)
    if fighter.first:
        write(surface, "acts first", (left + width, top + 14), 16, FAINT, "topright")
    y = _draw_bars(surface, fighter, left, top + 38, width)
    supplies = top + height - 66  # from the bottom, where `_draw_supplies` needs 66 pixels
    lines = [*_lines(fighter), *((line, FAINT) for line in _worn(tuple(fighter.gear.items()), width))]
    for text, color in lines[: (supplies - y) // _LINE_HEIGHT]:  # the gear comes last, and is cut first
        write(surface, text, (left, y), _SIZE, color, width=width)
        y += _LINE_HEIGHT
    _draw_supplies(surface, fighter, left, supplies, width)


def _draw_bars(surface: pygame.Surface, fighter: FighterScene, left: int, top: int, width: int) -> int:
    """Draws the three bars of points; returns the y coordinate below them."""
    hitpoints, full = fighter.hitpoints, fighter.max_hitpoints
    text = f"{hitpoints} / {full} hp"
    bar(surface, (left, top, width, 26), hitpoints / max(full, 1), health_color(hitpoints, full), LOST_HEALTH, text, 22)
    prayer = f"{fighter.prayer} / {fighter.max_prayer} prayer"
    bar(surface, (left, top + 30, width, 16), fighter.prayer / max(fighter.max_prayer, 1), PRAYER, LINE, prayer, 15)
    energy = f"{100 * fighter.special_energy:.0f} % special energy"
    bar(surface, (left, top + 50, width, 16), fighter.special_energy, ENERGY, LINE, energy, 15)
    return top + 76


def _lines(fighter: FighterScene) -> Iterator[Line]:
    yield _weapon(fighter), STYLES[fighter.style]
    if fighter.overhead is not None:
        yield _prayer(fighter.overhead), OVERHEADS[fighter.overhead]
    yield _activity(fighter)
    yield from _conditions(fighter)
    if fighter.levels:  # green if all are raised
        changes = " ".join(f"{_SKILLS[skill]}{change:+d}" for skill, change in fighter.levels.items())
        yield changes, HEALTH[0] if min(fighter.levels.values()) > 0 else HEALTH[1]


@lru_cache(maxsize=256)  # measuring text is slow
def _worn(gear: tuple[tuple[str, str], ...], width: int) -> list[str]:
    """Returns the other items in lines of at most this width in pixels."""
    lines = [""]
    for item in [item.lower() for slot, item in gear if slot in _SHOWN_SLOTS]:
        longer = f"{lines[-1]}, {item}" if lines[-1] else item
        if text_width(longer, _SIZE) <= width:
            lines[-1] = longer
        else:
            lines.append(item)
    return lines


def _weapon(fighter: FighterScene) -> str:
    name = fighter.gear.get("weapon") or fighter.weapon
    if not name:
        name = f"{fighter.style} weapon" if fighter.style != "none" else "nothing"
    special = " (special)" if fighter.special_weapon else ""
    armor = ", no armour" if fighter.armor_off else ""
    return f"wields {name[0].lower()}{name[1:]}{special}{armor}"


def _prayer(overhead: str) -> str:
    if overhead == "none":
        return "no overhead prayer"
    return f"prays {overhead}" if overhead in ("smite", "redemption") else f"prays against {overhead}"


def _activity(fighter: FighterScene) -> Line:
    """Returns its attack in this tick, or when it can attack again."""
    if fighter.hitpoints <= 0:
        return "dead", DAMAGE
    if fighter.attack:
        prayed = " (prayed)" if fighter.attack.prayed else ""
        damage = "" if fighter.attack.damage is None else f" for {fighter.attack.damage}"
        return f"{fighter.attack.style} attack{damage}{prayed}", TEXT
    wait = fighter.waits.get("attack")
    return (f"attacks again in {wait}", FAINT) if wait else ("ready to attack", TEXT)


def _conditions(fighter: FighterScene) -> Iterator[Line]:
    if fighter.frozen_ticks:
        yield f"frozen for {fighter.frozen_ticks} tick{'s' * (fighter.frozen_ticks > 1)}", ICE
    elif fighter.freeze_immunity_ticks:
        yield f"cannot be frozen for {fighter.freeze_immunity_ticks}", FAINT
    if fighter.vengeance:
        yield "vengeance is ready", VENGEANCE
    waits = [f"{name} {ticks}" for name, ticks in fighter.waits.items() if name in ("food", "karambwan", "potion")]
    if waits:
        yield "waits: " + ", ".join(waits), FAINT


def _draw_supplies(surface: pygame.Surface, fighter: FighterScene, left: int, top: int, width: int) -> None:
    """Draws what food and brews would heal, and the remaining pieces (fish) and doses (flasks)."""
    heals = (("food", fighter.food_bars), ("brews", fighter.brew_bars))
    parts = [f"{name} {bars:.1f}" for name, bars in heals if bars > 0]
    text = f"{' + '.join(parts)} x full health" if parts else "no food, no brews"
    write(surface, text, (left, top), _SIZE, TEXT if parts else DAMAGE, width=width)
    items = [(name, count, True) for name, count in fighter.food.items()]
    items += [(name, count, False) for name, count in fighter.potions.items()]
    cell = min(width // max(len(items), 4), width // 4)
    for place, (name, count, is_food) in enumerate(items):
        x = left + cell * place + 10
        (_fish if is_food else _flask)(surface, x, top + 30, SUPPLIES[name])
        write(surface, str(count), (x + 10, top + 30), 17, TEXT, "midleft")
        write(surface, _SHORT.get(name, name), (x - 10, top + 42), 14, FAINT, width=cell - 2)


def _fish(surface: pygame.Surface, x: int, y: int, color: Color) -> None:
    pygame.draw.ellipse(surface, color, (x - 8, y - 5, 13, 10))
    pygame.draw.polygon(surface, color, [(x + 3, y), (x + 8, y - 5), (x + 8, y + 5)])


def _flask(surface: pygame.Surface, x: int, y: int, color: Color) -> None:
    pygame.draw.rect(surface, color, (x - 2, y - 9, 4, 7))
    pygame.draw.circle(surface, color, (x, y + 2), 6)
