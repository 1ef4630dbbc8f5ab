"""How a fighter decides. Saved models refer to the classes by this import path, so it does not change."""

from sb3_pvp.policies.masked_multi_input import MaskedMultiInputPolicy

__all__ = ["MaskedMultiInputPolicy"]

# Pickle writes down where a class says that it lives; the files behind this package may be rearranged.
MaskedMultiInputPolicy.__module__ = __name__
