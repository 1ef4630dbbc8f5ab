"""A world that refuses illegal actions."""

from __future__ import annotations

import pytest
from strict_fights import refusing

from sb3_pvp.envs.fights import Fights


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes every fight refuse illegal joint actions of the learner; collects how many fights each step had."""
    steps: list[int] = []
    monkeypatch.setattr(Fights, "step", refusing(Fights.step, steps))
    return steps
