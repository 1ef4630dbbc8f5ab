"""How to decide: policies, their networks and heads, sampling; model files and exported graphs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sb3_pvp.policies.autoregressive import AutoregressivePolicy

__all__ = ["AutoregressivePolicy"]


def __getattr__(name: str) -> Any:
    # Imported on first use: it needs torch, and who only looks for a file that ships does not.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module("sb3_pvp.policies.autoregressive"), name)
    return found
