"""The environments: the same fights as a Gymnasium ``Env`` and ``VectorEnv``, an SB3 ``VecEnv``, a ``ParallelEnv``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sb3_pvp.envs.env import PvpEnv
from sb3_pvp.game import HOME_GAME
from sb3_pvp.players.opponents import OpponentChoice

if TYPE_CHECKING:
    from sb3_pvp.envs.pettingzoo_env import parallel_env as parallel_env
    from sb3_pvp.envs.vec_env import NhVecEnv, PvpVecEnv
    from sb3_pvp.envs.vector_env import PvpVectorEnv

__all__ = ["NhEnv", "NhVecEnv", "OpponentChoice", "PvpEnv", "PvpVecEnv", "PvpVectorEnv"]

# Imported on first use: they need PettingZoo, or SB3 and with it torch, which takes seconds to import.
_LAZY = {
    "NhVecEnv": "vec_env", "PvpVecEnv": "vec_env", "PvpVectorEnv": "vector_env", "parallel_env": "pettingzoo_env"
}  # fmt: skip


class NhEnv(PvpEnv):
    """A `PvpEnv` that plays NhEnv unless ``game`` or ``contract`` names another game.

    NhEnv has 176 observations, 93 privileged ones and 12 heads with 45 choices in total; DharokEnv has 40, 15, and 6
    heads with 17. The keys of ``reset_params`` are those of the wire protocol (protocol.md §3).
    """

    home = HOME_GAME


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"sb3_pvp.envs.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
