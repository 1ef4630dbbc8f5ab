"""Small PettingZoo games for tests."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

AGENTS = ["north", "south"]


class Auction(ParallelEnv):  # type: ignore[type-arg]
    """Both bid for a prize of random worth, out of a purse of 3 each; two prizes, then the time is up.

    The second head has no effect. Where the masks are: ``"observation"``, ``"info"`` (one array per head),
    ``"nowhere"``. ``options={"purse": n}`` changes the purse.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "auction_v0"}

    def __init__(self, masks: str = "observation", agents: list[str] = AGENTS, seen: Any = None) -> None:
        self.place_of_masks = masks
        self.possible_agents = list(agents)
        plain = spaces.Box(0, 10, (2,), np.float32) if seen is None else seen
        masked = spaces.Dict({"observation": plain, "action_mask": spaces.MultiBinary(6)})
        self._spaces = masked if masks == "observation" else plain
        self.closed = False

    def observation_space(self, agent: str) -> Any:
        return self._spaces

    def action_space(self, agent: str) -> Any:
        return spaces.MultiDiscrete([4, 2], start=[10, 0])

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.rng = np.random.default_rng(seed)
        self.options = options
        self.agents = list(self.possible_agents)
        self.purses = dict.fromkeys(self.agents, (options or {}).get("purse", 3))
        self.rounds = 0
        self._show()
        return self._observe_all()

    def step(self, actions: dict[str, Any]) -> Any:
        bids = {agent: int(action[0]) - 10 for agent, action in actions.items()}
        assert all(bids[agent] <= self.purses[agent] for agent in self.agents) or self.place_of_masks == "nowhere"
        best = max(bids.values())
        rewards = dict.fromkeys(self.agents, 0.0)
        if len(set(bids.values())) > 1:
            winner = next(agent for agent in self.agents if bids[agent] == best)
            rewards[winner] = float(self.prize)
            self.purses[winner] -= best
        self.rounds += 1
        self._show()
        over = dict.fromkeys(self.agents, self.rounds == 2)
        observations, infos = self._observe_all()
        return observations, rewards, dict.fromkeys(self.agents, False), over, infos

    def close(self) -> None:
        self.closed = True

    def _show(self) -> None:
        self.prize = self.rng.integers(1, 10)

    def _observe_all(self) -> Any:
        observations: dict[str, Any] = {}
        infos: dict[str, Any] = {agent: {} for agent in self.possible_agents}
        for agent in self.possible_agents:
            seen = np.array([self.prize, self.purses[agent]], np.float32)
            parts = [(np.arange(4) <= self.purses[agent]).astype(np.int8), np.ones(2, np.int8)]
            observations[agent] = seen
            if self.place_of_masks == "observation":
                observations[agent] = {"observation": seen, "action_mask": np.concatenate(parts)}
            elif self.place_of_masks == "info":
                infos[agent] = {"action_mask": tuple(parts)}
        return observations, infos
