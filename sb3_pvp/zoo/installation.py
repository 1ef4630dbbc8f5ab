"""What is put into rl-zoo3, and where."""

from __future__ import annotations

import multiprocessing
import sys

#: Loaded once by the server that forks the workers of a SubprocVecEnv, and not by each of them.
_WORKER_MODULES = ["stable_baselines3", "sb3_pvp.envs"]

#: Where rl-zoo3 keeps the names that are replaced. Modules that are imported later take them from the first three.
_MODULES = ("rl_zoo3", "rl_zoo3.utils", "rl_zoo3.exp_manager", "rl_zoo3.train", "rl_zoo3.enjoy")


def install_into_rl_zoo3() -> None:
    """See `sb3_pvp.zoo.install`."""
    from rl_zoo3 import ALGOS

    from sb3_pvp.ppo import PvpPPO
    from sb3_pvp.presets.presets import ALGO
    from sb3_pvp.zoo.manager import PvpExperimentManager
    from sb3_pvp.zoo.named_values import NamedValues
    from sb3_pvp.zoo.saved_runs import create_test_env, get_model_path

    ALGOS[ALGO] = PvpPPO  # a MaskablePPO, and with the arguments of one it does the same
    ours = {
        "ExperimentManager": PvpExperimentManager,
        "StoreDict": NamedValues,
        "create_test_env": create_test_env,
        "get_model_path": get_model_path,
    }
    for module in _MODULES:
        names = vars(sys.modules[module]) if module in sys.modules else {}
        names.update({name: replacement for name, replacement in ours.items() if name in names})
    multiprocessing.set_forkserver_preload(_WORKER_MODULES)
