"""What is logged about opponents (self-play.md §11.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger

from sb3_pvp.callbacks.rollouts import TABLES
from sb3_pvp.selfplay import MatchMaker, Prioritised
from sb3_pvp.selfplay.match_log import SCORES

_OF_PAST = {
    "quality": "quality score of the past players, if the match maker keeps such",
    "softmax": "probability of a past player to be chosen next",
}
_STATISTICS = {
    "mean": "Mean",
    "min": "Smallest",
    "max": "Greatest",
    "std": "Standard deviation of the",
    "median": "Median",
}
_KINDS = {
    "past": "past players",
    "latest": "the latest snapshot",
    "target": "the given targets",
    "baseline": "the world's baseline",
}
METRICS = {
    "env/num_self_play": "Rows in self-play, two to a fight.",
    "env/num_past_self_play": "Rows that fight players of the league.",
    "env/num_specific_target_self_play": "Rows that fight the given targets.",
    "env/num_latest_target_self_play": "Rows that fight the newest snapshot.",
    "env/num_baseline": "Rows that fight the world's baseline.",
    "selfplay/past_num_opponents": "Players among whom the match maker chooses.",
    **{
        f"selfplay/past_{statistic}_{of}": f"{word} {meaning}."
        for of, meaning in _OF_PAST.items()
        for statistic, word in _STATISTICS.items()
    },
    "selfplay/past_entropy_softmax": "Entropy of the choice among past players, in bits.",
    "selfplay/past_quality_histogram": "Histogram of the quality scores, if asked for.",
    "selfplay/past_softmax_histogram": "Histogram of the probabilities to be chosen, if asked for.",
    "selfplay/average-target-rollouts": "Roll-outs that the past players had trained for whom the learner fought.",
    "selfplay/average-target-rollout-difference": (
        "Roll-outs that the learner is ahead of the past players whom it has fought, on average."
    ),
    **{
        f"selfplay/{kind}_{name}": meaning.format(who)
        for kind, who in _KINDS.items()
        for name, meaning in {
            "win_rate": "Share of this roll-out's fights against {} that the learner won, ties as half.",
            "matches": "Fights against {} that were decided or tied in this roll-out.",
        }.items()
    },
}


def win_figures(outcomes: Sequence[str]) -> dict[str, float]:
    """The number of a roll-out's fights and, if there were any, the win rate; broken fights are left out."""
    points = [SCORES[outcome] for outcome in outcomes if outcome in SCORES]
    return {"matches": len(points), "win_rate": sum(points) / len(points)} if points else {"matches": 0}


def record_past(logger: Logger, match_maker: MatchMaker, histograms: bool) -> None:
    """Logs what the match maker thinks of the past players."""
    chances = np.array(list(match_maker.probabilities().values()))
    values = {"softmax": chances}
    if isinstance(match_maker, Prioritised):
        values["quality"] = np.array(list(match_maker.qualities().values()))
    entropy = float(-(chances * np.log2(chances + 1e-10)).sum())
    figures: dict[str, float] = {"num_opponents": len(match_maker.players), "entropy_softmax": entropy}
    for name, numbers in values.items():
        if numbers.size:
            figures |= {f"{statistic}_{name}": float(getattr(np, statistic)(numbers)) for statistic in _STATISTICS}
        if histograms:
            logger.record(f"selfplay/past_{name}_histogram", th.from_numpy(numbers), exclude=(*TABLES, "json"))
    for name, value in figures.items():
        logger.record(f"selfplay/past_{name}", value, exclude="stdout")


def rollouts_of(model: BaseAlgorithm, step: int | None) -> float | None:
    """The roll-outs that lead to a step; ``None`` where that means nothing."""
    steps_of_a_rollout = int(getattr(model, "n_steps", 0)) * model.n_envs
    return None if step is None or not steps_of_a_rollout else step / steps_of_a_rollout
