"""How fast a preset learns: training under a budget of CPU time with evaluations in between, and pictures of it."""

from __future__ import annotations

from sb3_pvp.learning_curve.callback import Budget
from sb3_pvp.learning_curve.run import CurveRun
from sb3_pvp.learning_curve.variants import VARIANTS

__all__ = ["VARIANTS", "Budget", "CurveRun"]
