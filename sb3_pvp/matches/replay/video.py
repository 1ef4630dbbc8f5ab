"""A recorded fight as a video, by ffmpeg."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from sb3_pvp.common.atomic_files import replacing
from sb3_pvp.common.errors import Refusal
from sb3_pvp.envs.renderer import RENDER_FPS
from sb3_pvp.game import find_game
from sb3_pvp.game.viewer import draws_pictures
from sb3_pvp.matches.replay.recording import Moment, Recording, TextScene

_EVEN = "pad=ceil(iw/2)*2:ceil(ih/2)*2"  # as H.264 asks for


def write_video(recording: Recording, path: str | Path) -> None:
    """Writes a fight as MP4, atomically, two ticks a second, as the game's viewer draws them.

    Raises `Refusal` without an ffmpeg that can, without pygame (the extra ``render``), and if recordings are texts.
    """
    if (program := shutil.which("ffmpeg")) is None:
        raise Refusal("videos need ffmpeg: apt-get install ffmpeg")
    viewer: Any = find_game(recording.game or recording.contract).viewer
    if isinstance(recording.moments[0].scene, TextScene) or not draws_pictures(viewer):
        raise Refusal(f"recordings of {recording.game or recording.contract} have no pictures, only texts")
    pictures = (viewer.picture(_scene(viewer, moment)) for moment in recording.moments)
    first = next(pictures)
    height, width, _ = first.shape
    given = f"-loglevel error -nostats -y -f rawvideo -pix_fmt rgb24 -framerate {RENDER_FPS} -s {width}x{height} -i -"
    made = f"-vf {_EVEN} -c:v libx264 -pix_fmt yuv420p -movflags +faststart -f mp4"
    with replacing(Path(path)) as partial:
        command = [program, *given.split(), *made.split(), str(partial)]
        # One that breaks off has said why.
        with suppress(BrokenPipeError), subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            for picture in (first, *pictures):
                process.stdin.write(picture.tobytes())
        if process.returncode:
            raise Refusal(f"ffmpeg ended with {process.returncode}: videos need one with libx264")


def _scene(viewer: Any, moment: Moment) -> Any:
    """Returns the scene with the choices that led to it, which a recording keeps beside it."""
    if not hasattr(viewer, "with_choices"):
        return moment.scene
    chosen, masks = ([each and getattr(each, name) for each in moment.decisions] for name in ("chosen", "open"))
    return viewer.with_choices(moment.scene, chosen, masks)
