"""Environments: Gymnasium, SB3 ``VecEnv`` and PettingZoo faces of the same fights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sb3_pvp.envs.env import PvpEnv
from sb3_pvp.game import HOME_GAME
from sb3_pvp.opponents.opponents import OpponentChoice

if TYPE_CHECKING:
    from sb3_pvp.envs.pettingzoo_env import PvpParallelEnv
    from sb3_pvp.envs.vec_env import NhVecEnv, PvpVecEnv

__all__ = ["NhEnv", "NhVecEnv", "OpponentChoice", "PvpEnv", "PvpVecEnv", "parallel_env"]


class NhEnv(PvpEnv):
    """A `PvpEnv` whose game is NhEnv, unless ``game`` or ``contract`` names another one.

    Its fights have 176 observations (93 privileged ones) and 12 heads with 45 choices; those of DharokEnv have 40 (15),
    and 6 heads with 17. ``reset_params`` have the names of the wire (protocol.md §3).
    """

    home = HOME_GAME


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
