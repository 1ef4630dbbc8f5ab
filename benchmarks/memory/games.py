"""Games that only memory wins: a cue of ten ticks ago, and an opponent with a hidden habit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import comb
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks.dreamer_proofs.games import Cue
from sb3_pvp.algorithms.ppo import PvpPPO
from sb3_pvp.policies import AutoregressivePolicy

DELAY, ROUNDS, HABIT = 10, 20, 0.6
#: Memories of equal size, and none.
KINDS: dict[str, dict[str, Any] | None] = {
    "gru": {"kind": "gru", "size": 32},
    "lstm": {"kind": "lstm", "size": 32},
    "attention": {"kind": "attention", "size": 32, "ticks": ROUNDS},
    "none": None,
}


class HiddenHabit(gym.Env[NDArray[np.float32], Any]):
    """Rock-paper-scissors of 20 rounds against somebody who prefers a hand, another one in each fight.

    An observation is the hand that the opponent has just shown, as three numbers. A round pays 1, 0 or -1.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Returns that nothing has been shown."""
        super().reset(seed=seed)
        self.round, self.habit = 0, int(self.np_random.integers(3))
        return np.zeros(3, np.float32), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Shows both hands."""
        is_other = self.np_random.random() >= HABIT
        hand = (self.habit + int(is_other) * int(self.np_random.integers(1, 3))) % 3
        self.round += 1
        reward = (0.0, 1.0, -1.0)[(int(action) - hand) % 3]
        return np.eye(3, dtype=np.float32)[hand], reward, self.round == ROUNDS, False, {}


def best_return() -> float:
    """Returns what whoever knows the rules can expect of a fight: the best reply to what was shown, by Bayes' rule."""
    other = (1 - HABIT) / 2
    total = 0.0
    for played in range(ROUNDS):
        for first, second in product(range(played + 1), repeat=2):
            if (third := played - first - second) < 0:
                continue
            counts = np.array([first, second, third])
            ways = comb(played, first) * comb(played - first, second)
            likelihoods = ways * HABIT**counts * other ** (played - counts) / 3  # with each habit
            hands = likelihoods @ (np.eye(3) * (HABIT - other) + other)
            total += max(float(hands[hand] - hands[(hand + 2) % 3]) for hand in range(3))
    return total


def trained(game: str, kind: str, seed: int, steps: int) -> Iterator[tuple[int, float]]:
    """Learns a game (``"cue"`` or ``"habit"``); yields steps and what it reaches, in four parts.

    That is the share of right answers, or the mean return of a fight.
    """
    make, rounds = (lambda: Cue(DELAY), DELAY + 1) if game == "cue" else (HiddenHabit, ROUNDS)
    env = DummyVecEnv([make] * 64)
    env.seed(1000 * seed)
    settings: dict[str, Any] = {"n_steps": 4 * rounds, "batch_size": 16 * 4 * rounds, "n_epochs": 4}
    # A hand changes nothing of what follows, the answer to a cue is all that pays.
    settings["gamma"] = 0.99 if game == "cue" else 0.5
    kwargs = {"net_arch": [64], "memory": KINDS[kind]}
    model = PvpPPO(AutoregressivePolicy, env, 2e-3, policy_kwargs=kwargs, seed=seed, device="cpu", **settings)
    for _ in range(4):
        model.learn(steps // 4, use_masking=False, reset_num_timesteps=not model.num_timesteps)
        yield model.num_timesteps, played(model, rounds, 100 if game == "habit" else 10, game == "cue", seed)


def played(model: PvpPPO, ticks: int, fights: int, is_cue: bool, seed: int) -> float:
    """Returns what a model reaches in 64 times so many fights, with its likeliest actions."""
    env = DummyVecEnv([(lambda: Cue(DELAY)) if is_cue else HiddenHabit] * 64)
    env.seed(10**6 + seed)
    seen, state, starts, paid = env.reset(), None, np.ones(64, bool), []
    for _ in range(ticks * fights):
        with th.no_grad():
            actions, state = model.predict(seen, state, starts, deterministic=True)  # type: ignore[arg-type]
        seen, rewards, starts, _ = env.step(actions)
        paid.append(rewards)
    total = float(np.sum(paid)) / (64 * fights)
    return (total + 1) / 2 if is_cue else total
