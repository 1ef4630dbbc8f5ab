"""The headline of a picture: which fighter is ahead, or how the fight ended."""

from __future__ import annotations

import pygame

from sb3_pvp.games.osrs.rendering.picture.brush import write
from sb3_pvp.games.osrs.rendering.picture.palette import BACKGROUND, FAINT, HEADLINE, LINE, PANEL, SEATS, TEXT, Color
from sb3_pvp.games.osrs.rendering.scene import FighterScene, Scene

_LEAD = 0.1  # health bars: fighters closer than this are level
_OUTCOMES = {
    "tied": "a tie",
    "timeout": "the time is up",
    "target_lost": "the fight was aborted: the opponent disappeared",
    "desync": "the fight was aborted: agent and server are out of step",
}


def draw_headline(surface: pygame.Surface, scene: Scene) -> None:
    """Draws the tick, the verdict, and a bar with both fighters' shares of the remaining health and supplies."""
    left, top, width, height = HEADLINE
    pygame.draw.rect(surface, BACKGROUND, HEADLINE)
    write(surface, f"tick {scene.tick}", (left + 12, top + 12), 22)
    text, color = verdict(scene)
    over = scene.outcome != "running"
    write(surface, text, (width / 2, top + 20), 30 if over else 24, color, "center", width - 260)
    write(surface, scene.contract, (width - 12, top + 12), 18, FAINT, "topright")
    _draw_shares(surface, scene, (0, top + height - 9, width, 9))


def verdict(scene: Scene) -> tuple[str, Color]:
    """Returns which fighter is ahead or has won, and the colour for that text."""
    first, second = labels(scene)
    if scene.outcome in ("won", "lost"):
        winner = 0 if scene.outcome == "won" else 1
        return f"{(first, second)[winner]} wins", SEATS[winner]
    if scene.outcome in _OUTCOMES:
        return _OUTCOMES[scene.outcome], TEXT
    lead = _health_left(scene.fighters[0]) - _health_left(scene.fighters[1])
    if abs(lead) < _LEAD:
        return "the fight is level", TEXT
    leader = 0 if lead > 0 else 1
    points = scene.fighters[leader].hitpoints - scene.fighters[1 - leader].hitpoints
    supplies = _supplies(scene.fighters[leader]) - _supplies(scene.fighters[1 - leader])
    gains = [f"{points:+d} hp"] if points else []
    gains += [f"supplies {supplies:+.1f} x full health"] if round(supplies, 1) else []
    return f"{(first, second)[leader]} is ahead: {', '.join(gains)}", SEATS[leader]


def labels(scene: Scene) -> tuple[str, str]:
    """Returns names for the fighters, with their side if the names are equal."""
    first, second = (fighter.name for fighter in scene.fighters)
    return (first, second) if first != second else (f"{first} (left)", f"{second} (right)")


def _supplies(fighter: FighterScene) -> float:
    """Returns what food and brews would heal, in full health bars."""
    return fighter.food_bars + fighter.brew_bars


def _health_left(fighter: FighterScene) -> float:
    return fighter.hitpoints / max(fighter.max_hitpoints, 1) + _supplies(fighter)


def _draw_shares(surface: pygame.Surface, scene: Scene, box: tuple[int, int, int, int]) -> None:
    left, top, width, height = box
    first, second = map(_health_left, scene.fighters)
    if scene.outcome in ("won", "lost"):
        first, second = (1.0, 0.0) if scene.outcome == "won" else (0.0, 1.0)  # the loser may have supplies left
    edge = round(width * first / max(first + second, 1e-9))  # both may be 0
    pygame.draw.rect(surface, SEATS[0], (left, top, edge, height))
    pygame.draw.rect(surface, SEATS[1], (left + edge, top, width - edge, height))
    pygame.draw.rect(surface, PANEL, (left, top, width, height), 1)
    pygame.draw.line(surface, LINE, (width / 2, top), (width / 2, top + height), 3)
