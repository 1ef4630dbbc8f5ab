"""Player-versus-player self-play for Stable-Baselines3; importing it registers its environments with Gymnasium."""

from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from sb3_pvp.loading import load

__all__ = ["__version__", "load"]

__version__ = "0.1.0"

if "NhEnv" not in gymnasium.registry:
    gymnasium.register("NhEnv", entry_point="sb3_pvp.envs:NhEnv")


def __getattr__(name: str) -> Any:
    """`load`, imported when it is first asked for: it needs torch, and ``import sb3_pvp`` shall not."""
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sb3_pvp.loading import load

    return load
