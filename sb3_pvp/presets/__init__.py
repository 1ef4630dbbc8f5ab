"""Hyperparameter files: import, merge, validate."""
