"""A game of one head that raises on every illegal action: who names the higher number gets a point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp.envs import PvpEnv
from sb3_pvp.game import Game
from sb3_pvp.game.arrays import ArrayWorld
from sb3_pvp.game.contract import Contract, Head, Observation, SubAction
from sb3_pvp.game.contract.turn import Turn

GAME = "tests.policies.files.numbers_game:Numbers"
TICKS = 6
HEAD = Head("number", "The number.", tuple(SubAction(each, f"Name {each}.") for each in ("zero", "one", "two", "four")))
CONTRACT = Contract("numbers", (HEAD,), tuple(Observation(each, f"The {each}.") for each in ("tick", "luck", "points")))


class NumbersWorld(ArrayWorld):
    """In every tick a number above zero is forbidden to each seat, at random; luck is added to numbers."""

    def begin(self, fight: int, options: Mapping[str, Any]) -> None:
        self.obs[fight] = 0.0
        self._forbid(fight)

    def play_fight(self, fight: int, actions: NDArray[np.int64]) -> None:
        for seat, (number,) in enumerate(actions):
            assert self.masks[fight, seat, number], f"{number} is forbidden"
        numbers = actions[:, 0] + self.obs[fight, :, 1]
        self.obs[fight, :, 2] += numbers > numbers[::-1]
        self.obs[fight, :, 0] = self.ticks[fight]
        self._forbid(fight)
        if self.ticks[fight] >= TICKS:
            self.end(fight, *self.obs[fight, :, 2].tolist())

    def _forbid(self, fight: int) -> None:
        self.obs[fight, :, 1] = self.random[fight].random(2)
        self.masks[fight] = True
        self.masks[fight, [0, 1], self.random[fight].integers(1, 4, size=2)] = False


def _any_number(turn: Turn) -> None:
    for number in ("two", "one", "four"):
        turn.choose(number, (turn.chance < 0.5) & turn.can(number))


class Numbers(Game):
    name, contract = CONTRACT.name, CONTRACT
    scripts: Mapping[str, Any] = {"any": _any_number}

    def make_world(self, where: str, num_fights: int, seed: int, params: Mapping[str, Any]) -> NumbersWorld:
        return NumbersWorld(CONTRACT, num_fights, seed)


class Flat(gym.Wrapper[Any, Any, Any, Any]):
    """What stock algorithms take: a vector, or a Dict without the privileged part, and one number as the action.

    A forbidden number is replaced by the first legal one.
    """

    def __init__(self, is_dict: bool = False) -> None:
        super().__init__(PvpEnv(game=GAME, opponent="any"))
        self.action_space, parts = spaces.Discrete(4), self.env.observation_space
        assert isinstance(parts, spaces.Dict)
        self._is_dict = is_dict
        self.observation_space = self._seen(parts) if is_dict else spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def _seen(self, parts: Any) -> Any:
        if not self._is_dict:
            return parts["observation"][0]
        kept = {key: parts[key] for key in ("observation", "action_mask")}
        return spaces.Dict(kept) if isinstance(parts, spaces.Dict) else kept

    def reset(self, **given: Any) -> Any:
        seen, info = self.env.reset(**given)
        return self._seen(seen), info

    def step(self, action: Any) -> Any:
        mask = self.env.unwrapped.action_masks()  # type: ignore[attr-defined]
        legal = int(action) if mask[int(action)] else int(mask.argmax())
        seen, *rest = self.env.step(np.array([legal]))
        return self._seen(seen), *rest
