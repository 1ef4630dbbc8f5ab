"""`ScreenEnv`: a program behind a screen as an environment, with the input and the output that people have."""

from __future__ import annotations

import re
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.games.screen.clock import TickClock
from sb3_pvp.games.screen.display import ScreenError, VirtualDisplay
from sb3_pvp.games.screen.game_file import LogReader, NumberReader, ScreenInput, ScreenStep, read_screen_game
from sb3_pvp.games.screen.readers import Reading, make_readings

_LOOK = 0.05  #: Seconds between two looks at what a reset waits for.
_AGAIN = 1.0  #: Seconds until its input is repeated.


class ScreenEnv(gym.Env[NDArray[np.uint8], np.int64]):
    """Plays a program on a virtual display of its own, one decision each tick.

    An observation is the newest frames, uint8 ``(height, width, channels)``, an action one of the file's. ``info``
    counts ``frames``, ``late`` and ``dropped`` of the episode, see `TickClock`, and how often a number was ``unread``;
    ``lag`` is that of the frame, in seconds, ``readings`` are the values by reader.

    When the program or a reader fails, the episode is truncated, with the reason as ``failed`` in ``info``, and the
    next one begins with the program anew. So does a reset that fails. ``restarts`` counts both. Another failure, before
    an episode has come to its end, is raised.

    Args:
        game: the name of a game that ships, or a YAML file, which must be trusted: it starts a program.
        changes: values in place of those of the file, such as ``{"stack": 1}``.
        render_mode: ``"rgb_array"``, what the region shows.
        display: a display that is there, such as ``":0"``, in place of one of its own.

    Raises:
        ValueError: for what is wrong with the file.
        ScreenError: if a display fails, or again the program, its window or a reader; then all is ended.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "real_time": True,  # trainings are not evaluated unless that is asked for
    }
    action_space: spaces.Discrete

    def __init__(
        self,
        game: str | Path,
        changes: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        display: str | None = None,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be rgb_array or None, got {render_mode!r}")
        self.game, self.render_mode = read_screen_game(game, changes), render_mode
        names, self.inputs = zip(*self.game.inputs(), strict=True)
        self.action_names: tuple[str, ...] = names
        self.metadata = {**self.metadata, "render_fps": 1 / self.game.tick}  # type: ignore[misc]
        width, height = self.game.scale
        self._channels = 3 if self.game.color else 1
        shape = (height, width, self._channels * self.game.stack)
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(len(self.inputs))
        self.display = VirtualDisplay(self.game.display, display)
        # Also of an environment that nobody closes, and at the end of the interpreter.
        self._closing = weakref.finalize(self, VirtualDisplay.close, self.display)
        self.clock = TickClock(self.game.tick)
        self._stack: deque[NDArray[np.uint8]] = deque(maxlen=self.game.stack)
        self._values: dict[str, float] = {}
        self._found: dict[str, float] = {}  #: What was found last in the episode.
        self._ends_by_exit = any(self.game.readers[name].kind == "exit" for name in self.game.end)
        self._frozen = self._has_failed = False
        self._window: Any = None
        self.restarts = 0
        with self._ending():
            self._readings: dict[str, Reading] = make_readings(self.game, self.display)
            logs = {name: each for name, each in self.game.readers.items() if isinstance(each, LogReader)}
            # Lines are counted from none in each tick.
            self._none = {name: 0.0 for name, each in logs.items() if not re.compile(each.pattern).groups}
            for each in (*self.inputs, *self.game.reset):
                self.display.check_keys(each)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Runs the script of the game, and takes the first frame."""
        super().reset(seed=seed)
        with self._ending():
            try:
                self._begin()
            except ScreenError as error:
                self._restart(error)
                self._begin()
        return self._observation(), self._info()

    def step(self, action: np.int64) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Does what an action says, waits until the tick is over, and looks."""
        return self.follow(self.inputs[int(action)])

    def follow(self, given: ScreenInput | None) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Does `step` with an input, or with none while somebody else plays."""
        with self._ending():
            try:
                before = self._play(given)
            except ScreenError as error:
                self._restart(error)
                return self._observation(), 0.0, False, True, {**self._info(), "failed": str(error)}
        is_over = any(self._values[name] > 0 for name in self.game.end)
        is_late = self.game.limit is not None and self.clock.frames + self.clock.dropped >= self.game.limit
        self._has_failed &= not (is_over or is_late)
        return self._observation(), self._reward(before), is_over, is_late and not is_over, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns that every action may be taken, bool ``(actions,)``: nobody knows what a program allows."""
        return np.ones(len(self.inputs), bool)

    def render(self) -> NDArray[np.uint8] | None:
        """Returns what the region shows now, uint8 ``(height, width, 3)``."""
        return None if self.render_mode is None else self.display.frame(self.game.seen)

    def close(self) -> None:
        """Ends the program and the display; later calls do nothing."""
        self._closing()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Ends all if something fails; that the display is gone is one line as well."""
        try:
            yield
        except Exception as error:
            self.close()
            if isinstance(error, self.display.errors):
                raise ScreenError(f"the display {self.display.name} is gone") from error
            raise

    def _restart(self, error: ScreenError) -> None:
        """Ends the program, so that an episode begins with it anew; raises the error if it is the second one."""
        if self._has_failed:
            raise error
        self._has_failed = True
        self.restarts += 1
        self._stop()

    def _stop(self) -> None:
        self.display.stop()
        self._window = None

    def _begin(self) -> None:
        """Runs the script, until nothing says that the episode is over, and takes the first frame."""
        self._freeze(False)
        if self.display.exit_code() is not None:
            self._stop()
        self._values, self._found = {}, {}
        for step in self.game.reset:
            self._run(step)
        why = f"the readers {', '.join(self.game.end)} of {self.game.name} say after the reset that the episode is over"
        self._wait(step, self.game.patience, why, lambda: all(self._read(name) <= 0 for name in self.game.end))
        self.display.press(())
        self.unread, self._missing = 0, dict.fromkeys(self._readings, 0)
        whole = self._look(self._whole())
        while np.isnan([*self._values.values()]).any():  # `_look` raises after the patience of the reader
            time.sleep(self.game.tick)
            whole = self._look(self._whole())
        self.clock.start()
        self._stack.extend([self._scaled(whole)] * self.game.stack)
        self._freeze(self.game.freeze)

    def _play(self, given: ScreenInput | None) -> dict[str, float]:
        """Plays a tick; returns what was found before it."""
        self._freeze(False)
        if given is not None:
            self.display.do(given)
        self.clock.wait()
        before = self._found | self._none
        whole = self._look(self._whole())
        self._stack.append(self._scaled(whole))
        if self.display.exit_code() is not None and not self._ends_by_exit:
            raise ScreenError(self._has_ended())
        self._freeze(self.game.freeze)
        return before

    def _run(self, step: ScreenStep) -> None:
        """Runs a step of the script."""
        if step.start or self._window is None or self.display.exit_code() is not None:
            self._start()
        self.display.do(step)
        time.sleep(step.wait)
        if (name := step.until) is not None:
            why = f"{self._unreadable(name)}, for which the reset waited {step.seconds:g} seconds"
            least = -1.0 if self.game.readers[name].kind == "number" else 0.0
            self._wait(step, step.seconds, why, lambda: self._read(name) > least)

    def _wait(self, given: ScreenInput, seconds: float, why: str, is_so: Callable[[], bool]) -> None:
        """Waits until something is so; repeats an input: the program may have been too busy to see it."""
        ends, again = time.monotonic() + seconds, time.monotonic() + _AGAIN
        while not is_so():
            if self.display.exit_code() is not None:
                raise ScreenError(self._has_ended())
            if time.monotonic() > ends:
                raise ScreenError(f"{why}: {self.display.last_words()}")
            if time.monotonic() > again:
                self.display.do(given)
                again += _AGAIN
            time.sleep(_LOOK)

    def _read(self, name: str) -> float:
        """Returns what a reader finds now, below all for nothing."""
        if (found := self._readings[name](self._whole())) is None:
            return -np.inf
        self._found[name] = found
        return found

    def _start(self) -> None:
        """Starts the program, and waits for its window."""
        self.display.start(self.game.program, self.game.environment)
        called = f" called {self.game.title!r}" if self.game.title else ""
        why = f"{self.game.program[0]} showed no window{called} in {self.game.patience:g} seconds"
        self._wait(ScreenInput(), self.game.patience, why, self._finds_window)
        self.display.focus(self._window)

    def _finds_window(self) -> bool:
        self._window = self.display.find_window(self.game.title)
        return self._window is not None

    def _whole(self) -> NDArray[np.uint8]:
        return self.display.frame((0, 0, *self.game.display))

    def _look(self, whole: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Reads a frame of the display into `_values`, and returns it."""
        for name, read in self._readings.items():
            value = read(whole)
            if value is not None:
                self._values[name], self._found[name], self._missing[name] = value, value, 0
                continue
            reader = self.game.readers[name]
            if isinstance(reader, LogReader):  # no number is new
                self._values[name] = 0.0
                self._found.setdefault(name, 0.0)
                continue
            self._values.setdefault(name, float("nan"))
            self._missing[name] += 1
            self.unread += 1
            if isinstance(reader, NumberReader) and self._missing[name] > reader.patience:
                raise ScreenError(f"{self._unreadable(name)} for {self._missing[name]} ticks")
        return whole

    def _reward(self, before: Mapping[str, float]) -> float:
        total = 0.0
        for each in self.game.rewards:
            change = self._found[each.reader] - before[each.reader]
            worth = {"change": change, "rise": max(change, 0.0), "value": self._values[each.reader]}
            total += each.weight * worth[each.of]
        return total

    def _scaled(self, whole: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Returns what the agent sees of a frame, uint8 ``(height, width, channels)``."""
        from PIL import Image

        left, top, width, height = self.game.seen
        picture = Image.fromarray(np.ascontiguousarray(whole[top : top + height, left : left + width]))
        picture = picture if self.game.color else picture.convert("L")
        scaled = np.asarray(picture.resize(self.game.scale, Image.Resampling.BOX), np.uint8)
        return scaled.reshape(*scaled.shape[:2], self._channels)

    def _observation(self) -> NDArray[np.uint8]:
        return np.concatenate([*self._stack], axis=2)

    def _info(self) -> dict[str, Any]:
        clock = self.clock
        counts = {"frames": clock.frames, "late": clock.late, "dropped": clock.dropped, "lag": clock.lag}
        return {**counts, "unread": self.unread, "restarts": self.restarts, "readings": dict(self._values)}

    def _freeze(self, frozen: bool) -> None:
        """Stops the program between two steps, and lets it go on; the clock stands still meanwhile."""
        if frozen == self._frozen:
            return
        self._frozen = frozen
        self.display.let_run(not frozen)
        if frozen:
            self.clock.pause()
        else:
            self.clock.go_on()

    def _unreadable(self, name: str) -> str:
        reader = self.game.readers[name]
        where = f" in {list(region)}" if (region := getattr(reader, "region", None)) else ""
        return f"the reader {name} of {self.game.name} finds nothing{where}"

    def _has_ended(self) -> str:
        code, said = self.display.exit_code(), self.display.last_words()
        return f"the program {self.game.program[0]} has ended with code {code}: {said}"
