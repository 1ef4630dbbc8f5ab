"""Actors on many machines, with Ray: `use_ray` lets a `sb3_pvp.PvpPPO` learn from what they play.

Everybody in a Ray cluster runs code of everybody else: only join machines and people that you trust.
"""

from sb3_pvp.distributed.cluster import connect, room_for_actors
from sb3_pvp.distributed.ray_actors import RayActors, use_ray
from sb3_pvp.distributed.tasks import RayTasks

__all__ = ["RayActors", "RayTasks", "connect", "room_for_actors", "use_ray"]
