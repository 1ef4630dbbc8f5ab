"""A fight as text: one frame per tick, two fighters side by side.

It reads observations and meta records only, so it shows fights of every world, embedded or remote. What is drawn
differently from contract to contract is a `Look`.
"""

from sb3_pvp.envs.render.fighter import Fighter
from sb3_pvp.envs.render.frame import render_fighters, render_world

__all__ = ["Fighter", "render_fighters", "render_world"]
