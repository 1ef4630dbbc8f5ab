"""Player-versus-player self-play for Stable-Baselines3. Importing it registers its environments with Gymnasium."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sb3_pvp import former
from sb3_pvp.game import register_environments, register_game

if TYPE_CHECKING:
    from sb3_pvp.algorithms.dreamer.dreamer import DreamerV3
    from sb3_pvp.algorithms.mapoca import MAPOCA
    from sb3_pvp.algorithms.ppo import PvpPPO
    from sb3_pvp.policies.files.demonstrations import load_demonstrations
    from sb3_pvp.policies.files.model_files import load
    from sb3_pvp.zoo.imports.pvp_ml import import_upstream

__all__ = [
    "MAPOCA",
    "DreamerV3",
    "PvpPPO",
    "__version__",
    "import_upstream",
    "load",
    "load_demonstrations",
    "register_game",
]

__version__ = "0.1.0"

former.install()
register_environments()

# Imported on first use, because they need torch and ``import sb3_pvp`` must stay fast.
_LAZY = {
    "DreamerV3": "sb3_pvp.algorithms.dreamer.dreamer",
    "MAPOCA": "sb3_pvp.algorithms.mapoca",
    "PvpPPO": "sb3_pvp.algorithms.ppo",
    "import_upstream": "sb3_pvp.zoo.imports.pvp_ml",
    "load": "sb3_pvp.policies.files.model_files",
    "load_demonstrations": "sb3_pvp.policies.files.demonstrations",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
