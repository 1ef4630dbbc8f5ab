"""Searches for good hyperparameters: what is varied, what counts as good, and studies that several processes share.

Importing this loads neither Optuna nor torch.
"""

from sb3_pvp.zoo.sweeps.space import DEFAULT_SPACE, Parameter, read_space

__all__ = ["DEFAULT_SPACE", "Parameter", "read_space"]
