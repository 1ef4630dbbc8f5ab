"""Games so small that it is known what the best fighter reaches, and what a fighter reaches that lacks something."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Reader:
    """An opponent who remembers what was chosen lately, and expects it as often as it was."""

    def __init__(self, num_choices: int, memory: int = 512) -> None:
        self.frequencies = np.full(num_choices, 1 / num_choices)
        self.memory = memory

    def remember(self, choice: int) -> None:
        self.frequencies *= 1 - 1 / self.memory
        self.frequencies[choice] += 1 / self.memory


class Feint(gym.Env[NDArray[np.float32], NDArray[np.int64]]):
    """Two hands have to choose the same of four targets, which must not be the one that the opponent expects.

    Every fight is one action long, and there is nothing to see. Whoever cannot couple the hands is either read or
    uncoordinated: the chance to agree on a target is ``p_k q_k``, and the best answer to that is to expect the most
    likely one. Because the square roots of ``p_k q_k`` add up to 1 at most (Cauchy-Schwarz), what is left is 1/4 at
    most, with two targets at 1/2 each. With coupled hands it is 3/4, with four targets at 1/4 each.
    """

    NUM_TARGETS = 4
    BEST_INDEPENDENT = 1 / 4

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.MultiDiscrete([self.NUM_TARGETS, self.NUM_TARGETS])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: NDArray[np.int64]) -> Step:
        first, second = action
        expected = self.reader.frequencies[first]
        self.reader.remember(first)
        return np.ones(1, np.float32), float(first == second) * (1.0 - float(expected)), True, False, {}


class Luck(gym.Env[dict[str, Any], NDArray[np.int64]]):
    """The right answer to what is seen brings 1, but hidden luck decides over ``±STAKES``.

    Twelve questions with twelve answers, several questions in a fight, one reward at its end. Only the privileged part
    shows the luck, and how many answers were right so far. A critic that sees it subtracts it; without, a right answer
    is one part in ``STAKES`` of the noise.
    """

    NUM_ANSWERS, LENGTH, STAKES = 12, 4, 40.0

    def __init__(self, privileged: bool = True) -> None:
        self.show_luck = privileged
        parts = {"observation": spaces.Box(0.0, 1.0, (1, self.NUM_ANSWERS), np.float32)}
        if privileged:
            parts["privileged"] = spaces.Box(-1.0, 1.0, (1, 2), np.float32)
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.Discrete(self.NUM_ANSWERS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.luck = self.np_random.choice([-1.0, 1.0])
        self.ticks = self.right = 0
        return self._ask(), {}

    def step(self, action: NDArray[np.int64]) -> Step:
        right = bool(action == self.answer_to(self.question))
        self.ticks += 1
        self.right += right
        done = self.ticks == self.LENGTH
        reward = self.right + self.STAKES * self.luck if done else 0.0
        return self._ask(), float(reward), done, False, {"right": right}

    @classmethod
    def answer_to(cls, question: Any) -> Any:
        """The right answer to a question, or to an array of them."""
        return (5 * question + 1) % cls.NUM_ANSWERS

    def _ask(self) -> dict[str, Any]:
        self.question = int(self.np_random.integers(self.NUM_ANSWERS))
        seen = {"observation": np.eye(self.NUM_ANSWERS, dtype=np.float32)[[self.question]]}
        if self.show_luck:
            seen["privileged"] = np.array([[self.luck, self.right / self.LENGTH]], np.float32)
        return seen


class Keyholes(gym.Env[dict[str, Any], NDArray[np.int64]]):
    """Four keys in eight shapes, 4,096 combinations; two shapes fit for each key, the larger or the smaller is right.

    The observation shows what fits, so that masks add no knowledge, and whether larger is right this time. Only if
    all keys are right there is a reward of 1: a guess among the 16 legal combinations wins 1 of 16, any guess 1 of
    4,096.
    """

    NUM_KEYS, NUM_SHAPES = 4, 8

    def __init__(self, masked: bool = True) -> None:
        flat = self.NUM_KEYS * self.NUM_SHAPES
        self.masked = masked
        parts = {"observation": spaces.Box(0.0, 1.0, (1, flat + 1), np.float32)}
        if masked:
            parts["action_mask"] = spaces.Box(0, 1, (flat,), np.int8)
        self.observation_space = spaces.Dict(parts)
        self.action_space = spaces.MultiDiscrete([self.NUM_SHAPES] * self.NUM_KEYS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        order = self.np_random.random((self.NUM_KEYS, self.NUM_SHAPES)).argsort(1)
        self.fits = order < 2
        self.larger = bool(self.np_random.integers(2))
        return self._observe(), {}

    def step(self, action: NDArray[np.int64]) -> Step:
        keys = np.arange(self.NUM_KEYS)
        shapes = np.arange(self.NUM_SHAPES)
        beyond = shapes > action[:, None] if self.larger else shapes < action[:, None]
        right = self.fits[keys, action] & ~(self.fits & beyond).any(1)
        return self._observe(), float(right.all()), True, False, {}

    def action_masks(self) -> NDArray[np.bool_]:
        return self.fits.ravel() if self.masked else np.ones(self.fits.size, bool)

    def _observe(self) -> dict[str, Any]:
        seen = {"observation": np.append(self.fits, self.larger).astype(np.float32)[None]}
        return seen | ({"action_mask": self.fits.ravel().astype(np.int8)} if self.masked else {})
