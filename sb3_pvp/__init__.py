"""Player-versus-player self-play for Stable-Baselines3; importing it registers its environments with Gymnasium."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium

if TYPE_CHECKING:
    from sb3_pvp.loading import load
    from sb3_pvp.ppo import PvpPPO

__all__ = ["PvpPPO", "__version__", "load"]

__version__ = "0.1.0"

# Every game is an environment with the name of its contract.
for _contract in ("NhEnv", "DharokEnv"):
    if _contract not in gymnasium.registry:
        gymnasium.register(_contract, entry_point="sb3_pvp.envs:NhEnv", kwargs={"contract": _contract})


# These need torch, and ``import sb3_pvp`` shall not: they are imported when they are first asked for.
_LAZY = {"PvpPPO": "sb3_pvp.ppo", "load": "sb3_pvp.loading"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
