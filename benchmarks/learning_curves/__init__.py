"""How fast a preset learns: training under a budget of CPU time with evaluations in between, and pictures of it."""

from __future__ import annotations

from benchmarks.learning_curves.callback import Budget
from benchmarks.learning_curves.run import CurveRun
from benchmarks.learning_curves.variants import VARIANTS

__all__ = ["VARIANTS", "Budget", "CurveRun"]
