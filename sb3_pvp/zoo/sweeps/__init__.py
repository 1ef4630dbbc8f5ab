"""Hyperparameter optimisation with Optuna: search spaces, objectives, and studies shared by several processes."""
