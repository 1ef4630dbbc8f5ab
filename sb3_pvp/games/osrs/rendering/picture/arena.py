"""The arena from above: both fighters, their projectiles, and labels with hitpoints and damage."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import pygame

from sb3_pvp.games.osrs.rendering.picture import shapes
from sb3_pvp.games.osrs.rendering.picture.brush import bar, outlined, write
from sb3_pvp.games.osrs.rendering.picture.palette import (
    ARENA,
    BACKGROUND,
    DAMAGE,
    DEAD,
    FAINT,
    GROUND,
    ICE,
    LOST_HEALTH,
    NO_DAMAGE,
    OVERHEADS,
    SEATS,
    STYLES,
    Point,
    health_color,
    mixed,
)
from sb3_pvp.games.osrs.rendering.picture.shapes import beyond, towards, turned
from sb3_pvp.games.osrs.rendering.scene import FighterScene, ProjectileScene, Scene

#: Shapes are drawn enlarged by this factor and scaled down, for smooth edges. Text is drawn afterwards.
FINE = 2
#: Pixels per tile, and the largest distance in tiles for which they are used.
_ZOOMS = ((72, 3), (52, 5), (42, 7), (34, 9), (24, 14))
_FARTHEST_ZOOM = 16  # pixels per tile beyond that; fighters outside the view are drawn at its edge
_SIZE = ARENA[2:]
#: Pixels that labels need beside and above a fighter at an edge.
_MARGIN_X, _MARGIN_Y = 64, 92
#: Fighters closer than this, in pixels, would cover each other's labels.
_CLOSE_X, _CLOSE_Y = 84, 110
_BODY, _MIN_RADIUS = 0.36, 14  # the radius of a fighter in tiles, and the smallest one in pixels
_BACKWARDS, _SIDEWAYS = 3.14, 1.5708  # turns in radians
_WHITE = (255, 255, 255)


@dataclass(frozen=True)
class Placement:
    """Where and how a fighter is drawn: centre and radius in pixels, the direction it faces, and its seat."""

    center: Point
    radius: float
    facing: Point
    seat: int
    labels_below: bool

    @property
    def fine(self) -> tuple[Point, float]:
        """Centre and radius on the enlarged surface, see `FINE`."""
        return (self.center[0] * FINE, self.center[1] * FINE), self.radius * FINE


def draw_arena(surface: pygame.Surface, scene: Scene) -> None:
    """Draws the arena into its box, in layers: ground, bodies, weapons, projectiles, labels."""
    fine = pygame.Surface((_SIZE[0] * FINE, _SIZE[1] * FINE))
    tile = _zoom(scene)
    middle = _middle(scene)
    _draw_ground(fine, tile * FINE, middle)
    places = _placements(scene, tile, middle)
    for place, fighter in zip(places, scene.fighters, strict=True):
        _draw_fighter(fine, place, fighter)
    for place, fighter in zip(places, scene.fighters, strict=True):  # not above: a body must not cover a weapon
        if fighter.hitpoints > 0:
            _draw_weapon(fine, place, fighter)
    for place, fighter, foe in zip(places, scene.fighters, reversed(places), strict=True):
        _draw_incoming(fine, fighter.incoming, foe, place)
    ground = pygame.transform.smoothscale(fine, _SIZE)  # before the labels, whose text would become blurred
    for place, fighter in zip(places, scene.fighters, strict=True):
        _label(ground, place, fighter)
    _write_distance(ground, scene)
    surface.blit(ground, ARENA[:2])


def _zoom(scene: Scene) -> int:
    (x, y), (other_x, other_y) = (fighter.tile for fighter in scene.fighters)
    # Vertical distances count more: the arena is wider than high, and labels need room above the fighters.
    apart = max(abs(x - other_x), 1.5 * abs(y - other_y))
    return next((pixels for pixels, tiles in _ZOOMS if apart <= tiles), _FARTHEST_ZOOM)


def _middle(scene: Scene) -> Point:
    """Returns the point between the fighters, in tiles."""
    (x, y), (other_x, other_y) = (fighter.tile for fighter in scene.fighters)
    return (x + other_x + 1) / 2, (y + other_y + 1) / 2  # + 1: from the corners of tiles to their centres


def _draw_ground(surface: pygame.Surface, tile: int, middle: Point) -> None:
    """Draws a checkerboard that is fixed to the world's tiles, so that movement is visible."""
    width, height = surface.get_size()
    columns, rows = width / tile / 2 + 1, height / tile / 2 + 1
    for x in range(floor(middle[0] - columns), floor(middle[0] + columns) + 1):
        for y in range(floor(middle[1] - rows), floor(middle[1] + rows) + 1):
            left, top = width / 2 + (x - middle[0]) * tile, height / 2 - (y + 1 - middle[1]) * tile
            pygame.draw.rect(surface, GROUND[(x + y) % 2], (round(left), round(top), tile + 1, tile + 1))


