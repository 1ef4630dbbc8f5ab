"""Alias of `sb3_pvp.games.osrs.sim`, for code that was written before the games had their own package."""

from sb3_pvp.games.osrs.sim import SimWorld

__all__ = ["SimWorld"]
