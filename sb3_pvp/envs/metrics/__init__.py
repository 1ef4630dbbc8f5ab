"""What happened in the learners' fights, as numbers per roll-out (self-play.md §11.5 and §11.6)."""

from sb3_pvp.envs.metrics.accumulator import FightMetrics, Measures, measures_of, metrics_of, summarize
from sb3_pvp.envs.metrics.episode_statistics import EpisodeStatistics

__all__ = ["EpisodeStatistics", "FightMetrics", "Measures", "measures_of", "metrics_of", "summarize"]
