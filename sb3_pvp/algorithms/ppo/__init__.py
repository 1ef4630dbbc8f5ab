"""Masked PPO for self-play: schedules over rollouts, reward normalisation, gradient accumulation, exact resume."""

from sb3_pvp.algorithms.ppo.algorithm import PvpPPO
from sb3_pvp.algorithms.ppo.reward_normalizer import RewardNormalizer
from sb3_pvp.algorithms.ppo.rollout_log import METRICS

__all__ = ["METRICS", "PvpPPO", "RewardNormalizer"]

# Pickle stores a class by its __module__; without this, moving the files would break saved models.
PvpPPO.__module__ = RewardNormalizer.__module__ = __name__
