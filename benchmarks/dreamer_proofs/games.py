"""Small games that ask for one ability each: to remember, and to see."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Repeat(gym.Env[Floats, Any]):
    """Every tick shows one of two cues at random; what pays is to choose the one shown ``delay`` ticks ago.

    +1 if it is, else -1, for 32 ticks; nothing is paid before there was such a cue. Without memory, 0 is expected.
    """

    ticks = 32

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.observation_space = spaces.Box(0, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Returns the first cue."""
        super().reset(seed=seed)
        self.cues = [int(self.np_random.integers(2))]
        return self._shown(), {}

    def step(self, action: int) -> Step:
        """Pays for the choice, and shows the next cue."""
        tick = len(self.cues) - 1
        reward = 0.0 if tick < self.delay else 1.0 if action == self.cues[tick - self.delay] else -1.0
        self.cues.append(int(self.np_random.integers(2)))
        return self._shown(), reward, False, tick + 1 == self.ticks, {}

    def _shown(self) -> Floats:
        shown: Floats = np.eye(2, dtype=np.float32)[self.cues[-1]]
        return shown


class Cue(gym.Env[Floats, Any]):
    """Shows one of two cues at first, and asks for it ``delay`` ticks later: +1 for the right answer, else -1.

    An observation is the cue, two numbers that are 0 later on.
    """

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.observation_space = spaces.Box(0, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Returns the cue."""
        super().reset(seed=seed)
        self.tick, self.cue = 0, int(self.np_random.integers(2))
        return np.eye(2, dtype=np.float32)[self.cue], {}

    def step(self, action: int) -> Step:
        """Pays for the answer if this was asked for."""
        asked = self.tick == self.delay
        reward = (1.0 if action == self.cue else -1.0) if asked else 0.0
        self.tick += 1
        return np.zeros(2, np.float32), reward, asked, False, {}


class Chase(gym.Env[NDArray[np.uint8], Any]):
    """A picture of 64 x 64 pixels, three by three cells: a grey one that one moves, and a white one to be reached.

    +1 for a step towards the white one, else -1, for 32 ticks; where it is reached, it appears elsewhere. Whoever sees
    both gets 32; random steps get about -7.
    """

    cells, pixels, ticks = 3, 21, 32
    moves = ((-1, 0), (1, 0), (0, -1), (0, 1))

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, (64, 64, 1), np.uint8)
        self.action_space = spaces.Discrete(len(self.moves))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Returns the picture with both squares anywhere."""
        super().reset(seed=seed)
        self.tick, self.own = 0, self.np_random.integers(self.cells, size=2)
        self._place()
        return self._drawn(), {}

    def step(self, action: int) -> Step:
        """Moves by one cell, or not where the picture ends."""
        before = abs(self.own - self.goal).sum()
        self.own = np.clip(self.own + self.moves[action], 0, self.cells - 1)
        reward = 1.0 if abs(self.own - self.goal).sum() < before else -1.0
        if np.array_equal(self.own, self.goal):
            self._place()
        self.tick += 1
        return self._drawn(), reward, False, self.tick == self.ticks, {}

    def _place(self) -> None:
        self.goal = self.own
        while np.array_equal(self.own, self.goal):
            self.goal = self.np_random.integers(self.cells, size=2)

    def _drawn(self) -> NDArray[np.uint8]:
        cells = np.zeros((self.cells, self.cells), np.uint8)
        cells[tuple(self.own)], cells[tuple(self.goal)] = 128, 255
        # One row and one column of pixels are left over.
        return np.pad(np.kron(cells, np.ones((self.pixels, self.pixels), np.uint8)), (0, 1))[..., None]
