"""Player-versus-player self-play for Stable-Baselines3. Importing it registers its environments with Gymnasium."""

import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Imports take a while: until a command handles Ctrl-C itself, it ends at once, without a traceback of them.
_is_command = "".join(sys.argv[:1]).endswith("sb3-pvp") or not {"sb3_pvp.cli", "sb3_pvp.zoo"}.isdisjoint(sys.orig_argv)
if _is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from sb3_pvp import former  # noqa: E402
from sb3_pvp.game import register_environments, register_game  # noqa: E402

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
