"""A window that shows pictures at the pace of the game."""

from __future__ import annotations

import os

import numpy as np
import pygame
from numpy.typing import NDArray

#: Around the picture.
_BACKGROUND = (20, 23, 29)
_HELP = "space: pause, right arrow: one tick, up and down: faster and slower"
#: What SDL draws on where nobody can see it, unless somebody asked for that.
_UNSEEN = ("dummy", "offscreen")
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
        height, width, _ = image.shape
        picture = pygame.image.frombytes(image.tobytes(), (width, height), "RGB")
        if self._screen is None or not pygame.display.get_init():  # another window may have taken pygame's with it
            self._open((width, height))
        self._draw(picture)
        self._wait(picture)

    def close(self) -> None:
        """Closes the window; what other programs do with pygame goes on."""
        if self._screen is not None:
            pygame.display.quit()
            self._screen = None
        self.closed = True

    def _open(self, size: tuple[int, int]) -> None:
        pygame.display.init()
        pygame.display.set_caption(f"{self._title} ({_HELP})")
        desktop = pygame.display.get_desktop_sizes()[0]
        scale = min(1.0, 0.9 * desktop[0] / size[0], 0.9 * desktop[1] / size[1])
        self._screen = pygame.display.set_mode((round(size[0] * scale), round(size[1] * scale)), pygame.RESIZABLE)

    def _draw(self, picture: pygame.Surface) -> None:
        """As large as fits the window, in its middle."""
        assert self._screen is not None
        (width, height), (own_width, own_height) = self._screen.get_size(), picture.get_size()
        scale = min(width / own_width, height / own_height)
        size = (max(round(own_width * scale), 1), max(round(own_height * scale), 1))
        if size != picture.get_size():
            picture = pygame.transform.smoothscale(picture, size)
        self._screen.fill(_BACKGROUND)
        self._screen.blit(picture, ((width - size[0]) // 2, (height - size[1]) // 2))
        pygame.display.flip()

    def _wait(self, picture: pygame.Surface) -> None:
        """Until it is time for the next picture, or somebody who paused wants it; events are obeyed meanwhile."""
        started = pygame.time.get_ticks()
        while not self.closed:
            for event in pygame.event.get():
                if self._obey(event, picture):
                    return
            if not self.paused and pygame.time.get_ticks() - started >= 1000 / self.pace:
                return
            self._clock.tick(60)

    def _obey(self, event: pygame.event.Event, picture: pygame.Surface) -> bool:
        """Returns whether the next picture is wanted at once."""
        key = event.key if event.type == pygame.KEYDOWN else None
        if event.type == pygame.QUIT or key == pygame.K_ESCAPE:
            self.close()
        elif event.type == pygame.VIDEORESIZE:
            self._draw(picture)
        elif key == pygame.K_SPACE:
            self.paused = not self.paused
        elif key == pygame.K_UP:
            self.pace = min(self.pace * 2, _FASTEST)
        elif key == pygame.K_DOWN:
            self.pace = max(self.pace / 2, _SLOWEST)
        return key == pygame.K_RIGHT
