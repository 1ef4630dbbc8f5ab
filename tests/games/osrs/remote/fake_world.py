"""A world without a game, whose replies show their seat and tick."""

from __future__ import annotations

from typing import Any

import numpy as np

from sb3_pvp.game import Outcome
from sb3_pvp.game.contract import load_contract
from sb3_pvp.games.osrs.meta_fields import META_DTYPE, Style

STATE = np.dtype([("target_hp", "f8"), ("ticks", "i8")])
DEATH_TICK = 5


class FakeWorld:
    """Seat 0 lacks PID and wins in tick `DEATH_TICK`; observation 0 is the tick, 1 the seat, 2 the last attack."""

    def __init__(self, num_fights: int, seed: int, *, contract: str = "NhEnv") -> None:
        self.contract = load_contract(contract)
        self.num_fights = num_fights
        self.seed = seed
        self.obs = np.zeros((num_fights, 2, self.contract.num_observations), np.float32)
        self.masks = np.ones((num_fights, 2, self.contract.num_flat_actions), np.bool_)
        self.meta = np.zeros((num_fights, 2), META_DTYPE)
        self.report, self.ticks = self.meta, self.meta["episode_ticks"][:, 0]
        for name in ("current_player_prayer_type", "current_target_prayer_type"):
            self.meta[name] = Style.NONE
        self.outcome = np.zeros((num_fights, 2), np.uint8)
        self.state = np.zeros((num_fights, 2), STATE)
        self.options: list[Any] = [None] * num_fights
        self.batches: list[list[int]] = []
        self.closed = False

    def reset(self, fights: Any = None, options: Any = None) -> None:
        for fight in range(self.num_fights) if fights is None else fights:
            self.options[fight] = options
            first_tick = 1 if options is not None and "baseline" in options["bots"] else 0
            self.meta["episode_ticks"][fight] = first_tick
            self.outcome[fight] = Outcome.RUNNING
            self._observe(fight, np.zeros((2, self.contract.num_heads), np.int64))

    def step(self, actions: Any, fights: Any = None) -> None:
        indices = range(self.num_fights) if fights is None else fights
        self.batches.append(list(indices))
        for fight, action in zip(indices, actions, strict=True):
            self.meta["episode_ticks"][fight] += 1
            if self.meta["episode_ticks"][fight, 0] == DEATH_TICK:
                self.outcome[fight] = Outcome.WON, Outcome.LOST
            self._observe(fight, action)

    def _observe(self, fight: int, action: Any) -> None:
        tick = self.meta["episode_ticks"][fight, 0]
        self.obs[fight, :, 0] = tick
        self.obs[fight, :, 1] = 0, 1
        self.obs[fight, :, 2] = action[:, 0]
        self.obs[fight, :, self.contract.observation_index("player_has_pid")] = 0, 1
        # Always one vector late, as in `SimWorld`.
        self.obs[fight, :, self.contract.observation_index("target_health_percent")] = 0.5
        self.state["target_hp"][fight] = 0.0 if tick == DEATH_TICK else 0.5

    def login(self, fight: int, seat: int) -> Any:
        return ("login", fight, seat)

    def close(self) -> None:
        self.closed = True
