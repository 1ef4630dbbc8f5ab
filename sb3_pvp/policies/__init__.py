"""How a fighter decides. Saved models refer to these import paths, so they do not move."""

from sb3_pvp.policies.masked_multi_input import MaskedMultiInputPolicy

__all__ = ["MaskedMultiInputPolicy"]
