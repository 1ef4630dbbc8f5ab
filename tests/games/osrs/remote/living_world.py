"""A `FakeWorld` with health, so that a client can predict the outcome."""

from __future__ import annotations

from typing import Any

import numpy as np

from sb3_pvp.game import Outcome
from tests.games.osrs.remote.fake_world import FakeWorld


class LivingWorld(FakeWorld):
    """Both seats have full health until seat 1 dies in tick `DEATH_TICK`; ``played`` has all actions of each fight."""

    def __init__(self, num_fights: int, seed: int, *, contract: str = "NhEnv") -> None:
        super().__init__(num_fights, seed, contract=contract)
        self.played: list[list[Any]] = [[] for _ in range(num_fights)]

    def reset(self, fights: Any = None, options: Any = None) -> None:
        super().reset(fights, options)
        for fight in range(self.num_fights) if fights is None else fights:
            self.played[fight] = []
        self._heal()

    def step(self, actions: Any, fights: Any = None) -> None:
        # The step after the end is not one of the fight.
        over = [bool(self.outcome[fight, 0]) for fight in range(self.num_fights)]
        super().step(actions, fights)
        for fight, action in zip(range(self.num_fights) if fights is None else fights, actions, strict=True):
            if not over[fight]:
                self.played[fight].append(np.array(action).tolist())
        self._heal()

    def _heal(self) -> None:
        lost = self.outcome == Outcome.LOST
        for seat in range(2):
            self.meta["current_health_percent"][:, seat] = np.where(lost[:, seat], 0.0, 1.0)
            self.meta["current_target_health_percent"][:, seat] = np.where(lost[:, 1 - seat], 0.0, 1.0)
        self.meta["current_prayer_percent"] = 1.0
        self.meta["food_count"] = self.meta["target_food_count"] = 1
