"""The complete picture of a scene, as a surface or an array."""

from __future__ import annotations

import numpy as np
import pygame
from numpy.typing import NDArray

from sb3_pvp.games.osrs.rendering.picture.arena import draw_arena
from sb3_pvp.games.osrs.rendering.picture.brush import prepare_fonts
from sb3_pvp.games.osrs.rendering.picture.choices import draw_choices
from sb3_pvp.games.osrs.rendering.picture.headline import draw_headline
from sb3_pvp.games.osrs.rendering.picture.palette import HEIGHT, WIDTH
from sb3_pvp.games.osrs.rendering.picture.status import draw_status
from sb3_pvp.games.osrs.rendering.scene import Scene


def draw_scene(scene: Scene) -> pygame.Surface:
    """Returns a new surface of 960 x 640 pixels; equal scenes give equal pixels."""
    prepare_fonts()
    surface = pygame.Surface((WIDTH, HEIGHT))
    draw_headline(surface, scene)
    draw_arena(surface, scene)
    for seat, fighter in enumerate(scene.fighters):
        draw_status(surface, fighter, seat)
        draw_choices(surface, fighter, seat, scene.tick)
    return surface


def scene_array(scene: Scene) -> NDArray[np.uint8]:
    """Returns the picture of a scene as RGB, uint8 ``(640, 960, 3)``."""
    pixels = pygame.image.tobytes(draw_scene(scene), "RGB")  # ten times as fast as `pygame.surfarray`
    return np.frombuffer(pixels, np.uint8).reshape(HEIGHT, WIDTH, 3).copy()  # a copy: the buffer is read-only
