"""The viewer of NhEnv and DharokEnv: fights as text, pictures, recordings and replay pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sb3_pvp.common.arguments import from_plain
from sb3_pvp.common.errors import extra
from sb3_pvp.game import ControlGroup, Drill, SeenFight, World
from sb3_pvp.games.osrs.controls import CONTROLS, action_at, idle_actions
from sb3_pvp.games.osrs.drills import DRILLS
from sb3_pvp.games.osrs.figures import figures_of
from sb3_pvp.games.osrs.reasons import actions_at_will, reasons_of
from sb3_pvp.games.osrs.rendering.events import events_of
from sb3_pvp.games.osrs.rendering.scene import Choices, Scene, scene_of, with_choices
from sb3_pvp.games.osrs.rendering.seen import seen_scene_of
from sb3_pvp.games.osrs.rendering.text import render_text

if TYPE_CHECKING:
    from sb3_pvp.games.osrs.wire_recordings import WireFight

#: In the order of execution: later scripts use definitions of earlier ones.
_SCRIPTS = ("fighters.js", "arena.js", "panels.js", "story.js")


@dataclass(frozen=True)
class OsrsViewer:
    """The `sb3_pvp.game.Viewer` of both games, whose scenes are of class `Scene`."""

    contract: str = "NhEnv"  #: The name of the game, for what a human may do.

    real_time = True  #: See `sb3_pvp.game.Viewer`.
    #: Endings of the files that `read_recording` reads.
    recordings: ClassVar = (".jsonl", ".jsonl.gz")

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

    def seen(
        self,
        world: World,
        fight: int,
        names: Sequence[str],
        seat: int,
        actions: Sequence[NDArray[np.int64] | None] = (None, None),
        masks: Sequence[NDArray[np.bool_] | None] = (None, None),
    ) -> Scene:
        """See `seen_scene_of`."""
        return seen_scene_of(world, fight, names, seat, actions, masks)

    def controls(self) -> tuple[ControlGroup, ...]:
        """Returns what a human may do."""
        return CONTROLS[self.contract]

    def why_not(self, scene: Scene, seat: int) -> Mapping[str, str]:
        """See `reasons_of`."""
        return reasons_of(scene, seat)

    def at_will(self, scene: Scene, seat: int) -> frozenset[str]:
        """See `actions_at_will`."""
        return actions_at_will(scene, seat)

    def idle(self, scene: Scene, seat: int) -> tuple[str, ...]:
        """See `idle_actions`."""
        return idle_actions(scene, seat)

    def at_offset(self, east: int, north: int) -> str | None:
        """See `action_at`; ``None`` in the game without movement."""
        return action_at(east, north) if self.contract == "NhEnv" else None

    def fight_figures(self, scenes: Sequence[Scene], seat: int) -> list[tuple[str, str]]:
        """See `figures_of`."""
        return figures_of(scenes, seat)

    def drills(self) -> tuple[Drill, ...]:
        """Returns exercises for a human, none in the game without protection prayers."""
        return DRILLS if self.contract == "NhEnv" else ()

    def text(self, scene: Scene, color: bool = True) -> str:
        """See `render_text`."""
        return render_text(scene, color=color)

    def with_choices(self, scene: Scene, chosen: Choices, masks: Choices) -> Scene:
        """See `with_choices`."""
        return with_choices(scene, chosen, masks)

    def picture(self, scene: Scene) -> NDArray[np.uint8]:
        """Returns the picture, uint8 ``(640, 960, 3)``; `MissingExtra` without pygame."""
        with extra("render", "pictures"):  # here: pygame is an optional dependency
            from sb3_pvp.games.osrs.rendering.picture.drawing import scene_array

        return scene_array(scene)

    def read_scene(self, plain: Any) -> Scene:
        """Returns the scene with these plain values; `ValueError`, with the location, if they are invalid."""
        return from_plain(Scene, plain)

    def read_recording(self, path: str | Path, fight: int = 0) -> WireFight:
        """See `sb3_pvp.games.osrs.wire_recordings.read_wire_recording`."""
        from sb3_pvp.games.osrs.wire_recordings import read_wire_recording  # here: it imports the socket client

        return read_wire_recording(path, fight)

    def read_seen(self, path: str | Path) -> list[SeenFight]:
        """See `sb3_pvp.games.osrs.wire_recordings.read_seen`."""
        from sb3_pvp.games.osrs.wire_recordings import read_seen

        return read_seen(path)

    def events(self, scenes: Sequence[Scene]) -> list[dict[str, Any]]:
        """See `events_of`."""
        return [asdict(event) for event in events_of(scenes)]

    def page(self) -> Mapping[str, str]:
        """Returns ``script`` and ``style`` for a page. The script fills in ``scene`` of ``replay/data/fight.js``."""
        data = files("sb3_pvp.games.osrs.rendering") / "data"
        script = "\n".join((data / name).read_text("utf-8") for name in _SCRIPTS)
        return {"script": script, "style": (data / "scene.css").read_text("utf-8")}