def _placements(scene: Scene, tile: int, middle: Point) -> list[Placement]:
    centers = [_center(fighter.tile, tile, middle) for fighter in scene.fighters]
    if scene.distance == 0:  # on one tile, side by side
        centers = [(centers[0][0] - tile * _BODY, centers[0][1]), (centers[1][0] + tile * _BODY, centers[1][1])]
    close = abs(centers[0][0] - centers[1][0]) < _CLOSE_X and abs(centers[0][1] - centers[1][1]) < _CLOSE_Y
    lower = 0 if centers[0][1] > centers[1][1] else 1
    radius = max(tile * _BODY, _MIN_RADIUS)
    return [
        Placement(centers[seat], radius, towards(centers[seat], centers[1 - seat]), seat, close and seat == lower)
        for seat in range(len(centers))
    ]


def _center(tile: tuple[int, int], pixels: int, middle: Point) -> Point:
    """Returns the centre of a tile in pixels, kept away from the edges; north is up."""
    x = _SIZE[0] / 2 + (tile[0] + 0.5 - middle[0]) * pixels
    y = _SIZE[1] / 2 - (tile[1] + 0.5 - middle[1]) * pixels
    return min(max(x, _MARGIN_X), _SIZE[0] - _MARGIN_X), min(max(y, _MARGIN_Y), _SIZE[1] - _MARGIN_Y // 2)


def _draw_fighter(surface: pygame.Surface, place: Placement, fighter: FighterScene) -> None:
    center, radius = place.fine
    dead = fighter.hitpoints <= 0
    if fighter.vengeance and not dead:
        shapes.vengeance(surface, center, radius)
    if fighter.moving:  # three short lines behind it
        for side in (-0.5, 0.0, 0.5):
            start = beyond(center, turned(place.facing, _BACKWARDS + side), radius * 1.25)
            shapes.thick_line(
                surface, mixed(GROUND[0], FAINT, 0.6), start, beyond(start, place.facing, -radius * 0.5), radius * 0.1
            )
    color = DEAD if dead else SEATS[place.seat]
    shapes.body(surface, center, radius, place.facing, color, DEAD if dead else STYLES[fighter.style])
    if dead:
        shapes.cross(surface, center, radius * 0.9, DAMAGE)
    elif fighter.frozen_ticks:
        shapes.ice(surface, center, radius)


def _draw_weapon(surface: pygame.Surface, place: Placement, fighter: FighterScene) -> None:
    """Draws the weapon in the right hand; in the tick of an attack it is stretched out, with a flash."""
    center, radius = place.fine
    style = fighter.attack.style if fighter.attack else fighter.style
    if style not in shapes.WEAPONS:
        return
    hand = beyond(center, turned(place.facing, 1.1), radius * 0.9)
    length = radius * (1.5 if fighter.special_weapon else 1.25)
    direction = turned(place.facing, -0.15 if fighter.attack else 0.6)
    if fighter.attack:
        flash = shapes.star(beyond(hand, direction, length), 8, radius * 0.6, radius * 0.25)
        pygame.draw.polygon(surface, mixed(STYLES[style], _WHITE, 0.6), flash)
    shapes.WEAPONS[style](surface, hand, direction, length, STYLES[style])


def _draw_incoming(
    surface: pygame.Surface, incoming: tuple[ProjectileScene, ...], shooter: Placement, victim: Placement
) -> None:
    """Draws hits on their way, the closer to the victim the sooner they land; simultaneous ones side by side."""
    (start, radius), (end, _) = shooter.fine, victim.fine
    direction = towards(start, end)
    for number, hit in enumerate(incoming):
        share = 1 / (hit.ticks + 1)
        point = (start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share)
        place = beyond(point, turned(direction, _SIDEWAYS), (number - (len(incoming) - 1) / 2) * radius * 0.9)
        _draw_hit(surface, hit.style, place, direction, radius)


def _draw_hit(surface: pygame.Surface, style: str, place: Point, direction: Point, radius: float) -> None:
    color = STYLES[style]
    if style == "ranged":
        shapes.arrow(
            surface, beyond(place, direction, radius * 0.8), direction, radius * 1.6, mixed(color, _WHITE, 0.3)
        )
    elif style == "melee":
        cut = [beyond(place, turned(direction, angle / 4), radius * 1.1) for angle in range(-4, 5)]
        pygame.draw.lines(surface, mixed(color, _WHITE, 0.4), False, cut, max(round(radius * 0.22), 1))
    else:
        for behind in (3, 2, 1):
            trail = beyond(place, direction, -radius * 0.42 * behind)
            pygame.draw.circle(surface, mixed(color, GROUND[0], 0.2 * behind), trail, radius * (0.44 - 0.09 * behind))
        shapes.orb(surface, place, radius * 0.46, color)


def _label(surface: pygame.Surface, place: Placement, fighter: FighterScene) -> None:
    """Draws the name, hitpoints, overhead prayer, ticks of a freeze, and damage of this tick."""
    (x, y), side = place.center, 1 if place.labels_below else -1
    top = y + side * (place.radius * 1.5 + 12)
    bar(
        surface,
        (round(x - 34), round(top - 7), 68, 14),
        fighter.hitpoints / max(fighter.max_hitpoints, 1),
        health_color(fighter.hitpoints, fighter.max_hitpoints),
        LOST_HEALTH,
        str(fighter.hitpoints),
        15,
    )
    write(surface, fighter.name, (x, top + side * 15), 15, SEATS[place.seat], "center", 120)
    if fighter.overhead not in (None, "none"):
        _draw_overhead(surface, fighter, (x, top + side * 38))
    if fighter.frozen_ticks:
        away = -1 if place.facing[0] >= 0 else 1  # on the side that is away from the opponent
        outlined(surface, str(fighter.frozen_ticks), (x + away * (place.radius * 1.5 + 12), y), 24, ICE)
    _draw_hitsplats(surface, place, fighter.hitsplats)


def _draw_overhead(surface: pygame.Surface, fighter: FighterScene, center: Point) -> None:
    assert fighter.overhead is not None
    size = 30
    sign = pygame.Surface((size * FINE, size * FINE), pygame.SRCALPHA)
    shapes.overhead(
        sign, fighter.overhead, (size * FINE / 2, size * FINE / 2), size * FINE / 2.3, OVERHEADS[fighter.overhead]
    )
    small = pygame.transform.smoothscale(sign, (size, size))
    surface.blit(small, small.get_rect(center=(round(center[0]), round(center[1]))))


def _draw_hitsplats(surface: pygame.Surface, place: Placement, damage: tuple[int, ...]) -> None:
    for number, amount in enumerate(damage):
        center = (place.center[0] + (number - (len(damage) - 1) / 2) * 34, place.center[1])
        color = DAMAGE if amount else NO_DAMAGE
        pygame.draw.polygon(surface, BACKGROUND, shapes.star(center, 9, 22, 15))
        pygame.draw.polygon(surface, color, shapes.star(center, 9, 20, 14))
        outlined(surface, str(amount), center, 20, _WHITE)


def _write_distance(surface: pygame.Surface, scene: Scene) -> None:
    tiles = {0: "on the same tile", 1: "1 tile apart"}.get(scene.distance, f"{scene.distance} tiles apart")
    outlined(surface, tiles, (_SIZE[0] / 2, _SIZE[1] - 12), 16, FAINT)
