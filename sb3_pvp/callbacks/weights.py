"""Model files with what acting needs, and no more."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

#: What a model's file has besides, and only training needs.
_TRAINING_ONLY = (
    "training_state",
    "outcome_predictor",
    "curve_progress",
    "ep_info_buffer",
    "ep_success_buffer",
    "_last_obs",
    "_last_episode_starts",
)


def save_weights(model: BaseAlgorithm, path: Path) -> None:
    """Saves the model without what only training needs; what the optimiser has gathered is left out as well.

    SB3 loads the file like any other; learning goes on from it with a fresh optimiser.
    """
    optimizer: Any = model.policy.optimizer
    gathered, optimizer.state = optimizer.state, defaultdict(dict)
    try:
        model.save(path, exclude=_TRAINING_ONLY)
    finally:
        optimizer.state = gathered
