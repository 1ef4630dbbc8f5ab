"""A window that shows pictures at the pace of the game."""

from __future__ import annotations

import os

import numpy as np
import pygame
from numpy.typing import NDArray

_BACKGROUND = (20, 23, 29)  #: Around the picture.
_HELP = "space: pause, right arrow: one tick, up and down: faster and slower"
_UNSEEN = ("dummy", "offscreen")  #: What SDL draws on where nobody can see it, unless somebody asked for that.
_SLOWEST, _FASTEST = 0.25, 256.0


def has_display() -> bool:
    """Whether somebody could see a window; true as well if ``SDL_VIDEODRIVER`` asks for one that nobody sees."""
    try:
        pygame.display.init()
    except pygame.error:
        return False
    if "SDL_VIDEODRIVER" in os.environ or pygame.display.get_driver() not in _UNSEEN:
        return True
    pygame.display.quit()
    return False


class Window:
    """A window that opens with the first picture, for ``pace`` pictures per second; once closed it drops all others.

    Keys: space pauses and goes on, the right arrow shows one tick, up and down double and halve the pace, escape closes
    the window.
    """

    def __init__(self, title: str, pace: float) -> None:
        self._title, self.pace, self.paused, self.closed = title, pace, False, False
        self._screen: pygame.Surface | None = None
        self._clock = pygame.time.Clock()

    def show(self, image: NDArray[np.uint8]) -> None:
        """Shows a picture, uint8 ``(rows, columns, 3)``, and returns when it is time for the next one."""
        if self.closed:
            return
        picture = pygame.surfarray.make_surface(image.swapaxes(0, 1))
        if self._screen is None or not pygame.display.get_init():  # another window may have taken pygame's with it
            pygame.display.init()
            pygame.display.set_caption(f"{self._title} ({_HELP})")
            room = pygame.Rect((0, 0), [round(0.9 * side) for side in pygame.display.get_desktop_sizes()[0]])
            own = picture.get_rect()
            self._screen = pygame.display.set_mode(
                (own if room.contains(own) else own.fit(room)).size, pygame.RESIZABLE
            )
        self._draw(picture)
        started = pygame.time.get_ticks()
        while not self.closed and not any(self._obey(event, picture) for event in pygame.event.get()):
            if not self.paused and pygame.time.get_ticks() - started >= 1000 / self.pace:
                return
            self._clock.tick(60)

    def close(self) -> None:
        """Closes the window; what other programs do with pygame goes on."""
        if self._screen is not None:
            pygame.display.quit()
            self._screen = None
        self.closed = True

    def _draw(self, picture: pygame.Surface) -> None:
        """As large as fits the window, in its middle."""
        assert self._screen is not None
        place = picture.get_rect().fit(self._screen.get_rect())
        self._screen.fill(_BACKGROUND)
        self._screen.blit(pygame.transform.smoothscale(picture, place.size), place)
        pygame.display.flip()

    def _obey(self, event: pygame.event.Event, picture: pygame.Surface) -> bool:
        """Returns whether the next picture is wanted at once."""
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
