"""Masked PPO for self-play: schedules over rollouts, reward normalisation, gradient accumulation, exact resume."""

from sb3_pvp.ppo.algorithm import PvpPPO
from sb3_pvp.ppo.metrics import METRICS
from sb3_pvp.ppo.reward_normalizer import RewardNormalizer

__all__ = ["METRICS", "PvpPPO", "RewardNormalizer"]

# Saved models refer to these by where they say that they live; the files behind this package may be rearranged.
PvpPPO.__module__ = RewardNormalizer.__module__ = __name__
