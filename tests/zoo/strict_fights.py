"""Fights that refuse illegal actions of the learner, in this process or in any that trains with `StrictCallback`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from sb3_pvp.envs.fights import LEARNER, Fights


def refusing(step: Callable[..., None], steps: list[int]) -> Callable[..., None]:
    """`Fights.step`, which first checks the learner's actions, and notes how many fights there are."""

    def strict_step(fights: Fights, actions: Any) -> None:
        actions = np.asarray(actions)
        masks = fights.world.masks[:, LEARNER]
        for head in range(fights.contract.num_heads):
            allowed = fights.contract.conditional_mask(masks, actions[:, :head])
            assert allowed[np.arange(len(actions)), actions[:, head]].all(), f"illegal choice in head {head}"
        steps.append(len(actions))
        step(fights, actions)

    return strict_step


class StrictCallback(BaseCallback):
    """Makes all fights of the process strict, and reports at the end how many steps they had."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []
        Fights.step = refusing(Fights.step, self.steps)

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        print(f"{len(self.steps)} strict steps")
