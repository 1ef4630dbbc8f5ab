"""Rendering of fights: `scene_of` collects the visible state of a tick; text, picture and replay page draw it.

Scenes are made from observations and meta records, so that fights of any world can be shown. The embedded world gives
more detail (`sb3_pvp.games.osrs.rendering.embedded`). An `ObservationMap` holds the differences between contracts.
"""

from sb3_pvp.games.osrs.rendering.fighter import ShownFighter
from sb3_pvp.games.osrs.rendering.scene import Scene, fighters_scene, scene_of
from sb3_pvp.games.osrs.rendering.text import render_text

__all__ = ["Scene", "ShownFighter", "fighters_scene", "render_text", "scene_of"]
