"""Environments: Gymnasium, SB3 ``VecEnv`` and PettingZoo faces of the same fights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sb3_pvp.envs.env import NhEnv, PvpEnv
from sb3_pvp.opponents.opponents import OpponentChoice

if TYPE_CHECKING:
    from sb3_pvp.envs.pettingzoo_env import PvpParallelEnv
    from sb3_pvp.envs.vec_env import NhVecEnv, PvpVecEnv

__all__ = ["NhEnv", "NhVecEnv", "OpponentChoice", "PvpEnv", "PvpVecEnv", "parallel_env"]


def parallel_env(**kwargs: Any) -> PvpParallelEnv:
    """One fight as a PettingZoo ``ParallelEnv``, both seats played by agents; see `PvpParallelEnv` for the arguments.

    Raises `ImportError` with the command to run if PettingZoo is not installed.
    """
    from sb3_pvp.envs.pettingzoo_env import PvpParallelEnv

    return PvpParallelEnv(**kwargs)


def __getattr__(name: str) -> Any:
    # These need SB3, and with it torch, which takes seconds to import; PvpEnv does without.
    if name in ("NhVecEnv", "PvpVecEnv"):
        from sb3_pvp.envs import vec_env

        return getattr(vec_env, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
