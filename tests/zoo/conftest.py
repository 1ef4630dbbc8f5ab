"""A world that refuses illegal actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sb3_pvp.envs.fights import LEARNER, Fights


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes every fight refuse illegal joint actions of the learner; collects how many fights each step had."""
    steps: list[int] = []
    step: Callable[..., None] = Fights.step

    def strict_step(fights: Fights, actions: Any) -> None:
        actions = np.asarray(actions)
        masks = fights.world.masks[:, LEARNER]
        for head in range(fights.contract.num_heads):
            allowed = fights.contract.conditional_mask(masks, actions[:, :head])
            assert allowed[np.arange(len(actions)), actions[:, head]].all(), f"illegal choice in head {head}"
        steps.append(len(actions))
        step(fights, actions)

    monkeypatch.setattr(Fights, "step", strict_step)
    return steps
