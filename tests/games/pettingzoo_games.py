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


class Relay(ParallelEnv):  # type: ignore[type-arg]
    """A team alone: a runner, who chooses a lane and leaves, and a catcher, who sees more and has a mask.

    The runner gets 1 and leaves in the first step. The catcher gets 2 for the lane of the runner; all is over after two
    steps more.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "relay_v0"}

    def __init__(self) -> None:
        self.possible_agents = ["runner", "catcher"]

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 10, (1,) if agent == "runner" else (2, 2), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3, start=5) if agent == "runner" else spaces.MultiDiscrete([3, 2])

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents, self.rounds = list(self.possible_agents), 0
        self.lane = int(np.random.default_rng(seed).integers(3))
        return self._observe()

    def step(self, actions: dict[str, Any]) -> Any:
        assert set(actions) == set(self.agents)
        self.rounds += 1
        rewards = {"catcher": 2.0 * (int(actions["catcher"][0]) == self.lane)}
        if "runner" in actions:
            self.lane, rewards["runner"] = int(actions["runner"]) - 5, 1.0
        over = {agent: agent == "runner" or self.rounds == 3 for agent in self.agents}
        self.agents = [agent for agent in self.agents if not over[agent]]
        return *self._observe()[:1], rewards, over, dict.fromkeys(over, False), self._observe()[1]

    def close(self) -> None:
        """There is nothing to close."""

    def _observe(self) -> Any:
        seen = {"runner": np.array([7.0]), "catcher": np.array([[self.lane, 1], [self.rounds, 2]])}
        masks = {"catcher": {"action_mask": (np.ones(3, np.int8), np.array([1, self.rounds > 0], np.int8))}}
        return {agent: seen[agent] for agent in self.agents}, {agent: masks.get(agent, {}) for agent in self.agents}


class Thermostat(ParallelEnv):  # type: ignore[type-arg]
    """A team alone, whose agents see how warm it is to be: the heater sets it, from 10 to 30, and a colour (a Tuple).

    The fan only sets two numbers, from 0 to 1 and from -5 to 5 (a Box), which should be 1 and 0. Over after a step.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "thermostat_v0"}

    def __init__(self, only_numbers: bool = False) -> None:
        self.possible_agents = ["fan"] if only_numbers else ["heater", "fan"]
        self.played: list[Any] = []

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(10, 30, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        box = spaces.Box(np.array([0, -5], np.float32), np.array([1, 5], np.float32))
        heat = spaces.Dict({"heat": spaces.Box(10, 30, (1, 1)), "less": spaces.Box(-2, 0, ())})
        return box if agent == "fan" else spaces.Tuple((spaces.Discrete(3, start=1), heat))

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents = list(self.possible_agents)
        self.wanted = np.random.default_rng(seed).uniform(10, 30, 1).astype(np.float32)
        return dict.fromkeys(self.agents, self.wanted), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        assert all(self.action_space(agent).contains(each) for agent, each in actions.items())
        self.played.append(actions)
        rewards = dict.fromkeys(actions, 0.0)
        if "heater" in actions:
            colour, heat = actions["heater"]
            rewards["heater"] = float(colour == 2) - abs(float(heat["heat"][0, 0] - self.wanted[0])) / 20
        rewards["fan"] = float(actions["fan"][0] - abs(actions["fan"][1]) / 5)
        seen, over, self.agents = dict.fromkeys(actions, self.wanted), dict.fromkeys(actions, True), []
        return seen, rewards, over, dict.fromkeys(actions, False), {agent: {} for agent in actions}

    def close(self) -> None:
        """There is nothing to close."""
