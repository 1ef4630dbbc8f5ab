"""How a fighter decides. Saved models refer to the classes by this import path, so it does not change."""

from sb3_pvp.policies.autoregressive import AutoregressivePolicy

__all__ = ["AutoregressivePolicy"]

# Pickle writes down where a class says that it lives; the files behind this package may be rearranged.
AutoregressivePolicy.__module__ = __name__
