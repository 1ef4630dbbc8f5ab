"""Shapes of fighters, weapons, projectiles and prayers. They scale, and are our own: the game's art is not used."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, hypot, pi, sin

import pygame

from sb3_pvp.games.osrs.rendering.picture.palette import BACKGROUND, ICE, TEXT, VENGEANCE, Color, Point, mixed

Surface = pygame.Surface
_WOOD: Color = (150, 116, 80)


def towards(start: Point, end: Point) -> Point:
    """Returns the unit vector from one point to another; to the right if they are equal."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = hypot(dx, dy)
    return (dx / length, dy / length) if length else (1.0, 0.0)


def turned(direction: Point, angle: float) -> Point:
    """Returns a direction rotated by an angle in radians."""
    (x, y), c, s = direction, cos(angle), sin(angle)
    return x * c - y * s, x * s + y * c


def beyond(start: Point, direction: Point, length: float) -> Point:
    """Returns the point at a distance ``length`` from ``start``."""
    return start[0] + direction[0] * length, start[1] + direction[1] * length


def star(center: Point, points: int, outer: float, inner: float, turn: float = -pi / 2) -> list[Point]:
    """Returns the corners of a star, alternately at the outer and the inner radius; ``turn``: the first one's angle."""
    corners = []
    for corner in range(2 * points):
        radius, angle = (inner if corner % 2 else outer), turn + corner * pi / points
        corners.append((center[0] + radius * cos(angle), center[1] + radius * sin(angle)))
    return corners


def thick_line(surface: Surface, color: Color, start: Point, end: Point, width: float) -> None:
    """Draws a line with round ends, which pygame does not have."""
    radius = max(width / 2, 1)  # pygame draws no circle with a radius below 1
    across = turned(towards(start, end), pi / 2)
    sides = [beyond(start, across, radius), beyond(end, across, radius)]
    sides += [beyond(end, across, -radius), beyond(start, across, -radius)]
    pygame.draw.polygon(surface, color, sides)
    for point in (start, end):
        pygame.draw.circle(surface, color, point, radius)


def body(surface: Surface, center: Point, radius: float, facing: Point, color: Color, style: Color) -> None:
    """Draws a fighter from above. A nose on the head shows where it is facing, the ring its attack style."""
    across = turned(facing, pi / 2)
    # Discs on top of each other, so that only a ring of each remains.
    pygame.draw.circle(surface, BACKGROUND, center, radius * 1.12)
    pygame.draw.circle(surface, style, center, radius)
    pygame.draw.circle(surface, mixed(color, BACKGROUND, 0.35), center, radius * 0.8)
    shoulders = (beyond(center, across, radius * 0.5), beyond(center, across, -radius * 0.5))
    thick_line(surface, color, *shoulders, radius * 0.5)
    pygame.draw.circle(surface, mixed(color, BACKGROUND, 0.55), center, radius * 0.4)
    pygame.draw.circle(surface, mixed(color, TEXT, 0.5), center, radius * 0.33)
    pygame.draw.circle(surface, BACKGROUND, beyond(center, facing, radius * 0.33), radius * 0.09)


def blade(surface: Surface, hand: Point, direction: Point, length: float, color: Color) -> None:
    """Draws a sword, for melee; each weapon has a dark outline, to be visible on any ground."""
    guard, across = beyond(hand, direction, length * 0.2), turned(direction, pi / 2)
    thick_line(surface, BACKGROUND, hand, beyond(hand, direction, length), length * 0.2)
    thick_line(surface, color, guard, beyond(hand, direction, length), length * 0.11)
    thick_line(surface, color, beyond(guard, across, length * 0.2), beyond(guard, across, -length * 0.2), length * 0.1)


def bow(surface: Surface, hand: Point, direction: Point, length: float, color: Color) -> None:
    """Draws a bow with an arrow, for ranged."""
    arc = [beyond(hand, turned(direction, angle * pi / 12), length * 0.62) for angle in range(-6, 7)]  # a half circle
    pygame.draw.lines(surface, BACKGROUND, False, arc, max(round(length * 0.2), 1))
    pygame.draw.lines(surface, color, False, arc, max(round(length * 0.12), 1))
    pygame.draw.line(surface, TEXT, arc[0], arc[-1], max(round(length * 0.04), 1))  # the string
    arrow(surface, beyond(hand, direction, length * 0.9), direction, length * 0.7, TEXT)


def staff(surface: Surface, hand: Point, direction: Point, length: float, color: Color) -> None:
    """Draws a staff with an orb at its end, for magic."""
    end = beyond(hand, direction, length * 0.85)
    thick_line(surface, BACKGROUND, beyond(hand, direction, -length * 0.15), end, length * 0.18)
    thick_line(surface, _WOOD, beyond(hand, direction, -length * 0.15), end, length * 0.1)
    orb(surface, end, length * 0.2, color)


WEAPONS: dict[str, Callable[[Surface, Point, Point, float, Color], None]] = {
    "melee": blade,
    "ranged": bow,
    "magic": staff,
}


