"""Hyperparameter optimisation with Optuna: search spaces, objectives, and studies shared by several processes."""

from sb3_pvp.common.errors import extra

with extra("sweeps", "sweeps"):
    import optuna  # noqa: F401
