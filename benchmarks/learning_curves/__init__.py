"""Learning curves of presets: training with a budget of CPU time and periodic evaluations, and plots of the result."""

from __future__ import annotations

from benchmarks.learning_curves.callback import Budget
from benchmarks.learning_curves.run import CurveRun
from benchmarks.learning_curves.variants import VARIANTS

__all__ = ["VARIANTS", "Budget", "CurveRun"]
