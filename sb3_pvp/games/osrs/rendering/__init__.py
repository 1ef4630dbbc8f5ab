"""A fight to look at, tick by tick: `scene_of` says what is to see; text, picture and page are views of it.

It reads observations and meta records, so it shows fights of every world, embedded or remote; of the embedded world
it knows more (`sb3_pvp.games.osrs.rendering.embedded`). What is told differently from contract to contract is a `Look`.
"""

from sb3_pvp.games.osrs.rendering.fighter import Fighter
from sb3_pvp.games.osrs.rendering.scene import Scene, fighters_scene, scene_of
from sb3_pvp.games.osrs.rendering.text import render_text

__all__ = ["Fighter", "Scene", "fighters_scene", "render_text", "scene_of"]
