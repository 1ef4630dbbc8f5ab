"""How often a model wins, and how sure one can be of that."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import VecEnv

# A fight that reaches the limit of ticks is nobody's win; what is not named here is broken.
FIELDS = {"won": "wins", "lost": "losses", "tied": "ties", "timeout": "ties"}


@dataclass
class Score:
    """Counts of finished episodes from the model's point of view; broken ones count as neither won nor lost."""

    wins: int = 0
    losses: int = 0
    ties: int = 0
    broken: int = 0
    ticks: int = 0

    @property
    def decided(self) -> int:
        """Episodes that say something about the model: all but the broken ones."""
        return self.wins + self.losses + self.ties

    @property
    def win_rate(self) -> float:
        """Share of the decided episodes that were won; 0 if there are none."""
        return self.wins / max(self.decided, 1)

    def as_dict(self) -> dict[str, Any]:
        """The figures that ``sb3-pvp evaluate --json`` prints."""
        episodes = self.decided + self.broken
        return {
            "episodes": episodes,
            "wins": self.wins,
            "losses": self.losses,
            "ties": self.ties,
            "broken": self.broken,
            "win_rate": self.win_rate,
            "ci95": list(wilson_interval(self.wins, self.decided)),
            "mean_ticks": self.ticks / max(episodes, 1),
        }

    def __str__(self) -> str:
        low, high = wilson_interval(self.wins, self.decided)
        counts = f"{self.wins} won, {self.losses} lost, {self.ties} tied, {self.broken} broken"
        return f"win rate {self.win_rate:.1%} (95 % interval {low:.1%} to {high:.1%}; {counts})"


def wilson_interval(wins: int, episodes: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's score interval for a share; ``z = 1.96`` covers 95 %. Without episodes anything is possible: (0, 1)."""
    if not episodes:
        return 0.0, 1.0
    share, spread = wins / episodes, z * z / episodes
    center = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / episodes + spread / (4 * episodes)) / (1 + spread)
    return max(center - half, 0.0), min(center + half, 1.0)


def evaluate_model(model: MaskablePPO, env: VecEnv, num_episodes: int, deterministic: bool = True) -> Score:
    """Lets the model play ``num_episodes`` in ``env``.

    Every environment plays its fixed share: counting whichever episodes end first would favour short ones.
    """
    share = np.array([(num_episodes + i) // env.num_envs for i in range(env.num_envs)])
    score, observations = Score(), env.reset()
    while share.any():
        actions, _ = model.predict(observations, deterministic=deterministic)  # type: ignore[arg-type]
        observations, _, dones, infos = env.step(actions)
        for index in np.flatnonzero(dones & (share > 0)):
            share[index] -= 1
            _count(score, infos[index])
    return score


def _count(score: Score, info: dict[str, Any]) -> None:
    field = FIELDS.get(info["outcome"], "broken")
    setattr(score, field, getattr(score, field) + 1)
    score.ticks += info["episode"]["l"]
