"""How training runs went: figures of run folders, over several seeds, as pictures."""

from sb3_pvp.callbacks.plots.groups import Band, Group, draw, group_runs, summarize
from sb3_pvp.callbacks.plots.metrics import METRICS, Curve, common_metric, read_curve
from sb3_pvp.callbacks.plots.run_folders import Run, find_runs

__all__ = [
    "METRICS",
    "Band",
    "Curve",
    "Group",
    "Run",
    "common_metric",
    "draw",
    "find_runs",
    "group_runs",
    "read_curve",
    "summarize",
]
