"""How these fights look: the `sb3_pvp.game.Viewer` of NhEnv and DharokEnv."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.game import World
from sb3_pvp.games.osrs.rendering.scene import Scene, scene_of
from sb3_pvp.games.osrs.rendering.text import render_text


class OsrsViewer:
    """Text and picture of a `Scene`."""

    def scene(
        self,
        world: World,
        fight: int,
        names: Sequence[str],
        actions: Sequence[NDArray[np.int64] | None] = (None, None),
        masks: Sequence[NDArray[np.bool_] | None] = (None, None),
    ) -> Scene:
        """See `scene_of`."""
        return scene_of(world, fight, names, actions, masks)

    def text(self, scene: Scene, color: bool = True) -> str:
        """See `render_text`."""
        return render_text(scene, color=color)

    def picture(self, scene: Scene) -> NDArray[np.uint8]:
        """Uint8 ``(640, 960, 3)``; needs pygame."""
        from sb3_pvp.games.osrs.rendering.picture.drawing import scene_array

        return scene_array(scene)
