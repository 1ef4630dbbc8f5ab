"""What happened in the learners' fights, as numbers per roll-out (self-play.md §11.5 and §11.6)."""

from sb3_pvp.envs.fight_metrics.accumulator import FightMetrics, summarize
from sb3_pvp.envs.fight_metrics.current_weights import WEIGHT_TAGS, current_weights
from sb3_pvp.envs.fight_metrics.episode_statistics import EpisodeStatistics
from sb3_pvp.envs.fight_metrics.measurable import Measurable
from sb3_pvp.envs.fight_metrics.table import METRICS, Metric

__all__ = [
    "METRICS",
    "WEIGHT_TAGS",
    "EpisodeStatistics",
    "FightMetrics",
    "Measurable",
    "Metric",
    "current_weights",
    "summarize",
]
