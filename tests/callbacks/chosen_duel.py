"""Duels against opponents that a callback chooses; how often they win depends on their names alone."""

from __future__ import annotations

import zlib
from typing import Any

from duel import Duel, ResumableDuels

from sb3_pvp.players.opponents import OpponentChoice


class ChosenDuel(Duel):
    """A `Duel` with the face of `NhEnv`: choices are for the next episode."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.chosen = OpponentChoice("stayalive")
        self.history: list[OpponentChoice] = []

    def set_opponent(self, choice: OpponentChoice) -> None:
        """For the next episode."""
        self.chosen = choice

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        self.history.append(self.chosen)
        strength = zlib.crc32(self.chosen.label.encode()) % 100 / 100
        self.sign = 1.0 if self.np_random.random() > strength else -1.0
        return observation, info | {"opponent": self.chosen.label}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = super().step(action)
        if "outcome" in step[-1]:
            step[-1].update(opponent=self.history[-1].label, episode_ticks=self.steps, seed=None)
        return step


def chosen_duels(number: int = 4, seed: int = 0, **kwargs: Any) -> ResumableDuels:
    """A vectorised environment of them."""
    env = ResumableDuels([lambda: ChosenDuel(**kwargs)] * number)
    env.seed(seed)
    return env
