"""SB3 callbacks for training fighters; in rl-zoo3, list them under ``callback:`` with their arguments."""

from sb3_pvp.callbacks.checkpoint import MaskableCheckpointCallback
from sb3_pvp.callbacks.early_stopping import EarlyStoppingCallback
from sb3_pvp.callbacks.elo import EloCallback
from sb3_pvp.callbacks.episode_log import EpisodeLogCallback
from sb3_pvp.callbacks.episode_metrics import EpisodeMetricsCallback
from sb3_pvp.callbacks.fight_metrics import FightMetricsCallback
from sb3_pvp.callbacks.league import LeagueCallback
from sb3_pvp.callbacks.novelty import NoveltyRewardCallback
from sb3_pvp.callbacks.observation_metrics import ObservationMetricsCallback
from sb3_pvp.callbacks.outcome_predictor import OutcomePredictorCallback
from sb3_pvp.callbacks.progress import ProgressCallback
from sb3_pvp.callbacks.reference_rating import ReferenceRatingCallback
from sb3_pvp.callbacks.reward_tracker import RewardTrackerCallback
from sb3_pvp.callbacks.self_play import SelfPlayCallback
from sb3_pvp.callbacks.wandb_artifacts import WandbArtifactsCallback
from sb3_pvp.callbacks.win_rate_eval import WinRateEvalCallback

__all__ = [
    "EarlyStoppingCallback",
    "EloCallback",
    "EpisodeLogCallback",
    "EpisodeMetricsCallback",
    "FightMetricsCallback",
    "LeagueCallback",
    "MaskableCheckpointCallback",
    "NoveltyRewardCallback",
    "ObservationMetricsCallback",
    "OutcomePredictorCallback",
    "ProgressCallback",
    "ReferenceRatingCallback",
    "RewardTrackerCallback",
    "SelfPlayCallback",
    "WandbArtifactsCallback",
    "WinRateEvalCallback",
]
