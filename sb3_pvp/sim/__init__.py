"""The old name of `sb3_pvp.games.osrs.sim`, which goes on working."""

from sb3_pvp.games.osrs.sim import SimWorld

__all__ = ["SimWorld"]