def arrow(surface: Surface, tip: Point, direction: Point, length: float, color: Color) -> None:
    """Draws an arrow that ends at ``tip``."""
    tail, neck = beyond(tip, direction, -length), beyond(tip, direction, -length * 0.3)
    across = turned(direction, pi / 2)
    thick_line(surface, color, tail, neck, length * 0.1)
    head = [tip, beyond(neck, across, length * 0.16), beyond(neck, across, -length * 0.16)]
    pygame.draw.polygon(surface, color, head)
    for end in (tail, beyond(tail, direction, length * 0.12)):
        feathers = (beyond(end, across, length * 0.12), beyond(end, across, -length * 0.12))
        thick_line(surface, color, *feathers, length * 0.06)


def orb(surface: Surface, center: Point, radius: float, color: Color) -> None:
    """Draws a glowing ball."""
    pygame.draw.circle(surface, mixed(color, BACKGROUND, 0.5), center, radius * 1.25)
    pygame.draw.circle(surface, color, center, radius)
    pygame.draw.circle(surface, mixed(color, TEXT, 0.75), center, radius * 0.45)


def ice(surface: Surface, center: Point, radius: float) -> None:
    """Draws a block of ice around a fighter."""
    reach = round(radius * 1.5)
    # On a surface with its own alpha channel: `pygame.draw` overwrites pixels instead of blending them.
    block = pygame.Surface((2 * reach, 2 * reach), pygame.SRCALPHA)
    pygame.draw.polygon(block, (*ICE, 64), star((reach, reach), 6, radius * 1.45, radius * 1.2))
    surface.blit(block, (round(center[0]) - reach, round(center[1]) - reach))
    corners = star(center, 6, radius * 1.45, radius * 1.2)
    pygame.draw.polygon(surface, ICE, corners, max(round(radius * 0.09), 1))
    for corner in corners[1::2]:  # the inner ones
        direction = towards(center, corner)
        crack = (beyond(center, direction, radius), beyond(center, direction, radius * 1.5))
        thick_line(surface, TEXT, *crack, radius * 0.08)


def vengeance(surface: Surface, center: Point, radius: float) -> None:
    """Draws spikes around a fighter with active vengeance."""
    pygame.draw.polygon(surface, VENGEANCE, star(center, 12, radius * 1.75, radius * 1.15))
    pygame.draw.polygon(surface, mixed(VENGEANCE, BACKGROUND, 0.6), star(center, 12, radius * 1.5, radius * 1.1))


def cross(surface: Surface, center: Point, radius: float, color: Color) -> None:
    """Draws a cross, over dead fighters."""
    for x in (-radius, radius):
        thick_line(surface, color, (center[0] - x, center[1] - radius), (center[0] + x, center[1] + radius), radius / 3)


def overhead(surface: Surface, prayer: str, center: Point, radius: float, color: Color) -> None:
    """Draws an overhead prayer: the style that it protects from, a bolt for smite, a heart for redemption."""
    pygame.draw.circle(surface, BACKGROUND, center, radius * 1.12)
    pygame.draw.circle(surface, TEXT, center, radius)
    pygame.draw.circle(surface, mixed(color, BACKGROUND, 0.72), center, radius * 0.86)
    _SIGNS[prayer](surface, center, radius, color)


def _sword_sign(surface: Surface, center: Point, radius: float, color: Color) -> None:
    up = turned((1.0, 0.0), -pi / 4)
    blade(surface, beyond(center, up, -radius * 0.65), up, radius * 1.3, color)


def _arrow_sign(surface: Surface, center: Point, radius: float, color: Color) -> None:
    up = turned((1.0, 0.0), -pi / 4)
    arrow(surface, beyond(center, up, radius * 0.7), up, radius * 1.3, color)


def _ball_sign(surface: Surface, center: Point, radius: float, color: Color) -> None:
    pygame.draw.polygon(surface, color, star(center, 4, radius * 0.75, radius * 0.26))
    pygame.draw.circle(surface, TEXT, center, radius * 0.16)


def _bolt_sign(surface: Surface, center: Point, radius: float, color: Color) -> None:
    corners = ((0.2, -0.75), (-0.4, 0.1), (-0.02, 0.1), (-0.2, 0.75), (0.4, -0.15), (0.02, -0.15))
    pygame.draw.polygon(surface, color, [(center[0] + x * radius, center[1] + y * radius) for x, y in corners])


def _heart_sign(surface: Surface, center: Point, radius: float, color: Color) -> None:
    x, y = center
    for side in (-1, 1):
        pygame.draw.circle(surface, color, (x + side * radius * 0.27, y - radius * 0.18), radius * 0.32)
    corners = [(x - radius * 0.56, y - radius * 0.05), (x + radius * 0.56, y - radius * 0.05), (x, y + radius * 0.6)]
    pygame.draw.polygon(surface, color, corners)


_SIGNS: dict[str, Callable[[Surface, Point, float, Color], None]] = {
    "melee": _sword_sign,
    "ranged": _arrow_sign,
    "magic": _ball_sign,
    "smite": _bolt_sign,
    "redemption": _heart_sign,
}
