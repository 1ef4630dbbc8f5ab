"""Policies. Saved models refer to the classes by this import path, so it must not change."""

from sb3_pvp.policies.autoregressive import AutoregressivePolicy

__all__ = ["AutoregressivePolicy"]

# Pickle stores a class by its __module__; without this, moving the file would break saved models.
AutoregressivePolicy.__module__ = __name__
