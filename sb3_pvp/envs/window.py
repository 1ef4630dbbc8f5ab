"""The window of render mode ``"human"``, which shows images at the pace of the game."""

from __future__ import annotations

import os
from contextlib import suppress

import numpy as np
import pygame
from numpy.typing import NDArray

_BACKGROUND = (20, 23, 29)  #: RGB, around the image.
_KEYS = "space: pause, right arrow: one tick, up and down: faster and slower"
_INVISIBLE_DRIVERS = ("dummy", "offscreen")  #: SDL falls back to these on a machine without a display.
_SLOWEST, _FASTEST = 0.25, 256.0  #: Images per second.
_SCREEN_SHARE = 0.9  #: Of the desktop's width and height that a new window may take.
_POLLS_PER_SECOND = 60  #: Of the keyboard, while an image is shown.


def has_display() -> bool:
    """Returns whether a window would be visible; also true if ``SDL_VIDEODRIVER`` selects an invisible one."""
    with suppress(pygame.error):
        pygame.display.init()
        if "SDL_VIDEODRIVER" in os.environ or pygame.display.get_driver() not in _INVISIBLE_DRIVERS:
            return True
        pygame.display.quit()
    return False


class Window:
    """A window that opens with the first image and shows ``pace`` images per second; once closed, it stays closed.

    Keys: space pauses and resumes, the right arrow shows the next tick, up and down double and halve the pace, escape
    closes the window.
    """

    def __init__(self, title: str, pace: float) -> None:
        self._title, self.pace, self.paused, self.closed = title, pace, False, False
        self._screen: pygame.Surface | None = None
        self._clock = pygame.time.Clock()

    def show(self, image: NDArray[np.uint8]) -> None:
        """Shows an image, uint8 ``(height, width, 3)``, and returns when it is time for the next one."""
        if self.closed:
            return
        picture = pygame.surfarray.make_surface(image.swapaxes(0, 1))  # pygame's arrays are (width, height, 3)
        if self._screen is None or not pygame.display.get_init():  # closing another Window quits pygame's display
            pygame.display.init()
            pygame.display.set_caption(f"{self._title} ({_KEYS})")
            room = pygame.Rect((0, 0), [round(_SCREEN_SHARE * side) for side in pygame.display.get_desktop_sizes()[0]])
            own = picture.get_rect()
            self._screen = pygame.display.set_mode(
                (own if room.contains(own) else own.fit(room)).size, pygame.RESIZABLE
            )
        self._draw(picture)
        started = pygame.time.get_ticks()
        while not self.closed and not any(self._handle_event(event, picture) for event in pygame.event.get()):
            if not self.paused and pygame.time.get_ticks() - started >= 1000 / self.pace:  # milliseconds
                return
            self._clock.tick(_POLLS_PER_SECOND)

    def close(self) -> None:
        """Closes the window, but not the rest of pygame, which the program may use elsewhere."""
        if self._screen is not None:
            pygame.display.quit()
            self._screen = None
        self.closed = True

    def _draw(self, picture: pygame.Surface) -> None:
        """Draws the image in the middle of the window, as large as fits."""
        assert self._screen is not None
        area = picture.get_rect().fit(self._screen.get_rect())
        self._screen.fill(_BACKGROUND)
        self._screen.blit(pygame.transform.smoothscale(picture, area.size), area)
        pygame.display.flip()

    def _handle_event(self, event: pygame.event.Event, picture: pygame.Surface) -> bool:
        """Handles a key or a change of the window; returns whether to show the next image at once."""
        key = event.key if event.type == pygame.KEYDOWN else None
        if event.type == pygame.QUIT or key == pygame.K_ESCAPE:
            self.close()
        elif event.type == pygame.VIDEORESIZE and not self.closed:
            self._draw(picture)
        elif key == pygame.K_SPACE:
            self.paused = not self.paused
        elif key in (pygame.K_UP, pygame.K_DOWN):
            self.pace = min(max(self.pace * (2 if key == pygame.K_UP else 0.5), _SLOWEST), _FASTEST)
        return key == pygame.K_RIGHT
