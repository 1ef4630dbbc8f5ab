"""The embedded world: NH and Dharok fights as arrays, ticked by compiled code, without any server."""

from sb3_pvp.games.osrs.sim.world import SimWorld

__all__ = ["SimWorld"]
