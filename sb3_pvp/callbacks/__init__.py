"""SB3 callbacks for training fighters; in rl-zoo3, list them under ``callback:`` with their arguments.

Invalid arguments raise `ValueError` at once; what does not fit the model, environment or run, when training starts.
"""

from sb3_pvp.callbacks.action_limit import ActionLimitCallback
from sb3_pvp.callbacks.checkpoint import MaskableCheckpointCallback
from sb3_pvp.callbacks.early_stopping import EarlyStoppingCallback
from sb3_pvp.callbacks.episodes import EpisodeLogCallback
from sb3_pvp.callbacks.evaluations import WinRateEvalCallback
from sb3_pvp.callbacks.expert_iteration import ExpertIterationCallback
from sb3_pvp.callbacks.exploiters import ExploitabilityCallback, ExploiterCallback
from sb3_pvp.callbacks.fight_metrics import FightMetricsCallback
from sb3_pvp.callbacks.ghost_self_play import GhostSelfPlayCallback
from sb3_pvp.callbacks.imitation_callback import ImitationCallback
from sb3_pvp.callbacks.league_callback import EloCallback, LeagueCallback
from sb3_pvp.callbacks.metric_lines import MetricLinesCallback
from sb3_pvp.callbacks.novelty import NoveltyRewardCallback
from sb3_pvp.callbacks.observations_callback import ObservationMetricsCallback
from sb3_pvp.callbacks.open_loop_video import OpenLoopVideoCallback
from sb3_pvp.callbacks.outcome_predictor_callback import OutcomePredictorCallback
from sb3_pvp.callbacks.progress import ProgressCallback
from sb3_pvp.callbacks.self_play import SelfPlayCallback
from sb3_pvp.callbacks.wandb_artifacts import WandbArtifactsCallback

__all__ = [
    "ActionLimitCallback",
    "EarlyStoppingCallback",
    "EloCallback",
    "EpisodeLogCallback",
    "ExpertIterationCallback",
    "ExploitabilityCallback",
    "ExploiterCallback",
    "FightMetricsCallback",
    "GhostSelfPlayCallback",
    "ImitationCallback",
    "LeagueCallback",
    "MaskableCheckpointCallback",
    "MetricLinesCallback",
    "NoveltyRewardCallback",
    "ObservationMetricsCallback",
    "OpenLoopVideoCallback",
    "OutcomePredictorCallback",
    "ProgressCallback",
    "SelfPlayCallback",
    "WandbArtifactsCallback",
    "WinRateEvalCallback",
]
