"""Rock, paper, scissors against models that a callback chooses, with the face of `NhEnv`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray

from sb3_pvp import PvpPPO
from sb3_pvp.players.opponents import OpponentChoice
from tests.callbacks.duel import ResumableDuels

ROCK, PAPER, SCISSORS = range(3)


class Throws(gym.Env[NDArray[np.float32], Any]):
    """Episodes of one throw each; there is nothing to see. The opponent is the file of a model."""

    def __init__(self, reward: float = 1.0) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.reward = reward
        self.chosen = self.present = OpponentChoice("nobody")
        self._chances: dict[Any, NDArray[np.float64]] = {"nobody": np.full(3, 1 / 3)}

    def set_opponent(self, choice: OpponentChoice) -> None:
        """For the next episode."""
        self.chosen = choice

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.present = self.chosen
        path = self.present.opponent
        if path not in self._chances:
            self._chances[path] = chances(PvpPPO.load(path, device="cpu"))  # type: ignore[arg-type]
        return np.ones(1, np.float32), {"opponent": self.present.label}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        theirs = int(self.np_random.choice(3, p=self._chances[self.present.opponent]))
        outcome = ("tied", "won", "lost")[(int(action) - theirs) % 3]
        reward = {"tied": 0.0, "won": 1.0, "lost": -1.0}[outcome] * self.reward
        info = {"opponent": self.present.label, "outcome": outcome, "episode_ticks": 1, "seed": None}
        return np.ones(1, np.float32), reward, True, False, info

    def action_masks(self) -> NDArray[np.bool_]:
        return np.ones(3, bool)


def throws(n_envs: int = 8, **kwargs: Any) -> ResumableDuels:
    """A vectorised environment of them that can be put back."""
    return ResumableDuels([lambda: Throws(**kwargs)] * n_envs)


def thrower(n_steps: int = 16, **kwargs: Any) -> PvpPPO:
    """A learner of this game with the smallest of networks."""
    settings = {"batch_size": 64, "n_epochs": 4, "learning_rate": 3e-2, "seed": 1, "policy_kwargs": {"net_arch": []}}
    return PvpPPO("MlpPolicy", throws(), n_steps=n_steps, device="cpu", **(settings | kwargs))  # type: ignore[arg-type]


def scripted(favourite: int, path: Path, steps: int = 0) -> None:
    """Writes the model of a champion of that age who has a favourite throw, nine times out of ten."""
    model = thrower()
    model.num_timesteps = steps
    with th.no_grad():
        head = model.policy.action_net
        head.weight.zero_()
        head.bias.copy_(th.log(th.full((3,), 0.05).index_fill_(0, th.tensor(favourite), 0.9)))
    model.save(path, exclude=["training_state"])


def chances(model: PvpPPO) -> NDArray[np.float64]:
    """How often a model throws what, float64 ``(3,)``."""
    with th.no_grad():
        choice: Any = model.policy.get_distribution(th.ones(1, 1)).distribution
    weights = choice.probs[0].numpy().astype(np.float64)
    return weights / weights.sum()
