"""Actors on many machines, with Ray: `use_ray` lets a `sb3_pvp.PvpPPO` learn from what they play.

Everybody in a Ray cluster runs code of everybody else: only join machines and people that you trust.
"""

from sb3_pvp.algorithms.actors.cluster import connect, room_for_actors
from sb3_pvp.algorithms.actors.ray_actors import RayActors, use_ray

__all__ = ["RayActors", "connect", "room_for_actors", "use_ray"]
