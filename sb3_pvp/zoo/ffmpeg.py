"""The program ``ffmpeg``, which comes with the extra ``render`` where the system has none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def ffmpeg_on_path() -> Iterator[None]:
    """Lets commands find ``ffmpeg``: the system's, or else the one that moviepy uses, if there is one."""
    program = None if shutil.which("ffmpeg") else _bundled()
    if program is None:
        yield
        return
    before = os.environ.get("PATH", os.defpath)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"ffmpeg{program.suffix if os.name == 'nt' else ''}").symlink_to(program)
        os.environ["PATH"] = os.pathsep.join([folder, before])
        try:
            yield
        finally:
            os.environ["PATH"] = before


def _bundled() -> Path | None:
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError:
        return None
    return Path(get_ffmpeg_exe())
