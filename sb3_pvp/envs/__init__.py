"""Environments: Gymnasium, SB3 ``VecEnv`` and PettingZoo faces of the same fights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sb3_pvp.envs.nh_env import NhEnv
from sb3_pvp.envs.opponent_choice import OpponentChoice

if TYPE_CHECKING:
    from sb3_pvp.envs.pettingzoo_env import NhParallelEnv
    from sb3_pvp.envs.vec_env import NhVecEnv

__all__ = ["NhEnv", "NhVecEnv", "OpponentChoice", "parallel_env"]


def parallel_env(**kwargs: Any) -> NhParallelEnv:
    """One fight as a PettingZoo ``ParallelEnv``, both seats played by agents; see `NhParallelEnv` for the arguments.

    Raises `ImportError` with the command to run if PettingZoo is not installed.
    """
    from sb3_pvp.envs.pettingzoo_env import NhParallelEnv

    return NhParallelEnv(**kwargs)


def __getattr__(name: str) -> Any:
    # NhVecEnv needs SB3, and with it torch, which takes seconds to import; NhEnv does without.
    if name == "NhVecEnv":
        from sb3_pvp.envs.vec_env import NhVecEnv

        return NhVecEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
