"""SB3 callbacks for training fighters; in rl-zoo3, list them under ``callback:`` with their arguments."""

from sb3_pvp.callbacks.fight_metrics import FightMetricsCallback
from sb3_pvp.callbacks.novelty import NoveltyRewardCallback
from sb3_pvp.callbacks.observation_metrics import ObservationMetricsCallback
from sb3_pvp.callbacks.outcome_predictor import OutcomePredictorCallback

__all__ = [
    "FightMetricsCallback",
    "NoveltyRewardCallback",
    "ObservationMetricsCallback",
    "OutcomePredictorCallback",
]
