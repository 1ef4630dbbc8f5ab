"""A virtual display with a program on it: frames, keys and the mouse. All that it starts ends with it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from sb3_pvp.common.errors import extra
from sb3_pvp.common.processes import WatchedProcess
from sb3_pvp.game import WorldError
from sb3_pvp.games.screen.game_file import Region, ScreenInput

#: Where Debian's games are, besides those of the usual path.
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/games"])
#: Seconds within which Xvfb has to say its number, and a stopped process to end.
_PATIENCE, _GRACE = 20.0, 1.0
_LOOK = 0.02  #: Seconds between two looks at what is waited for.
_DRAGGING = 0.02  #: Seconds between the parts of a drag: programs follow the mouse by its motions.


class ScreenError(WorldError):
    """Raised when a display, a program or a reader fails; one line that says what to do."""


def find_program(name: str, package: str = "") -> str:
    """Returns the path of a program; raises `ScreenError` with the package of Debian that has it."""
    if (found := shutil.which(name, path=PATH)) is None:
        raise ScreenError(f"there is no program {name}: apt-get install {package or name}")
    return found


class VirtualDisplay:
    """Xvfb with a number that nobody else has, or a display that is there already, in a folder of its own.

    Args:
        size: width and height in pixels.
        name: of a display that is there, such as ``":0"``.

    Attributes:
        name: such as ``":7"``.
        folder: for the files of the program; it is removed at the end.
        starts: of programs so far; each begins ``output`` anew.
        errors: what its methods raise when it is gone.
    """

    def __init__(self, size: Sequence[int], name: str | None = None) -> None:
        with extra("screen", "screens"):
            import mss
            from Xlib import XK, X, display, error
            from Xlib.ext import xtest
        self._x, self._keys, self._xtest, self._errors = X, XK, xtest, (error.XError, error.ConnectionClosedError)
        self.errors = (*self._errors, mss.ScreenShotError)
        self._server: WatchedProcess | None = None
        self._program: WatchedProcess | None = None
        self._family: list[psutil.Process] | None = None
        self._held, self._codes, self.starts = set[str](), dict[str, int](), 0
        self._temporary = tempfile.TemporaryDirectory(prefix="sb3-pvp-screen-", ignore_cleanup_errors=True)
        self.folder = Path(self._temporary.name)
        self.output = self.folder / "output"  #: What the program prints.
        try:
            self.name = name or self._start(size)
            self._screen, self._camera = display.Display(self.name), mss.MSS(display=self.name)
            root = self._screen.screen().root.get_geometry()
        except Exception as lost:
            self.close()
            if isinstance(lost, ScreenError):
                raise
            raise ScreenError(f"the display {name or ''} cannot be opened: {' '.join(str(lost).split())}") from lost
        if root.width < size[0] or root.height < size[1]:
            self.close()
            raise ScreenError(
                f"the display {name} has {root.width} x {root.height} pixels, but the game needs {list(size)}"
            )

    def _start(self, size: Sequence[int]) -> str:
        """Starts Xvfb; returns the name of its display."""
        log, command = self.folder / "Xvfb.log", [find_program("Xvfb", "xvfb"), "-displayfd", "1", "-noreset"]
        # Its own fonts, whichever are installed: programs draw the same everywhere, and pictures of it are found.
        screen = ["-screen", "0", f"{size[0]}x{size[1]}x24", "-nolisten", "tcp", "-fp", "built-ins"]
        self._server = WatchedProcess([*command, *screen], log, {}, grace=_GRACE)
        ends = time.monotonic() + _PATIENCE
        while (said := re.search(r"^(\d+)\n", log.read_text(errors="replace"), re.M)) is None:
            if self._server.poll() is not None or time.monotonic() > ends:
                raise ScreenError(f"Xvfb did not start: {_last_line(log)}")
            time.sleep(_LOOK)
        return f":{said[1]}"

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts the program, in place of one that runs; raises `ScreenError` if there is none of this name."""
        self.stop()
        program, *arguments = (part.replace("{folder}", str(self.folder)) for part in command)
        given = {name: value.replace("{folder}", str(self.folder)) for name, value in environment.items()}
        variables = {"HOME": str(self.folder), "PATH": PATH, **given, "DISPLAY": self.name}
        self.output.unlink(missing_ok=True)
        self.starts += 1
        line = [find_program(program), *arguments]
        self._program = WatchedProcess(line, self.output, variables, self.folder, grace=_GRACE)

    def stop(self) -> None:
        """Ends the program, if one runs, and releases all keys."""
        if self._program is not None:
            self.let_run(True)
            self._program.close()
            self._program = self._family = None
        self.press(())

    def exit_code(self) -> int | None:
        """Returns the exit code of a program that has ended, else ``None``."""
        return None if self._program is None else self._program.poll()

    def last_words(self) -> str:
        """Returns the last line that the program has printed."""
        return _last_line(self.output)

    def let_run(self, runs: bool) -> None:
        """Stops the processes of the program where they are, or lets them go on: those that it had at the first call.

        Not its watcher, which must see when this process ends.
        """
        if self._program is None:
            return
        if self._family is None:
            with suppress(psutil.Error):
                self._family = psutil.Process(self._program.pid).children(recursive=True)
        for each in self._family or ():
            with suppress(psutil.Error):
                each.send_signal(signal.SIGCONT if runs else signal.SIGSTOP)

    def find_window(self, title: str) -> Any:
        """Returns the largest window that is shown, with this in its title, or ``None``."""
        found: list[tuple[int, Any]] = []
        waiting = self._screen.screen().root.query_tree().children
        for window in waiting:
            with suppress(*self._errors):  # it has just been closed
                shape, state = window.get_geometry(), window.get_attributes().map_state
                if state == self._x.IsViewable and title in (window.get_wm_name() or "" if title else ""):
                    found.append((shape.width * shape.height, window))
                elif title:
                    waiting.extend(window.query_tree().children)  # a window manager puts a frame around
        return max(found, key=lambda each: each[0])[1] if found else None

    def focus(self, window: Any) -> None:
        """Lets a window have the keyboard, which without a window manager nobody gives it."""
        with suppress(*self._errors):
            window.set_input_focus(self._x.RevertToParent, self._x.CurrentTime)
            self._screen.sync()

    def frame(self, region: Region) -> NDArray[np.uint8]:
        """Returns what a region shows now, uint8 ``(height, width, 3)``."""
        left, top, width, height = region
        shot = self._camera.grab({"left": left, "top": top, "width": width, "height": height})
        return np.frombuffer(shot.raw, np.uint8).reshape(height, width, 4)[..., 2::-1]

    def do(self, given: ScreenInput) -> None:
        """Does what an input says; raises `ValueError` for a key that there is not."""
        self.press(given.hold)
        for combination in given.tap:
            codes = [self._code(key) for key in combination.split("+")]
            self._fake(self._x.KeyPress, codes)
            self._fake(self._x.KeyRelease, codes[::-1])
        if given.move is not None:
            self._move(given.move)
        if given.click is not None:
            self._move(given.click)
            self._fake(self._x.ButtonPress, [given.button])
            self._fake(self._x.ButtonRelease, [given.button])
        if given.drag is not None:
            self._drag(*given.drag, given.button)
        self._screen.sync()

    def press(self, keys: Sequence[str]) -> None:
        """Holds these keys, and no others."""
        for key in sorted(self._held - {*keys}):
            self._fake(self._x.KeyRelease, [self._code(key)])
        for key in keys:
            if key not in self._held:
                self._fake(self._x.KeyPress, [self._code(key)])
        self._held = {*keys}

    def check_keys(self, given: ScreenInput) -> None:
        """Raises `ValueError` for a key that there is not."""
        for each in (*given.hold, *(key for combination in given.tap for key in combination.split("+"))):
            self._code(each)

    def pressed(self) -> tuple[set[str], tuple[int, int], int]:
        """Returns the keys of `check_keys` that are down, where the mouse is, and its buttons as a mask of X."""
        bits = self._screen.query_keymap()
        at = self._screen.screen().root.query_pointer()
        return (
            {key for key, code in self._codes.items() if bits[code // 8] >> code % 8 & 1},
            (at.root_x, at.root_y),
            at.mask,
        )

    def close(self) -> None:
        """Ends the program and the display; later calls do nothing."""
        with suppress(Exception):  # the display may be gone; nothing must keep the rest from ending
            self.stop()
        for part in ("_camera", "_screen"):
            if (made := vars(self).pop(part, None)) is not None:
                with suppress(Exception):
                    made.close()
        if self._server is not None:
            self._server.close()
        self._temporary.cleanup()

    def _drag(self, start: tuple[int, int], end: tuple[int, int], button: int) -> None:
        self._move(start)
        self._fake(self._x.ButtonPress, [button])
        for at in ((start[0] + end[0]) // 2, (start[1] + end[1]) // 2), end:
            self._screen.sync()
            time.sleep(_DRAGGING)
            self._move(at)
        self._screen.sync()
        time.sleep(_DRAGGING)
        self._fake(self._x.ButtonRelease, [button])

    def _move(self, at: Sequence[int]) -> None:
        self._xtest.fake_input(self._screen, self._x.MotionNotify, x=at[0], y=at[1])

    def _fake(self, kind: int, details: Sequence[int]) -> None:
        for each in details:
            self._xtest.fake_input(self._screen, kind, each)

    def _code(self, key: str) -> int:
        """Returns the number of a key by its name in X, such as ``Left``; some have one for each side of a keyboard."""
        if key not in self._codes:
            symbol = self._keys.string_to_keysym(key) or self._keys.string_to_keysym(f"{key}_L")
            code = self._screen.keysym_to_keycode(symbol) if symbol else 0
            if not code:
                raise ValueError(f"there is no key {key!r}: X calls them such as Left, space, Return, a or Control+n")
            self._codes[key] = code
        return self._codes[key]


def _last_line(log: Path) -> str:
    with suppress(OSError):
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else "it said nothing"
    return "it said nothing"
